"""Values for the sites chosen, where these have more than two: by weight among the others."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from hopscale.native import values as reference
from hopscale.native.pallas import parts
from hopscale.native.pallas.weights import Weighing


def draw_values(
    key_ref, length_ref, ratios_ref, present_ref, sites_ref, _, drawn_ref, log_prob_ref,
    *, n, values, weighing: Weighing,
):  # fmt: skip
    """A new value for each of the sites in order; and the log-probability of all of them.

    `drawn_ref` begins as the present values: sites that are not chosen keep theirs.
    """
    length = jnp.clip(length_ref[0], 0, n)
    block = min(reference.DRAWN_TOGETHER, pl.next_power_of_2(n))
    lane = lax.iota(jnp.int32, block)
    value = lax.broadcasted_iota(jnp.int32, (pl.next_power_of_2(values), block), 0)

    def some(turn, log_prob):
        number = turn * block + lane
        counted = number < length
        site = parts.load(sites_ref, number, counted, 0)
        present = parts.load(present_ref, site, counted, 0).astype(jnp.int32)
        possible = (value < values) & (value != present[None, :]) & counted[None, :]
        x = parts.load(ratios_ref, site[None, :] * values + value, possible, -jnp.inf)
        top = jnp.max(x, axis=0)
        unit = weighing.unit(top)
        weights = weighing.weight(x, tuple(part[None, :] for part in unit))
        weights = jnp.where(possible, weights, 0.0)
        upto = jnp.cumsum(weights, axis=0)
        total = jnp.max(upto, axis=0)
        key = parts.fold_in((key_ref[0], key_ref[1]), _block_number(turn))
        goal = parts.uniform_number(parts.random_bits(key, lane)) * total
        found = jnp.sum((upto <= goal[None, :]).astype(jnp.int32), axis=0, dtype=jnp.int32)
        # Where rounding leaves none beyond, and where nothing has weight: the heaviest.
        heaviest = jnp.min(jnp.where(x == top[None, :], value, values), axis=0)
        found = jnp.where(found < values, found, jnp.minimum(heaviest, values - 1))
        parts.scatter(drawn_ref, site, found.astype(drawn_ref.dtype), counted)
        taken = jnp.sum(jnp.where(value == found[None, :], weights, 0.0), axis=0)
        steps = jnp.where(taken > 0.0, jnp.log(taken) - jnp.log(total), -jnp.inf)
        steps = jnp.where(total == total, steps, jnp.nan)
        return log_prob + jnp.sum(jnp.where(counted, steps, 0.0))

    blocks = parts.ceil_div(length, block)
    log_prob_ref[0] = lax.fori_loop(np.int32(0), blocks, some, jnp.float32(0.0))


def _block_number(turn):
    """What is folded into the key for a block of draws."""
    return np.uint32(reference.VALUES) + turn.astype(jnp.uint32)
