"""The score of a path of sites: the log-probability that it is drawn."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from hopscale.native.pallas import parts

# Beside weights below this, those that count as the least of all would show.
TINY = 2.0**-80
ASK = np.float32(1e30)  # in place of a step's score: to be found by logarithms


def score_path(
    length, input_ref, sites_ref, chosen_ref, scale=None, rest=None,
    *, n, tile, block, path, balance,
):  # fmt: skip
    """The log-probability of a path: "forwards", "backwards", or "repeated", with replacement.

    `scale`, the unit of weights, and `rest`, the weight of the sites that were not chosen, are
    found by going over all sites, unless given.
    """
    without = path != "repeated"

    def over_sites(update, initial):
        """Fold `update(value, inputs, sites)` over all sites."""

        def body(at, value):
            return update(value, parts.load(input_ref, at, at < n, -jnp.inf), at)

        return parts.over_tiles(n, tile, body, jnp.full(tile, initial, jnp.float32))

    if scale is None:
        top = over_sites(lambda most, x, at: jnp.maximum(most, x), -np.inf)
        scale = parts.scale(top, balance)

    def add(total, x, at):
        # Chosen weight is left out, not taken off: it may be nearly all there is.
        counted = at < n
        if without:
            counted = counted & ~parts.load(chosen_ref, at, at < n, True)
        weights = parts.weight(x, scale, balance)
        return total + jnp.where(counted, weights, 0.0)

    if rest is None:
        rest = jnp.sum(over_sites(add, 0.0))

    def score(step, sums):
        left, log_prob = sums
        r = step * block + lax.iota(jnp.int32, block)
        here = r < length
        site = parts.load(sites_ref, length - 1 - r if path == "forwards" else r, here, 0)
        x = parts.load(input_ref, site, here, 0.0)
        if without:
            inverse = parts.spoiled(x, parts.inverse_weight(x, scale, balance))
            weights = jnp.where(here & ~parts.weightless(x, balance), 1.0 / inverse, 0.0)
            steps = -jnp.log(inverse) - jnp.log(left + jnp.cumsum(weights))
            steps = jnp.where((weights > 0.0) & (weights < TINY), ASK, steps)
            if n > block:  # more sites may follow
                left = left + jnp.sum(weights)
        else:
            log_weight = parts.log_weight(x, balance) - parts.log_unit(scale, balance)
            steps = log_weight - jnp.log(left)
        steps = jnp.where(parts.weightless(x, balance), -jnp.inf, steps)
        return left, log_prob + jnp.sum(jnp.where(here, steps, 0.0))

    start = rest, jnp.float32(0.0)
    _, log_prob = lax.fori_loop(np.int32(0), parts.ceil_div(length, block), score, start)
    if without:

        def slowly(_, log_prob):
            refs = input_ref, sites_ref, chosen_ref
            return _path_by_logarithms(*refs, length, n, tile, path == "backwards", balance)

        asked = (log_prob > 0.5 * ASK).astype(jnp.int32)
        log_prob = lax.fori_loop(np.int32(0), asked, slowly, log_prob)
    return jnp.where(scale[0] < jnp.inf, log_prob, jnp.nan)  # infinite weights


def _path_by_logarithms(input_ref, sites_ref, chosen_ref, length, n, tile, backwards, balance):
    """A path's score one site after the other, in logarithms: slow, and nothing is too small."""

    def add(at, sums):
        x = parts.load(input_ref, at, at < n, -jnp.inf)
        taken = parts.load(chosen_ref, at, at < n, True)
        return parts.log_add(sums, jnp.where(taken, -jnp.inf, parts.log_weight(x, balance)))

    lanes = parts.over_tiles(n, tile, add, jnp.full(tile, -jnp.inf, jnp.float32), together=1)
    most = jnp.max(lanes)
    rest = jnp.log(jnp.sum(jnp.where(lanes > -jnp.inf, jnp.exp(lanes - most), 0.0))) + most

    def score(r, sums):
        left, log_prob = sums
        own = parts.log_weight(input_ref[sites_ref[r if backwards else length - 1 - r]], balance)
        left = parts.log_add(left, own)
        return left, log_prob + jnp.where(own > -jnp.inf, own - left, -jnp.inf)

    start = jnp.where(most > -jnp.inf, rest, -jnp.inf), jnp.float32(0.0)
    return lax.fori_loop(np.int32(0), length, score, start)[1]
