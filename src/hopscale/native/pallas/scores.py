"""The score of a path of sites: the log-probability that it is drawn."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from hopscale.native.pallas import parts

# Weights below this are scored by logarithms: some underflow.
TINY = 2.0**-80
ASK = np.float32(1e30)  # in place of a step's score that has to be found by logarithms


def score_path(
    length, input_ref, sites_ref, chosen_ref, unit=None, rest=None,
    *, n, tile, block, path, weighing,
):  # fmt: skip
    """The log-probability of a path: "forwards", "backwards", or "repeated", with replacement.

    The unit of weights and `rest`, the weight of the sites that were not chosen, are found by going
    over all sites, unless they are given; so is `rest` if it is NaN.
    """
    without = path != "repeated"

    def weigh(unit):
        """The weight of the rest, and the largest input of all."""

        def add(at, state):
            total, most = state
            x, counted = parts.load(input_ref, at, at < n, -jnp.inf), at < n
            if without:
                # Chosen weight is left out, not subtracted: it may be nearly all there is.
                counted = counted & ~parts.load(chosen_ref, at, at < n, True)
            weights = weighing.weight(x, unit)
            x = jnp.where(x == x, x, -jnp.inf)  # NaN shows in the weights
            return total + jnp.where(counted, weights, 0.0), jnp.maximum(most, x)

        nothing = jnp.zeros(tile, jnp.float32), jnp.full(tile, -jnp.inf, jnp.float32)
        total, most = parts.over_tiles(n, tile, add, nothing)
        return jnp.sum(total), jnp.max(most)

    if unit is None:
        unit, rest = weighing.in_unit(weigh)
    else:
        unknown = (rest != rest).astype(jnp.int32)
        rest = lax.fori_loop(np.int32(0), unknown, lambda *_: weigh(unit)[0], rest)

    def score(step, sums):
        left, log_prob = sums
        r = step * block + lax.iota(jnp.int32, block)
        here = r < length
        site = parts.load(sites_ref, length - 1 - r if path == "forwards" else r, here, 0)
        x = parts.load(input_ref, site, here, 0.0)
        if without:
            weights = jnp.where(here, weighing.weight(x, unit), 0.0)
            steps = jnp.log(weights) - jnp.log(left + jnp.cumsum(weights))
            steps = jnp.where(weights < TINY, ASK, steps)
            if n > block:  # more sites may follow
                left = left + jnp.sum(weights)
        else:
            log_weight = weighing.log_weight(x) - weighing.log_unit(unit)
            steps = log_weight - jnp.log(left)
        steps = jnp.where(weighing.weightless(x), -jnp.inf, steps)
        return left, log_prob + jnp.sum(jnp.where(here, steps, 0.0))

    start = rest, jnp.float32(0.0)
    _, log_prob = lax.fori_loop(np.int32(0), parts.ceil_div(length, block), score, start)
    if without:

        def slowly(_, log_prob):
            refs = input_ref, sites_ref, chosen_ref
            return _path_by_logarithms(*refs, length, n, tile, path == "backwards", weighing)

        asked = (log_prob > 0.5 * ASK).astype(jnp.int32)
        log_prob = lax.fori_loop(np.int32(0), asked, slowly, log_prob)
    usable = (unit[0] < jnp.inf) | (length == 0)  # else weights are infinite
    return jnp.where(usable, log_prob, jnp.nan)


def _path_by_logarithms(input_ref, sites_ref, chosen_ref, length, n, tile, backwards, weighing):
    """A path's score, one site after another, in logarithms: slow, but nothing underflows."""

    def add(at, sums):
        x = parts.load(input_ref, at, at < n, -jnp.inf)
        taken = parts.load(chosen_ref, at, at < n, True)
        return parts.log_add(sums, jnp.where(taken, -jnp.inf, weighing.log_weight(x)))

    lanes = parts.over_tiles(n, tile, add, jnp.full(tile, -jnp.inf, jnp.float32), together=1)
    most = jnp.max(lanes)
    rest = jnp.log(jnp.sum(jnp.where(lanes == -jnp.inf, 0.0, jnp.exp(lanes - most)))) + most

    def score(r, sums):
        left, log_prob = sums
        own = weighing.log_weight(input_ref[sites_ref[r if backwards else length - 1 - r]])
        left = parts.log_add(left, own)
        return left, log_prob + jnp.where(own > -jnp.inf, own - left, -jnp.inf)

    start = jnp.where(most == -jnp.inf, -jnp.inf, rest), jnp.float32(0.0)
    return lax.fori_loop(np.int32(0), length, score, start)[1]
