"""The kernels. A name that ends in `_ref` is in memory, every other in registers."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from hopscale.native.pallas import parts
from hopscale.native.paths import log_acceptance


def path(length_ref, input_ref, sites_ref, chosen_ref, log_prob_ref, *, n, **static):
    """Score a path."""
    length = jnp.minimum(length_ref[0], n)
    log_prob_ref[0] = score_path(length, input_ref, sites_ref, chosen_ref, n=n, **static)


def settle(
    uniform_ref, forward_ref, rest_ref, length_ref, input_ref, sites_ref, chosen_ref, *refs,
    n, tile, in_place, **static,
):  # fmt: skip
    """Score the way back, accept or stay: all that follows the evaluation of a proposal.

    The other references are the arrays of the state proposed, of the present state and of the new
    one, and the verdict. The first array of a state is its log-probability. An array may be its
    own successor, in the same memory: nothing is written then unless the proposal is accepted.
    """
    *arrays, log_ratio_ref, accepted_ref, invalid_ref = refs
    states = len(arrays) // 3
    there, here, new = arrays[:states], arrays[states : 2 * states], arrays[2 * states :]
    length = jnp.minimum(length_ref[0], n)
    back = score_path(length, input_ref, sites_ref, chosen_ref, n=n, tile=tile, **static)
    log_probs = here[0][0], there[0][0]
    log_ratio, invalid = log_acceptance(*log_probs, forward_ref[0], back + rest_ref[0])
    accepted = uniform_ref[0] < jnp.exp(log_ratio)
    log_ratio_ref[0], accepted_ref[0], invalid_ref[0] = log_ratio, accepted, invalid

    def copy(source, result, needed):
        """One array over another, if needed."""
        size = result.shape[0]

        def body(at, none):
            mask = (at < size) & needed
            parts.store(result, at, parts.load(source, at, mask), mask)
            return none

        parts.over_tiles(size, min(tile, pl.next_power_of_2(size)), body, jnp.int32(0))

    for stays, x, y, result in zip(in_place, here, there, new, strict=True):
        copy(y, result, accepted)
        if not stays:
            copy(x, result, ~accepted)


def score_path(
    length, input_ref, sites_ref, chosen_ref, scale=None, *, n, tile, block, path, balance
):
    """The log-probability of a path: "forwards", "backwards", or "repeated", with replacement."""
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

    rest = jnp.sum(over_sites(add, 0.0))

    def score(step, sums):
        left, log_prob, least = sums
        r = step * block + lax.iota(jnp.int32, block)
        here = r < length
        site = parts.load(sites_ref, length - 1 - r if path == "forwards" else r, here, 0)
        x = parts.load(input_ref, site, here, 0.0)
        if without:
            inverse = parts.spoiled(x, parts.inverse_weight(x, scale, balance))
            weights = jnp.where(here & ~parts.weightless(x, balance), 1.0 / inverse, 0.0)
            steps = -jnp.log(inverse) - jnp.log(left + jnp.cumsum(weights))
            left = left + jnp.sum(weights)
            least = jnp.minimum(least, jnp.min(jnp.where(weights > 0.0, weights, 1.0)))
        else:
            log_weight = parts.log_weight(x, balance) - parts.log_unit(scale, balance)
            steps = log_weight - jnp.log(left)
        steps = jnp.where(parts.weightless(x, balance), -jnp.inf, steps)
        return left, log_prob + jnp.sum(jnp.where(here, steps, 0.0)), least

    start = rest, jnp.float32(0.0), jnp.float32(1.0)
    _, log_prob, least = lax.fori_loop(np.int32(0), parts.ceil_div(length, block), score, start)
    if without:
        # Beside weights under 2^-80, those that count as the least of all would show.
        extreme = (least < 2.0**-80) & (log_prob == log_prob)

        def slowly(_, log_prob):
            refs = input_ref, sites_ref, chosen_ref
            return _path_by_logarithms(*refs, length, n, tile, path == "backwards", balance)

        log_prob = lax.fori_loop(np.int32(0), extreme.astype(jnp.int32), slowly, log_prob)
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


def odd(length_ref, sites_ref, clean_ref, result_ref, *, programs, n, rows, columns):
    """Count, for every step, the steps at the same site; all of these write the same parity."""
    del clean_ref, n  # the first is the same memory as result_ref
    length = jnp.minimum(length_ref[0], sites_ref.shape[0])

    def count(start, none):
        i = start + lax.iota(jnp.int32, rows)
        here = i < length
        site = parts.load(sites_ref, i, here, 0)

        def compare(step, same):
            j = step * columns + lax.iota(jnp.int32, columns)
            other = parts.load(sites_ref, j, j < length, -1)
            return same + (other[None, :] == site[:, None]).astype(jnp.int32)

        same = jnp.zeros((rows, columns), jnp.int32)
        same = lax.fori_loop(np.int32(0), parts.ceil_div(length, columns), compare, same)
        same = jnp.sum(same, axis=1, dtype=jnp.int32)
        parts.scatter(result_ref, site, (same & 1) == 1, here)
        return none

    parts.share(programs, length, rows, count, jnp.int32(0))
