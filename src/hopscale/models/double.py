"""Double precision inside programs in single precision.

Outside `jax.enable_x64` JAX has no 64-bit numbers, and functions that were traced with them cannot
be transformed. A function made by `in_double` is therefore closed: it takes and returns 64-bit
numbers as two words of 32 bits each, and is traced again where it is batched.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def in_double(function: Callable) -> Callable:
    """The function with 64-bit numbers inside, and words in their place outside.

    Its arguments must hold no other arrays of uint32. Operations on integers must be those of 32
    bits, because some others are translated outside, where they would not be found.
    """
    closed = _closed(lambda *arguments: _to_words(function(*_to_numbers(arguments))))

    @functools.wraps(function)
    def wrapped(*arguments):
        if jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
            return function(*arguments)
        return closed(*arguments)

    return wrapped


def _closed(function: Callable) -> Callable:
    """The function, compiled as one operation that only knows how to be batched."""
    compiled = jax.jit(function)
    batched = functools.cache(lambda tree, axes: _closed(_batched(function, tree, axes)))

    @jax.custom_batching.custom_vmap
    def closed(*arguments):
        with jax.enable_x64(True):
            return compiled(*arguments)

    @closed.def_vmap
    def _(_, is_batched, *arguments):
        leaves, tree = jax.tree.flatten(is_batched)
        found = batched(tree, tuple(0 if leaf else None for leaf in leaves))(*arguments)
        return found, jax.tree.map(lambda _: True, found)

    return closed


def _batched(function: Callable, tree: Any, axes: tuple[int | None, ...]) -> Callable:
    return jax.vmap(function, in_axes=tuple(jax.tree.unflatten(tree, axes)))


def _to_words(values: Any) -> Any:
    def one(value):
        wide = value.dtype == jnp.float64
        return jax.lax.bitcast_convert_type(value, jnp.uint32) if wide else value

    return jax.tree.map(one, values)


def _to_numbers(values: Any) -> Any:
    def one(value):
        words = value.dtype == jnp.uint32
        return jax.lax.bitcast_convert_type(value, jnp.float64) if words else value

    return jax.tree.map(one, values)
