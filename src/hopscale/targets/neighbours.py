"""All states one site away, one by one: exact log-ratios of any function."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hopscale.move import State

BATCH = 256  # neighbours that are evaluated together


def neighbour_ratios(
    log_prob: Callable[[State], Float[Array, ""]], x: State, num_states: int
) -> tuple[Float[Array, ""], Float[Array, "..."]]:
    """The log-probability of x, and the log-ratio of every state one site away.

    A neighbour where the function is NaN or +inf gets weight 0: it is never proposed.
    """
    here, flat = log_prob(x), x.reshape(-1)

    def ratio(to):
        site, by = to
        value = (flat[site].astype(jnp.int32) + by) % num_states
        there = log_prob(flat.at[site].set(value.astype(flat.dtype)).reshape(x.shape))
        return jnp.where(there < jnp.inf, there, -jnp.inf) - here  # NaN is not below

    n, others = flat.size, num_states - 1
    moves = (jnp.repeat(jnp.arange(n), others), jnp.tile(jnp.arange(1, others + 1), n))
    # Many neighbours one batch after the other: all at once would be N x N numbers a chain.
    batched = n * others > BATCH
    found = jax.lax.map(ratio, moves, batch_size=BATCH) if batched else jax.vmap(ratio)(moves)
    if num_states == 2:
        return here, found.reshape(x.shape)
    # found[i, b - 1] moves site i from x_i to x_i + b; turn offsets into values.
    by_offset = jnp.pad(found.reshape(n, others), ((0, 0), (1, 0)))
    offsets = (jnp.arange(num_states)[None, :] - x.reshape(-1, 1)) % num_states
    ratios = jnp.take_along_axis(by_offset, offsets, axis=1)
    return here, ratios.reshape(*x.shape, num_states)
