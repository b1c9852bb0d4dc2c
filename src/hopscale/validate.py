"""Checks that everything shares: what was needed, what came, what to do."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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
