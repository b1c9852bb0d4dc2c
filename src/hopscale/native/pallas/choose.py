"""Choosing sites by weight, by the algorithm of `reference`: one program per chain."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hopscale.native import reference
from hopscale.native.pallas import parts
from hopscale.native.pallas.scores import score_path
from hopscale.native.pallas.table import (
    FIRST,
    Chain,
    Table,
    draw,
    mark_of,
    tabulate,
)

RARELY = 128  # draws at once, in rounds after the first
LATE = np.float32(3e38)  # the time at which a site without weight rings


def clear(chain: Chain):
    """Mark all sites as not chosen."""

    def body(at, none):
        parts.store(chain.chosen, at, at < 0, at < chain.n)
        return none

    chain.over_tiles(chain.n, body, jnp.int32(0))
    chain.barrier()


class Weights(NamedTuple):
    """The weights in the first round: their unit, their sum, and the sum of those chosen."""

    unit: tuple[Array, ...]
    total: Array
    taken: Array

    def rest(self, complete):
        """The weight of the sites not chosen, if it is known; else NaN.

        It is known if the first round chose all sites wanted, and if not too little is left of a
        difference.
        """
        rest = self.total - self.taken
        return jnp.where(complete & (rest >= 0.5 * self.total), rest, jnp.nan)


def choose(chain: Chain, key, length, so_far=None):
    """Sites without replacement, in order; the unit of their weights, and the weight of the rest.

    `so_far` is the number of draws already made, and of the sites that they chose; with it, the
    unit and the weight of the rest are not needed. That weight is NaN if it would have to be summed
    up.
    """
    nothing, zero = jnp.float32(0.0), jnp.int32(0)

    def first_round(state):
        _, _, count, _ = state
        table = tabulate(chain, FIRST)
        drawn = zero if so_far is None else np.int32(so_far[0])
        numbers = drawn, jnp.where(table.usable, reference.most_draws(length), 0)
        count, taken = _draw_round(chain, table, key, numbers, count, length, FIRST)
        return zero + 1, table.usable, count, Weights(table.unit, table.total, taken)

    # Rounds after the first are rare: they must not take registers from it.
    slowly = chain._replace(block=min(chain.block, RARELY), at_once=min(chain.at_once, 8 * RARELY))

    def one_more(state):
        turn, _, count, weights = state
        own = parts.fold_in(key, np.uint32(reference.CLOCKS) + turn.astype(jnp.uint32))
        table = tabulate(slowly, turn)
        numbers = zero, jnp.where(table.usable, reference.most_draws(length - count), 0)
        count, _ = _draw_round(slowly, table, own, numbers, count, length, turn)
        return turn + 1, table.usable, count, weights

    def unfinished(state):
        turn, usable, count, _ = state
        return (turn < reference.ROUNDS) & usable & (count < length)

    count = zero if so_far is None else so_far[1]
    state = zero, length >= 0, count, Weights((nothing, nothing), nothing, nothing)
    if so_far is None:
        state = first_round(state)
    else:  # there is usually nothing to do
        state = lax.while_loop(lambda s: (s[0] == 0) & unfinished(s), first_round, state)
    turn, _, count, weights = lax.while_loop(unfinished, one_more, state)
    chain.barrier()
    _race_of_clocks(chain, parts.fold_in(key, np.uint32(reference.CLOCKS)), count, length)
    return weights.unit, weights.rest((turn == 1) & (count == length))


def _draw_round(chain: Chain, table: Table, key, numbers, count, length, turn):
    """Make the draws from one number to another, until `length` sites are chosen.

    Returns how many sites are chosen, and the weight of those that this round chose.
    """
    first, most = numbers

    def some(state):
        first, count, taken = state
        number = first + lax.iota(jnp.int32, chain.block)
        here = number < most
        site = draw(chain, table, key, number, turn)
        free = here & ~parts.load(chain.chosen, site, here, True)
        fresh = chain.first_of(site, (number - first).astype(jnp.float32), free)
        ones = fresh.astype(jnp.int32)
        place = count + jnp.cumsum(ones, dtype=jnp.int32) - 1
        kept = fresh & (place < length)
        parts.scatter(chain.sites, place, site, kept)
        parts.scatter(chain.chosen, site, number >= 0, kept)
        if turn is not FIRST:
            parts.scatter(chain.marks, site, jnp.full(site.shape, mark_of(turn)), kept)
        chain.barrier()
        if turn is FIRST:
            weight = chain.weighing.weight(chain.values(site), table.unit)
            taken = taken + jnp.sum(jnp.where(kept, weight, 0.0))
        return first + chain.block, count + jnp.sum(ones, dtype=jnp.int32), taken

    _, count, taken = lax.while_loop(
        lambda state: (state[0] < most) & (state[1] < length), some, (first, count, jnp.float32(0))
    )
    return jnp.minimum(count, length), taken


def _race_of_clocks(chain: Chain, key, count, length):
    """Choose the rest of `length` sites, one after another."""

    def ring(count):
        def earlier(at, best):
            v = parts.uniform_number(parts.random_bits(key, at))
            time = jnp.log(-jnp.log1p(-v)) - chain.weighing.log_weight(chain.values(at))
            time = jnp.where(time < LATE, time, LATE)  # also if it is NaN
            left = ~parts.load(chain.chosen, at, at < chain.n, True)
            time = jnp.where(left, time, jnp.inf)
            sooner = time < best[0]
            return jnp.where(sooner, time, best[0]), jnp.where(sooner, at, best[1])

        nobody = (
            jnp.full(chain.tile, jnp.inf, jnp.float32),
            jnp.full(chain.tile, chain.n, jnp.int32),
        )
        time, site = chain.over_tiles(chain.n, earlier, nobody, together=1)  # rarely needed
        site = jnp.min(jnp.where(time == jnp.min(time), site, chain.n))
        chain.sites[count] = site
        chain.chosen[site] = site >= 0
        chain.barrier()
        return count + 1

    lax.while_loop(lambda count: count < length, ring, count)


def race(
    key_ref, length_ref, input_ref, sites_ref, chosen_ref, marks_ref, edges_ref, log_prob_ref,
    *, n, tile, block, at_once, weighing, score,
):  # fmt: skip
    """Sites without replacement, in order; and the log-probability of the order, if `score`."""
    memory = input_ref, chosen_ref, sites_ref, marks_ref, edges_ref
    chain = Chain(*memory, n, tile, block, at_once, weighing)
    length = jnp.clip(length_ref[0], 0, n)
    clear(chain)
    unit, rest = choose(chain, (key_ref[0], key_ref[1]), length)
    if score:
        chain.barrier()
        static = {"n": n, "tile": tile, "block": block, "path": "forwards", "weighing": weighing}
        memory = input_ref, sites_ref, chosen_ref
        log_prob_ref[0] = score_path(length, *memory, unit, rest, **static)


def race_on(
    key_ref, length_ref, count_ref, input_ref, *refs, n, tile, block, at_once, weighing, drawn
):
    """Choose the sites that the first `drawn` draws left to be chosen, if any."""
    sites_ref, chosen_ref, marks_ref, edges_ref = refs[3:]  # the others are the same memory
    memory = input_ref, chosen_ref, sites_ref, marks_ref, edges_ref
    chain = Chain(*memory, n, tile, block, at_once, weighing)
    length = jnp.clip(length_ref[0], 0, n)
    choose(chain, (key_ref[0], key_ref[1]), length, (drawn, count_ref[0]))


def repeated(
    key_ref, length_ref, input_ref, sites_ref, chosen_ref, marks_ref, edges_ref, _,
    *, n, tile, block, at_once, weighing,
):  # fmt: skip
    """Sites with replacement: all draws are kept. Without usable weights, the heaviest site."""
    memory = input_ref, chosen_ref, sites_ref, marks_ref, edges_ref
    chain = Chain(*memory, n, tile, block, at_once, weighing)
    length = jnp.clip(length_ref[0], 0, n)
    key = key_ref[0], key_ref[1]
    clear(chain)
    table = tabulate(chain, FIRST)

    def heavier(at, best):
        x = chain.values(at)
        more = x > best[0]
        return jnp.where(more, x, best[0]), jnp.where(more, at, best[1])

    def heaviest(*_):
        none = jnp.full(tile, -jnp.inf, jnp.float32), jnp.full(tile, n, jnp.int32)
        most, at = chain.over_tiles(n, heavier, none)
        found = jnp.min(jnp.where(most == jnp.max(most), at, n))
        return jnp.where(found < n, found, 0)

    needed = (~table.usable).astype(jnp.int32)
    otherwise = lax.fori_loop(np.int32(0), needed, heaviest, jnp.int32(0))

    def some(step, none):
        number = step * block + lax.iota(jnp.int32, block)
        site = jnp.where(table.usable, draw(chain, table, key, number, FIRST), otherwise)  # pyright: ignore
        parts.scatter(sites_ref, number, site, number < length)
        parts.scatter(chain.chosen, site, number >= 0, number < length)
        return none

    lax.fori_loop(np.int32(0), parts.ceil_div(length, block), some, jnp.int32(0))
