"""Names of the previous version, which still work for one version, with a warning."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import equinox as eqx

Given = ParamSpec("Given")
Found = TypeVar("Found")

GOES_WITH = "0.3"


def warn(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that a name has changed, at the place where the caller's caller used it."""
    message = f"{old} is called {new} now; the old name goes with {GOES_WITH}."
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def renamed(
    **names: str,
) -> Callable[[Callable[Given, Found]], Callable[Given, Found]]:
    """A decorator for a function whose arguments had other names: `@renamed(old="new")`."""

    def around(function: Callable[Given, Found]) -> Callable[Given, Found]:
        @functools.wraps(function)
        def called(*given: Given.args, **named: Given.kwargs) -> Found:
            for old in names.keys() & named.keys():
                new, value = names[old], cast(Any, named.pop(old))
                if new in named:
                    raise TypeError(f"{old} is another name for {new}: give one of them.")
                warn(f"the argument {old}", new)
                named[new] = {old: OfState(value)} if new == "record" else value
            return function(*given, **named)

        return called

    return around


class OfState(eqx.Module):
    """A function of (state, info) from a function of one state, the old form of a statistic."""

    function: Callable = eqx.field(static=True)

    def __call__(self, state: Any, info: Any) -> Any:
        return self.function(state.x)
