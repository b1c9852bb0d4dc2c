"""The kernels. A name that ends in `_ref` is in memory, every other in registers.

A race takes two launches, because no thread may count on what another thread of the same
launch has written to memory. The first holds all sites of a chain in registers: it draws the
clocks, finds by bracketing the time by which `length` of them have rung, and writes those
sites side by side. The second counts, for every pair of these, which came first: that gives
each its place in the order and the weight that was left when it rang. Nothing is ever sorted.
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
        v = jnp.minimum(parts.unit(parts.random_bits(key_ref, at)), 1.0 - 2.0**-24)
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
        bits = lax.bitcast_convert_type(parts.random_bits(key_ref, at), jnp.int32)
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
        weights = parts.spoiled(x, 1.0 / parts.inverse_weight(x, scale, balance))
        return total + jnp.where(counted, weights, 0.0)

    rest = jnp.sum(over_sites(add, 0.0))

    def score(step, sums):
        left, log_prob = sums
        r = step * block + lax.iota(jnp.int32, block)
        here = r < length
        site = parts.load(sites_ref, r if backwards else length - 1 - r, here, 0)
        x = parts.load(input_ref, site, here, 0.0)
        if chosen_ref:
            inverse = parts.spoiled(x, parts.inverse_weight(x, scale, balance))
            weights = jnp.where(here, 1.0 / inverse, 0.0)
            steps = -jnp.log(inverse) - jnp.log(left + jnp.cumsum(weights))
            left = left + jnp.sum(weights)
        else:
            steps = x - scale[0] - jnp.log(left)
        return left, log_prob + jnp.sum(jnp.where(here, steps, 0.0))

    zero = jnp.float32(0.0)
    _, log_prob = lax.fori_loop(np.int32(0), parts.ceil_div(length, block), score, (rest, zero))
    log_prob_ref[0] = log_prob


def cumulate(input_ref, cumulative_ref, last_ref, nobody_ref, *, n, tile):
    """Cumulative weights, the last site that has weight, and a clean sheet."""
    at = lax.iota(jnp.int32, tile)
    real = at < n
    x = parts.load(input_ref, at, real, -jnp.inf)
    weights = jnp.exp(x - parts.scale(x, "none")[0])
    parts.store(cumulative_ref, at, jnp.cumsum(weights), real)
    parts.store(nobody_ref, at, at < 0, real)
    last_ref[0] = jnp.max(jnp.where(weights > 0.0, at, 0))


def draw(
    key_ref, length_ref, cumulative_ref, last_ref, nobody_ref, sites_ref, chosen_ref,
    *, programs, n, rows, columns,
):  # fmt: skip
    """Independent draws by bisection of the cumulative weights."""
    del nobody_ref, columns  # the first is the same memory as chosen_ref
    length = jnp.minimum(length_ref[0], n)
    total = cumulative_ref[n - 1]

    def draw(start, none):
        r = start + lax.iota(jnp.int32, rows)
        level = parts.unit(parts.random_bits(key_ref, r)) * total

        def halve(_, bounds):
            low, high = bounds
            middle = (low + high) >> 1
            open_ = low < high
            above = parts.load(cumulative_ref, middle, open_, 0.0) > level
            return (
                jnp.where(open_ & ~above, middle + 1, low),
                jnp.where(open_ & above, middle, high),
            )

        bounds = jnp.zeros(rows, jnp.int32), jnp.full(rows, n, jnp.int32)
        site, _ = lax.fori_loop(np.int32(0), np.int32(n.bit_length()), halve, bounds)
        # Rounding may carry a level to the total: the last site with weight takes it.
        site = jnp.minimum(site, last_ref[0])
        parts.store(sites_ref, r, site, r < length)
        # Threads that draw the same site write the same value: their order does not matter.
        parts.scatter(chosen_ref, site, r >= 0, r < length)
        return none

    parts.share(programs, length, rows, draw, jnp.int32(0))


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
