"""Shared checks, whose messages say what was needed, what was given and what to do."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Key


class InvalidDensityError(ArithmeticError):
    """The log-density or its ratios were NaN or +inf at every proposal."""


def instance(name: str, value: Any, needed: type, example: str) -> None:
    if not isinstance(value, needed):
        what = kind_of(value) if isinstance(value, type) else repr(value)
        raise TypeError(f"{name} must be such as {example}; got {what}.")


def kind_of(value: Any) -> str:
    """The type of a value for an error message, or the class itself if the value is a class."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def count(name: str, value: Any, minimum: int) -> None:
    """Raise unless value is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer; got {value!r}.")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}; got {value}.")


def number(name: str, value: Any, low: float, high: float, ends: str = "[]") -> None:
    """Raise unless value is a real number between two ends, included by "[" but not by "("."""
    real = isinstance(value, int | float | np.integer | np.floating)
    if isinstance(value, bool) or not real:
        raise TypeError(f"{name} must be a number; got {value!r}.")
    above = low <= value if ends[0] == "[" else low < value
    below = value <= high if ends[1] == "]" else value < high
    if not (above and below):
        inside = f"{ends[0]}{low:g}, {high:g}{ends[1]}"
        raise ValueError(f"{name} must lie in {inside}; got {value!r}.")


def choice(name: str, value: Any, allowed: Iterable[str], advice: str = "") -> None:
    """Raise unless value is one of the allowed strings."""
    words = tuple(allowed)
    if not isinstance(value, str) or value not in words:
        needed = " or ".join(map(repr, words)) if len(words) == 2 else f"one of {', '.join(words)}"
        raise ValueError(f"{name} must be {needed}; got {value!r}.{advice and ' ' + advice}")


def shape(value: Any) -> tuple[int, ...]:
    """The shape of a state, given as positive integers or as a single one."""
    sides = tuple(value) if isinstance(value, Iterable) else (value,)
    for side in sides:
        if isinstance(side, bool) or not isinstance(side, int | np.integer):
            raise TypeError(f"shape must hold positive integers; got {value!r}.")
    if not sides or min(sides) < 1:
        raise ValueError(f"shape must hold positive integers; got {value!r}.")
    return tuple(map(int, sides))


def num_states(value: Any, shape: tuple[int, ...]) -> tuple[int, np.ndarray | None]:
    """The largest number of values of a site, and the number at each site unless all are equal."""
    if not np.ndim(value):
        count("num_states", value, minimum=2)
        return int(value), None
    each = array("num_states", value)
    if not np.issubdtype(each.dtype, np.integer):
        raise TypeError(f"num_states must hold integers; got dtype {each.dtype}.")
    if each.shape != shape:
        raise ValueError(
            f"num_states must be one number, or one for each site, of shape {shape}; got "
            f"{each.shape}."
        )
    if each.min() < 2:
        raise ValueError(
            f"num_states must be at least 2 at each site; got {each.min()}. A site of one value is "
            "a constant: leave it out of the state."
        )
    alike = each.min() == each.max()
    return int(each.max()), None if alike else each.astype(np.int32)


def bits(name: str, value: Any) -> Any:
    """States as small integers, from integers, booleans or floats that are 0 or 1.

    Raises for other values, except while JAX traces a program: then there are none to check.
    """
    if isinstance(value, Tracer):
        return value.astype(jnp.int8)
    found = array(name, value)
    if not _only_bits(found):
        raise ValueError(f"{name} must hold bits 0 and 1; {_values(found)}. {_TO_BITS}")
    return jnp.asarray(found, jnp.int8)


def images(name: str, value: Any) -> np.ndarray:
    """Training data after a check: bits as int8, or grey levels 0 ... 255 as uint8.

    An array of uint8 that holds only 0 and 1 counts as bits.
    """
    found = array(name, value)
    if found.ndim < 2 or found.size == 0:
        raise ValueError(
            f"{name} must hold states along the first axis, shape (n, *shape); got {found.shape}."
        )
    if _only_bits(found):
        return found.astype(np.int8, copy=False)
    if found.dtype == np.uint8:
        return found
    raise ValueError(
        f"{name} must hold bits 0 and 1, or grey levels 0 ... 255 as uint8; {_values(found)}. "
        "Spins s = -1, 1 are bits x = (s + 1) / 2."
    )


_TO_BITS = (
    "Spins s = -1, 1 are bits x = (s + 1) / 2; grey levels become bits by "
    "hs.data.DataSet.binarized."
)


def array(name: str, value: Any) -> np.ndarray:
    """An array of numbers or booleans, of any shape."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise TypeError(f"{name} must be an array of numbers; got {value!r:.80}.") from error
    if not (np.issubdtype(found.dtype, np.number) or found.dtype == bool):
        hint = " Take its images, data.train." if hasattr(value, "train") else ""
        raise TypeError(f"{name} must be an array of numbers; got {value!r:.80}.{hint}")
    return found


def _only_bits(array: np.ndarray) -> bool:
    if array.dtype == bool or array.size == 0:
        return True
    if np.issubdtype(array.dtype, np.integer):
        return bool(array.min() >= 0 and array.max() <= 1)
    return bool(np.all((array == 0) | (array == 1)))


def _values(array: np.ndarray) -> str:
    if np.iscomplexobj(array):
        return f"got dtype {array.dtype}"
    return f"got values from {array.min():g} to {array.max():g}, dtype {array.dtype}"


def as_key(key: Any) -> Key[Array, ""]:
    """A JAX key from a seed, an old-style key or a key."""
    if isinstance(key, bool | float):
        raise TypeError(f"key must be an integer seed or a JAX key; got {key!r}.")
    if isinstance(key, int | np.integer):
        if not 0 <= key < 2**64:
            raise ValueError(
                f"a seed has at most 64 bits and no sign, from 0 to 2^64 - 1; got {key}."
            )
        low, high = int(key) % 2**32, int(key) // 2**32
        key = jax.random.key(np.uint32(low))
        # JAX alone would use only the lower half of a seed.
        return jax.random.fold_in(key, np.uint32(high)) if high else key
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.shape == ():
            return key
    elif getattr(key, "dtype", None) == np.uint32 and getattr(key, "shape", None) == (2,):
        return jax.random.wrap_key_data(jnp.asarray(key))
    raise TypeError(f"key must be an integer seed or one JAX key, jax.random.key(0); got {key!r}.")


def outcome(needed: str, function: Callable, *arguments: Any) -> Any:
    """The shapes that a user's function returns, without running it.

    Args:
        needed: what the function must be, for the error message.
        function: called with shapes instead of arrays.

    Raises:
        TypeError: if the call fails; the message says why.
    """
    try:
        return jax.eval_shape(function, *arguments)
    except (TypeError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), "")[:200]
        raise TypeError(
            f"{needed}, written with jax.numpy; called so, it raised {type(error).__name__}: "
            f"{reason}"
        ) from error


def fits(what: str, needed: float, advice: str) -> None:
    """Raise if more bytes are needed than are available."""
    available = memory()
    if needed > available:
        raise MemoryError(
            f"{what} would need about {in_words(needed)}; {in_words(available)} are there. {advice}"
        )


def in_words(size: float) -> str:
    """A number of bytes, with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def memory() -> int:
    """Bytes that a run can use: those of the default device, or of this machine."""
    statistics = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if statistics and "bytes_limit" in statistics:
        return int(statistics["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on every system
        return 2**62
