"""The kernels. A name that ends in `_ref` is in memory, every other in registers.

`race` is what `choose.race` has replaced, kept to compare with. It takes two launches. The first
holds all sites of a chain in registers: it draws a clock for each, finds by bracketing the time by
which `length` of them have rung, and writes those sites side by side. The second, `order`, counts
for every pair of these which came first: that gives each its place in the order and the weight
that was left when it rang. A uniform choice is made in the same way.
"""

import functools

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from hopscale.native.pallas import parts


def race(
    key_ref, length_ref, input_ref, chosen_ref, keys_ref, found_ref, weights_ref, rest_ref,
    *, n, tile, balance,
):  # fmt: skip
    """Who rings first; their keys and weights, side by side; the weight of all others."""
    length = jnp.minimum(length_ref[0], n)
    pieces = parts.tiles(n, tile)
    # A clamped index rather than a mask: see `parts.scatter`.
    inputs = [parts.load(input_ref, jnp.minimum(at, n - 1)) for at in pieces]
    scale = parts.scale(functools.reduce(jnp.maximum, inputs), balance)
    keys, weights = [], []
    for at, x in zip(pieces, inputs, strict=True):
        inverse = parts.inverse_weight(x, scale, balance)
        v = jnp.minimum(parts.unit(parts.random_bits((key_ref[0], key_ref[1]), at)), 1.0 - 2.0**-24)
        times = -jnp.log1p(-v) * inverse
        keys.append(jnp.where(at < n, lax.bitcast_convert_type(times, jnp.int32), parts.NEVER))
        weights.append(jnp.where(at < n, 1.0 / inverse, 0.0))

    # By time t at most t times the total weight have rung, on average: begin a little later.
    target = length.astype(jnp.float32)
    guess = (target + 3.0 * jnp.sqrt(target) + 1.0) / jnp.sum(sum(weights))
    guess = lax.bitcast_convert_type(guess, jnp.int32)
    threshold = parts.search(keys, length, n, (np.int32(-1), guess, parts.INFINITY), True)
    chosen, places = parts.compact(keys, threshold, length)

    for at, *values in zip(pieces, chosen, places, keys, weights, strict=True):
        mask, place, key, weight = values
        parts.scatter(chosen_ref, at, mask, at < n)
        parts.scatter(found_ref, place, at, mask)
        parts.scatter(keys_ref, place, key, mask)
        parts.scatter(weights_ref, place, weight, mask)
    others = [jnp.where(mask, 0.0, weight) for mask, weight in zip(chosen, weights, strict=True)]
    rest_ref[0] = jnp.sum(sum(others))


def uniform(key_ref, length_ref, chosen_ref, keys_ref, found_ref, *, n, tile):
    """The sites with the least random bits; their keys, side by side."""
    length = jnp.minimum(length_ref[0], n)
    pieces = parts.tiles(n, tile)
    keys = []
    for at in pieces:
        bits = lax.bitcast_convert_type(parts.random_bits((key_ref[0], key_ref[1]), at), jnp.int32)
        keys.append(
            jnp.where(
                at < n, jnp.clip(bits ^ np.int32(-(2**31)), parts.FIRST, parts.LAST), parts.NEVER
            )
        )
    threshold = parts.search(
        keys, length, n, (parts.FIRST - np.int32(1), np.int32(0), parts.LAST), False
    )
    chosen, places = parts.compact(keys, threshold, length)
    for at, mask, place, key in zip(pieces, chosen, places, keys, strict=True):
        parts.scatter(chosen_ref, at, mask, at < n)
        parts.scatter(found_ref, place, at, mask)
        parts.scatter(keys_ref, place, key, mask)


def order(length_ref, keys_ref, found_ref, *refs, programs, n, rows, columns):
    """Put sites in order of (key, site), and score the order where weights are given."""
    *given, last_ref = refs
    weighted = bool(given)
    if weighted:
        weights_ref, rest_ref, sites_ref, log_prob_ref = *given, last_ref
    else:
        sites_ref = last_ref
    length = jnp.minimum(length_ref[0], n)

    def rank(start, log_prob):
        i = start + lax.iota(jnp.int32, rows)
        here = i < length
        key, site = parts.load(keys_ref, i, here, 0), parts.load(found_ref, i, here, 0)

        def compare(step, sums):
            j = step * columns + lax.iota(jnp.int32, columns)
            there = j < length
            other = parts.load(keys_ref, j, there, parts.NEVER)
            lower = parts.load(found_ref, j, there, n)[None, :] < site[:, None]
            # Keys are whole numbers, so this compares (other, its site) < (key, site).
            first = other[None, :] < key[:, None] + lower.astype(jnp.int32)
            before = sums[0] + first.astype(jnp.int32)
            if not weighted:
                return (before,)
            weight = parts.load(weights_ref, j, there, 0.0)
            return before, sums[1] + jnp.where(first, 0.0, weight[None, :])

        # Each of rows x columns places sums on its own: threads need not meet until the end.
        sums = [jnp.zeros((rows, columns), t) for t in (jnp.int32, jnp.float32)[: 1 + weighted]]
        sums = lax.fori_loop(np.int32(0), parts.ceil_div(length, columns), compare, tuple(sums))
        place = jnp.sum(sums[0], axis=1, dtype=jnp.int32)
        parts.scatter(sites_ref, place, site, here)
        if weighted:
            left = rest_ref[0] + jnp.sum(sums[1], axis=1)
            step = jnp.log(parts.load(weights_ref, i, here, 1.0)) - jnp.log(left)
            log_prob = log_prob + jnp.sum(jnp.where(here, step, 0.0))
        return log_prob

    log_prob = parts.share(programs, length, rows, rank, jnp.float32(0.0))
    if weighted:
        log_prob_ref[pl.program_id(0)] = log_prob


def path(length_ref, input_ref, sites_ref, *refs, n, tile, block, backwards, balance):
    """Score a path: without replacement where it is said who was chosen, else with."""
    *chosen_ref, log_prob_ref = refs
    length = jnp.minimum(length_ref[0], n)

    def over_sites(update, initial):
        """Fold `update(value, inputs, sites)` over all sites, a tile at a time."""

        def body(step, value):
            at = step * tile + lax.iota(jnp.int32, tile)
            return update(value, parts.load(input_ref, at, at < n, -jnp.inf), at)

        initial = jnp.full(tile, initial, jnp.float32)
        return lax.fori_loop(np.int32(0), np.int32(-(-n // tile)), body, initial)

    top = over_sites(lambda most, x, at: jnp.maximum(most, x), -np.inf)
    scale = parts.scale(top, balance)

    def add(total, x, at):
        # Chosen weight is left out, not taken off: it may be nearly all there is.
        counted = at < n
        if chosen_ref:
            counted = counted & ~parts.load(chosen_ref[0], at, at < n, True)
        weights = parts.weight(x, scale, balance)
        return total + jnp.where(counted, weights, 0.0)

    rest = jnp.sum(over_sites(add, 0.0))

    def score(step, sums):
        left, log_prob, least = sums
        r = step * block + lax.iota(jnp.int32, block)
        here = r < length
        site = parts.load(sites_ref, r if backwards else length - 1 - r, here, 0)
        x = parts.load(input_ref, site, here, 0.0)
        if chosen_ref:
            inverse = parts.spoiled(x, parts.inverse_weight(x, scale, balance))
            weights = jnp.where(here & ~parts.weightless(x, balance), 1.0 / inverse, 0.0)
            steps = -jnp.log(inverse) - jnp.log(left + jnp.cumsum(weights))
            left = left + jnp.sum(weights)
            least = jnp.minimum(least, jnp.min(jnp.where(weights > 0.0, weights, 1.0)))
        else:
            steps = x - scale[0] - jnp.log(left)
        steps = jnp.where(parts.weightless(x, balance), -jnp.inf, steps)
        return left, log_prob + jnp.sum(jnp.where(here, steps, 0.0)), least

    start = rest, jnp.float32(0.0), jnp.float32(1.0)
    _, log_prob, least = lax.fori_loop(np.int32(0), parts.ceil_div(length, block), score, start)
    if chosen_ref:
        # Beside weights under 2^-80, those that count as the least of all would show.
        extreme = (least < 2.0**-80) & (log_prob == log_prob)
        refs = input_ref, sites_ref, chosen_ref[0]
        slow = _path_by_logarithms(*refs, length, extreme, n, tile, backwards, balance)
        log_prob = jnp.where(extreme, slow, log_prob)
    log_prob_ref[0] = jnp.where(scale[0] < jnp.inf, log_prob, jnp.nan)  # infinite weights


def _path_by_logarithms(
    input_ref, sites_ref, chosen_ref, length, needed, n, tile, backwards, balance
):
    """A path's score one site after the other, in logarithms: slow, and nothing is too small."""

    def add(step, sums):
        at = step * tile + lax.iota(jnp.int32, tile)
        x = parts.load(input_ref, at, at < n, -jnp.inf)
        taken = parts.load(chosen_ref, at, at < n, True)
        return parts.log_add(sums, jnp.where(taken, -jnp.inf, parts.log_weight(x, balance)))

    tiles = jnp.where(needed, np.int32(-(-n // tile)), 0)
    lanes = lax.fori_loop(np.int32(0), tiles, add, jnp.full(tile, -jnp.inf, jnp.float32))
    most = jnp.max(lanes)
    rest = jnp.log(jnp.sum(jnp.where(lanes > -jnp.inf, jnp.exp(lanes - most), 0.0))) + most

    def score(r, sums):
        left, log_prob = sums
        own = parts.log_weight(input_ref[sites_ref[r if backwards else length - 1 - r]], balance)
        left = parts.log_add(left, own)
        return left, log_prob + jnp.where(own > -jnp.inf, own - left, -jnp.inf)

    start = jnp.where(most > -jnp.inf, rest, -jnp.inf), jnp.float32(0.0)
    return lax.fori_loop(np.int32(0), jnp.where(needed, length, 0), score, start)[1]


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
