"""Checks of settings and results that are read from files."""

from collections.abc import Mapping
from typing import Any


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


KINDS = {
    "a number": _is_number,
    "a number or null": lambda value: value is None or _is_number(value),
    "an integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "an object": lambda value: isinstance(value, dict),
}


def check(part: str, values: Mapping[str, Any], needed: Mapping[str, str]) -> None:
    """Raise unless every needed value is present and of the right kind.

    Args:
        part: what the values are: "settings" or "results".
        values: by name.
        needed: the kind of each, one of `KINDS`.

    Raises:
        ValueError: naming the first that is wrong.
    """
    for name, kind in needed.items():
        if name not in values:
            raise ValueError(f"{part}.{name} is missing")
        if not KINDS[kind](values[name]):
            raise ValueError(f"{part}.{name} must be {kind}; it is {values[name]!r}")


def check_names(part: str, values: Mapping[str, Any], allowed: Mapping[str, str]) -> None:
    """Raise for any name that is not allowed; "revision" is always allowed."""
    for name in values:
        if name not in allowed and name != "revision":
            raise ValueError(f"{part}.{name} is not a name that is used")
