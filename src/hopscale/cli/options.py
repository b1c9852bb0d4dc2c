"""Commands that combine the options of several functions."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def parameters(function: Callable, skip: int = 0) -> dict[str, inspect.Parameter]:
    """The parameters of a function by name, without the first few."""
    return dict(list(inspect.signature(function).parameters.items())[skip:])


def chosen(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The options of these names."""
    return {name: options[name] for name in names}


def with_options(command: Callable, *groups: dict[str, inspect.Parameter]) -> Callable:
    """The command with groups of parameters as its options; if names repeat, the first counts."""
    together: dict[str, inspect.Parameter] = {}
    for group in groups:
        together = {**together, **{n: p for n, p in group.items() if n not in together}}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in together.values()]
    )
    command.__annotations__ = {option.name: option.annotation for option in together.values()}
    return command
