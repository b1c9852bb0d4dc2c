"""New values, by weight, for chosen sites that have more than two values."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from hopscale.native import values as reference
from hopscale.native.pallas import parts
from hopscale.native.pallas.weights import Weighing


def draw_values(
    key_ref, length_ref, log_prob_ref, ratios_ref, present_ref, sites_ref, drawn_ref, result_ref,
    *, n, values, block, weighing: Weighing,
):  # fmt: skip
    """A new value for each of the sites in order; their log-probability, added to a given one.

    The output for sites that were not chosen is left uninitialised.
    """
    length = jnp.clip(length_ref[0], 0, n)
    lane = lax.iota(jnp.int32, block)
    value = lax.broadcasted_iota(jnp.int32, (pl.next_power_of_2(values), block), 0)

    def some(turn, log_prob):
        number = turn * block + lane
        counted = number < length
        site = parts.load(sites_ref, number, counted, 0)
        present = parts.load(present_ref, site, counted, 0).astype(jnp.int32)
        possible = (value < values) & (value != present[None, :]) & counted[None, :]
        x = parts.load(ratios_ref, site[None, :] * values + value, possible, -jnp.inf)
        top = jnp.max(jnp.where(x == x, x, -jnp.inf), axis=0)
        unit = weighing.unit(top)
        weights = weighing.weight(x, tuple(part[None, :] for part in unit))
        weights = jnp.where(possible, weights, 0.0)
        upto = jnp.cumsum(weights, axis=0)
        total = jnp.max(upto, axis=0)
        goal = parts.uniform_number(_random_bits(key_ref, number)) * total
        beyond = (upto > goal[None, :]) & (weights > 0.0)
        found = jnp.min(jnp.where(beyond, value, values), axis=0)
        # If rounding leaves none beyond, or nothing has weight: the heaviest.
        heaviest = jnp.min(jnp.where(x == top[None, :], value, values - 1), axis=0)
        found = jnp.where(found < values, found, heaviest)
        parts.scatter(drawn_ref, site, found.astype(drawn_ref.dtype), counted)
        taken = jnp.sum(jnp.where(value == found[None, :], weights, 0.0), axis=0)
        steps = jnp.where(taken > 0.0, jnp.log(taken) - jnp.log(total), -jnp.inf)
        steps = jnp.where(total == total, steps, jnp.nan)
        return log_prob + jnp.sum(jnp.where(counted, steps, 0.0))

    blocks = parts.ceil_div(length, block)
    result_ref[0] = lax.fori_loop(np.int32(0), blocks, some, log_prob_ref[0])


def _random_bits(key_ref, number):
    """The random word of each draw: each group of `DRAWN_TOGETHER` draws has its own key."""
    together = np.int32(reference.DRAWN_TOGETHER)
    turn = lax.div(number, together)
    key = (key_ref[0], key_ref[1])
    key = parts.fold_in(key, np.uint32(reference.VALUES) + turn.astype(jnp.uint32))
    return parts.random_bits(key, number - turn * together)
