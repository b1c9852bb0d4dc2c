"""What must be refused: a call, the exception's type, and the words that must be in it."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest


def shown(value) -> str:
    """A value in the name of a case: the same in every process, so without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


class Refused(NamedTuple):
    call: Callable[[], Any]
    error: type[BaseException] | tuple[type[BaseException], ...]
    words: str  # a regular expression

    def check(self) -> None:
        with pytest.raises(self.error, match=self.words) as caught:
            self.call()
        # A child of ValueError such as JSONDecodeError, or of another library, says too little.
        assert type(caught.value).__module__.startswith(("builtins", "hopscale")), caught.value
        assert len(str(caught.value)) < 600


NOT_INTEGERS = (True, 2.0, 1.5, "3", [3], float("nan"), np.array([1, 2]), np.float32(2), 3j)
NOT_NUMBERS = (True, "0.5", [0.5], None, 1j, np.array([0.5, 0.5]), {})


def counts(names: Mapping[str, tuple[Callable[[Any], Any], int]]) -> Iterator[tuple[str, Refused]]:
    """Every integer argument with all that is not an integer, and with one that is too small.

    Args:
        names: of each argument, in a message; what is called with it, and the least it may be.
    """
    for label, (call, least) in names.items():
        name = re.escape(label.rpartition(" ")[2])
        for value in NOT_INTEGERS:
            words = rf"{name} must be an integer; got {re.escape(repr(value))}"
            yield f"{label}={shown(value)}", Refused(_with(call, value), TypeError, words)
        words = rf"{name} must be at least {least}; got {least - 1}"
        yield f"{label}={least - 1}", Refused(_with(call, least - 1), ValueError, words)


def numbers(
    names: Mapping[str, tuple[Callable[[Any], Any], tuple[float, ...]]],
) -> Iterator[tuple[str, Refused]]:
    """Every real argument with all that is not a number, with NaN, and with what is out of range.

    Args:
        names: of each argument; what is called with it, and values out of its range.
    """
    for label, (call, outside) in names.items():
        name = re.escape(label.rpartition(" ")[2])
        for value in NOT_NUMBERS:
            words = rf"{name} must be a number; got {re.escape(repr(value))}"
            yield f"{label}={shown(value)}", Refused(_with(call, value), TypeError, words)
        for value in (*outside, float("nan")):
            yield (
                f"{label}={shown(value)}",
                Refused(_with(call, value), ValueError, f"{name}.* must"),
            )


def choices(
    names: Mapping[str, tuple[Callable[[Any], Any], str]],
) -> Iterator[tuple[str, Refused]]:
    """Every argument that is one of a few words, with another word and with no word at all.

    Args:
        names: of each argument; what is called with it, and one of the words it may be.
    """
    for label, (call, example) in names.items():
        name = re.escape(label.rpartition(" ")[2])
        for value in ("banana", example.upper() + "x", 3, None, [example], True):
            words = rf"{name} must be .*{re.escape(example)}.*got {re.escape(repr(value))}"
            yield (
                f"{label}={shown(value)}",
                Refused(_with(call, value), (ValueError, TypeError), words),
            )


NOT_REAL_ARRAYS: tuple[tuple[Any, type[BaseException], str], ...] = (
    ("text", TypeError, "must be an array of numbers; got 'text'"),
    (["a", "b"], TypeError, "must be an array of numbers"),
    (None, TypeError, "must be an array of numbers; got None"),
    ([[1.0], [1.0, 2.0]], TypeError, "must be an array of numbers"),
    (np.array([1j, 2j]), TypeError, "must be an array of numbers"),
    (np.array([True, False]), TypeError, "must be an array of numbers"),
    ({"a": 1}, TypeError, "must be an array of numbers"),
    (lambda x: x, TypeError, "must be an array of numbers"),
    (np.array([np.nan, 0.5]), ValueError, "must be finite; it holds NaN or infinity"),
    (np.array([np.inf, 0.5]), ValueError, "must be finite; it holds NaN or infinity"),
)

NOT_BITS: tuple[tuple[Any, type[BaseException], str], ...] = (
    (0.7, ValueError, "hold bits 0 and 1.*from 0.7 to 0.7"),
    (5, ValueError, "hold bits 0 and 1.*from 5 to 5"),
    (-1, ValueError, r"hold bits 0 and 1.*x = \(s \+ 1\) / 2"),
    (np.nan, ValueError, "hold bits 0 and 1.*from nan to nan"),
    (np.inf, ValueError, "hold bits 0 and 1.*from inf to inf"),
    (1j, ValueError, "hold bits 0 and 1.*complex"),
    ("1", TypeError, "be an array of numbers"),
    (None, TypeError, "be an array of numbers"),
)

NOT_KEYS = (None, True, 0.5, "seed", [0], np.zeros(2), np.zeros((3, 2), np.uint32), jnp.zeros(3))


def arrays(names: Mapping[str, Callable[[Any], Any]]) -> Iterator[tuple[str, Refused]]:
    """Every array of real parameters with all that is none."""
    for label, call in names.items():
        name = label.rpartition(" ")[2]
        for value, error, words in NOT_REAL_ARRAYS:
            yield (
                f"{label}={shown(value):.40}",
                Refused(_with(call, value), error, f"{name} {words}"),
            )


def not_bits(
    names: Mapping[str, tuple[Callable[[Any], Any], tuple[int, ...]]],
) -> Iterator[tuple[str, Refused]]:
    """Every array of bits, of its shape, with all that is none."""
    for label, (call, shape) in names.items():
        name = label.rpartition(" ")[2]
        for value, error, words in NOT_BITS:
            array = np.full(shape, value)
            yield (
                f"{label}={shown(value)}",
                Refused(_with(call, array), error, f"{name} must {words}"),
            )


def keys(names: Mapping[str, Callable[[Any], Any]]) -> Iterator[tuple[str, Refused]]:
    """Every key with all that is none, and with seeds of too many bits."""
    for label, call in names.items():
        for value in NOT_KEYS:
            words = "key must be an integer seed or .*JAX key"
            yield f"{label}={shown(value)}", Refused(_with(call, value), TypeError, words)
        for value in (-1, 2**64):
            words = rf"64 bits and no sign, from 0 to 2\^64 - 1; got {value}"
            yield f"{label}={value}", Refused(_with(call, value), ValueError, words)


def kinds(
    names: Mapping[str, tuple[Callable[[Any], Any], str, tuple[Any, ...]]],
) -> Iterator[tuple[str, Refused]]:
    """Every argument that must be of a class of hopscale, with what is not.

    Args:
        names: of each argument; what is called with it, what the message recommends, and what is
            tried beside text, a number and a dictionary.
    """
    for label, (call, example, others) in names.items():
        name = label.rpartition(" ")[2]
        for value in ("text", 3, {}, *others):
            words = rf"{name} must be .*{re.escape(example)}.*got|got .*{re.escape(example)}"
            yield f"{label}={shown(value):.40}", Refused(_with(call, value), TypeError, words)


def _with(call, value):
    return lambda: call(value)
