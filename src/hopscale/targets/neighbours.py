"""Exact log-ratios of any function, from its values at all states one site away."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hopscale.move import State
from hopscale.target import Evaluation, has_values

BATCH = 256  # neighbours that are evaluated together


class Undefined(NamedTuple):
    """How many neighbours of a state have a log-probability of NaN or +inf; kept as its cache."""

    neighbours: Int[Array, ""]


def is_defined(log_prob: Float[Array, "..."]) -> Bool[Array, "..."]:
    """Whether log-probabilities are neither NaN nor +inf."""
    return log_prob < jnp.inf  # NaN is not below


def _is_undefined(part: Any) -> bool:
    return isinstance(part, Undefined)


def undefined_neighbours(cache: Any) -> int:
    """How many neighbours of some states are undefined, as far as their caches know.

    A target that is made of others has the caches of these in its own.
    """
    found = filter(_is_undefined, jax.tree.leaves(cache, is_leaf=_is_undefined))
    return sum(int(np.asarray(part.neighbours).sum()) for part in found)


def with_undefined(cache: Any, neighbours: Int[Array, ""]) -> Any:
    """The cache with this number of undefined neighbours, if it has room for one.

    A target that is made of several others has it in the cache of one of them.
    """
    parts, structure = jax.tree.flatten(cache, is_leaf=_is_undefined)
    found = [number for number, part in enumerate(parts) if _is_undefined(part)]
    for number in found:
        parts[number] = Undefined(neighbours if number == found[0] else jnp.zeros_like(neighbours))
    return jax.tree.unflatten(structure, parts)


def neighbour_ratios(
    log_prob: Callable[[State], Float[Array, ""]], x: State, num_states: int
) -> Evaluation:
    """The log-probability of x, and the log-ratio of every state one site away.

    A neighbour where the function is NaN or +inf gets weight 0, so it is never proposed; the cache
    counts them.

    The state itself is evaluated among its neighbours. A separate program could hang: in JAX 0.10
    on CPUs, two batches of factorisations (`jnp.linalg.solve`, `cholesky`) that run at the same
    time wait for each other's threads.
    """
    flat = x.reshape(-1)

    def at(to):
        site, by = to
        value = (flat[site].astype(jnp.int32) + by) % num_states
        return log_prob(flat.at[site].set(value.astype(flat.dtype)).reshape(x.shape))

    n, others = flat.size, num_states - 1
    total = n * others + 1
    # Batches run one after the other: all neighbours at once would be N x N numbers per chain.
    batches = math.ceil(total / BATCH)
    shape = (batches, math.ceil(total / batches))
    number = jnp.arange(math.prod(shape)).reshape(shape)
    site = jnp.clip((number - 1) // others, 0, n - 1)
    stays = (number == 0) | (number >= total)  # x comes first, and pads the last batch
    by = jnp.where(stays, 0, (number - 1) % others + 1)
    every = _batch_by_batch(jax.vmap(at), x, (site, by)).reshape(-1)[:total]
    here, there = every[0], every[1:]
    defined = is_defined(there)
    found = jnp.where(defined, there, -jnp.inf) - here
    cache = Undefined(jnp.sum(~defined, dtype=jnp.int32))
    if num_states == 2:
        return Evaluation(here, found.reshape(x.shape), cache)
    # found[i, b - 1] moves site i from x_i to x_i + b; turn offsets into values.
    by_offset = jnp.pad(found.reshape(n, others), ((0, 0), (1, 0)))
    offsets = (jnp.arange(num_states)[None, :] - x.reshape(-1, 1)) % num_states
    ratios = jnp.take_along_axis(by_offset, offsets, axis=1)
    return Evaluation(here, ratios.reshape(*x.shape, num_states), cache)


def _batch_by_batch(function: Callable, x: State, batches):
    """The function of each batch. Outside a program a compiled loop would be compiled each time."""
    if not has_values(x):
        return jax.lax.map(function, batches)
    number = len(jax.tree.leaves(batches)[0])
    parts = (jax.tree.map(lambda a, i=i: a[i], batches) for i in range(number))
    return jnp.stack([jax.block_until_ready(function(part)) for part in parts])
