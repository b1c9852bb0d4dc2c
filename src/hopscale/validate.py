"""Checks that everything shares: what was needed, what came, what to do."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Key


class InvalidDensityError(ArithmeticError):
    """The log-density was NaN or +inf wherever it was needed."""


def instance(name: str, value: Any, needed: type, example: str) -> None:
    if not isinstance(value, needed):
        what = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        raise TypeError(f"{name} must be such as {example}; got {what}.")


def count(name: str, value: Any, least: int) -> None:
    """Raise unless value is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer; got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}.")


def number(name: str, value: Any, low: float, high: float, ends: str = "[]") -> None:
    """Raise unless value is a real number between two ends, which "[" includes and "(" does not."""
    real = isinstance(value, int | float | np.integer | np.floating)
    if isinstance(value, bool) or not real:
        raise TypeError(f"{name} must be a number; got {value!r}.")
    above = low <= value if ends[0] == "[" else low < value
    below = value <= high if ends[1] == "]" else value < high
    if not (above and below):
        inside = f"{ends[0]}{low:g}, {high:g}{ends[1]}"
        raise ValueError(f"{name} must lie in {inside}; got {value!r}.")


def bits(name: str, value: Any) -> Any:
    """States as small integers, checked: integers, booleans or floats that are 0 or 1.

    While JAX traces a program there are no values to look at.
    """
    if isinstance(value, Tracer):
        return value.astype(jnp.int8)
    array = _numbers(name, value)
    if not _only_bits(array):
        raise ValueError(f"{name} must hold bits 0 and 1; {_values(array)}. {_TO_BITS}")
    return jnp.asarray(array, jnp.int8)


def images(name: str, value: Any) -> np.ndarray:
    """Data to learn from, checked: bits as int8, or grey levels 0 ... 255 as uint8.

    An array of uint8 that holds only 0 and 1 holds bits.
    """
    array = _numbers(name, value)
    if array.ndim < 2 or array.size == 0:
        raise ValueError(
            f"{name} must hold states along the first axis, shape (n, *shape); got {array.shape}."
        )
    if _only_bits(array):
        return array.astype(np.int8, copy=False)
    if array.dtype == np.uint8:
        return array
    raise ValueError(
        f"{name} must hold bits 0 and 1, or grey levels 0 ... 255 as uint8; {_values(array)}. "
        "Spins s = -1, 1 are bits x = (s + 1) / 2."
    )


_TO_BITS = (
    "Spins s = -1, 1 are bits x = (s + 1) / 2; grey levels become bits by "
    "hs.data.DataSet.binarized."
)


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise TypeError(f"{name} must be an array of numbers; got {value!r:.80}.") from error
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        hint = " Take its images, data.train." if hasattr(value, "train") else ""
        raise TypeError(f"{name} must be an array of numbers; got {value!r:.80}.{hint}")
    return array


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
    """A seed, an old-style key or a key, as a key."""
    if isinstance(key, bool | float):
        raise TypeError(f"key must be an integer seed or a JAX key; got {key!r}.")
    if isinstance(key, int | np.integer):
        if not -(2**63) <= key < 2**64:
            raise ValueError(f"a seed has at most 64 bits; got {key}.")
        low, high = int(key) % 2**32, int(key) // 2**32 % 2**32
        made = jax.random.key(np.uint32(low))
        # JAX alone would take the lower half of a seed only.
        return jax.random.fold_in(made, np.uint32(high)) if high else made
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.shape == ():
            return key
    elif getattr(key, "dtype", None) == np.uint32 and getattr(key, "shape", None) == (2,):
        return jax.random.wrap_key_data(jnp.asarray(key))
    raise TypeError(f"key must be an integer seed or one JAX key, jax.random.key(0); got {key!r}.")


def memory() -> int:
    """Bytes that a run can have: of the default device, or of this machine."""
    statistics = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if statistics and "bytes_limit" in statistics:
        return int(statistics["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on every system
        return 2**62
