"""Choosing sites by weight, by the algorithm of `reference`: one program a chain."""

import jax.numpy as jnp
import numpy as np
from jax import lax

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

LATE = np.float32(3e38)  # when a site without weight rings


def clear(chain: Chain):
    """No site is chosen."""

    def body(at, none):
        parts.store(chain.chosen, at, at < 0, at < chain.n)
        return none

    chain.over_tiles(chain.n, body, jnp.int32(0))
    chain.barrier()


def choose(chain: Chain, key, length, count=None, drawn=0):
    """Sites without replacement, in order; and the unit of the weights of the first round.

    With `count`, so many are there already, by the first `drawn` draws; the unit is not asked for.
    """
    zero, nothing = jnp.int32(0), jnp.float32(0.0)
    begin = zero, length >= 0, zero if count is None else count, (nothing, nothing)

    # One body for all rounds: a second copy of it for the first would take as long to compile.
    def one_more(state):
        turn, _, count, scale = state
        is_first = turn == 0
        later = parts.fold_in(key, np.uint32(reference.CLOCKS) + turn.astype(jnp.uint32))
        own = tuple(jnp.where(is_first, a, b) for a, b in zip(key, later, strict=True))
        table = tabulate(chain, turn)
        scale = tuple(jnp.where(is_first, a, b) for a, b in zip(table.scale, scale, strict=True))
        most = reference.most_draws(jnp.where(is_first, length, length - count))
        most = jnp.where(table.usable, most, 0)
        numbers = jnp.where(is_first, np.int32(drawn), 0), most
        count = _draw_round(chain, table, own, numbers, count, length, turn)
        return turn + 1, table.usable, count, scale

    def unfinished(state):
        turn, usable, so_far, _ = state
        more = (turn < reference.ROUNDS) & usable & (so_far < length)
        return more if count is not None else more | (turn == 0)

    *_, count, scale = lax.while_loop(unfinished, one_more, begin)
    chain.barrier()
    _race_of_clocks(chain, parts.fold_in(key, np.uint32(reference.CLOCKS)), count, length)
    return scale


def _draw_round(chain: Chain, table: Table, key, numbers, count, length, turn):
    """Draws from one number to another, until `length` sites are chosen; how many are then."""
    first, most = numbers

    def some(state):
        first, count = state
        number = first + lax.iota(jnp.int32, chain.block)
        here = number < most
        site = draw(chain, table, key, number, turn)
        free = here & ~parts.load(chain.chosen, site, here, True)
        fresh = chain.first_of(site, number.astype(jnp.float32), free)
        ones = fresh.astype(jnp.int32)
        place = count + jnp.cumsum(ones, dtype=jnp.int32) - 1
        kept = fresh & (place < length)
        parts.scatter(chain.sites, place, site, kept)
        parts.scatter(chain.chosen, site, number >= 0, kept)
        marked = kept & (turn > 0)
        parts.scatter(chain.marks, site, jnp.full(site.shape, mark_of(turn)), marked)
        chain.barrier()
        return first + chain.block, count + jnp.sum(ones, dtype=jnp.int32)

    _, count = lax.while_loop(
        lambda state: (state[0] < most) & (state[1] < length), some, (first, count)
    )
    return jnp.minimum(count, length)


def _race_of_clocks(chain: Chain, key, count, length):
    """The rest of `length` sites, one after the other."""

    def ring(count):
        def earlier(at, best):
            v = parts.uniform_number(parts.random_bits(key, at))
            time = jnp.log(-jnp.log1p(-v)) - parts.log_weight(chain.values(at), chain.balance)
            time = jnp.where(time < LATE, time, LATE)  # also if it is NaN
            left = ~parts.load(chain.chosen, at, at < chain.n, True)
            time = jnp.where(left, time, jnp.inf)
            sooner = time < best[0]
            return jnp.where(sooner, time, best[0]), jnp.where(sooner, at, best[1])

        nobody = (
            jnp.full(chain.tile, jnp.inf, jnp.float32),
            jnp.full(chain.tile, chain.n, jnp.int32),
        )
        time, site = chain.over_tiles(chain.n, earlier, nobody)
        site = jnp.min(jnp.where(time == jnp.min(time), site, chain.n))
        chain.sites[count] = site
        chain.chosen[site] = site >= 0
        chain.barrier()
        return count + 1

    lax.while_loop(lambda count: count < length, ring, count)


def race(
    key_ref, length_ref, input_ref, sites_ref, chosen_ref, marks_ref, edges_ref, log_prob_ref,
    *, n, tile, block, balance, interpret, score,
):  # fmt: skip
    """Sites without replacement, in order; and the log-probability of the order, if `score`."""
    memory = input_ref, chosen_ref, sites_ref, marks_ref, edges_ref
    chain = Chain(*memory, n, tile, block, balance, interpret)
    length = jnp.clip(length_ref[0], 0, n)
    clear(chain)
    scale = choose(chain, (key_ref[0], key_ref[1]), length)
    if score:
        chain.barrier()
        static = {"n": n, "tile": tile, "block": block, "path": "forwards", "balance": balance}
        log_prob_ref[0] = score_path(length, input_ref, sites_ref, chosen_ref, scale, **static)


def race_on(
    key_ref, length_ref, count_ref, input_ref, *refs, n, tile, block, balance, interpret, drawn
):
    """The sites that the first `drawn` draws have left to choose, if any."""
    sites_ref, chosen_ref, marks_ref, edges_ref = refs[3:]  # the others are the same memory
    memory = input_ref, chosen_ref, sites_ref, marks_ref, edges_ref
    chain = Chain(*memory, n, tile, block, balance, interpret)
    length = jnp.clip(length_ref[0], 0, n)
    choose(chain, (key_ref[0], key_ref[1]), length, count_ref[0], drawn)


def repeated(
    key_ref, length_ref, input_ref, sites_ref, chosen_ref, marks_ref, edges_ref, _,
    *, n, tile, block, balance, interpret,
):  # fmt: skip
    """Sites with replacement: all draws are kept. Without usable weights, the heaviest site."""
    memory = input_ref, chosen_ref, sites_ref, marks_ref, edges_ref
    chain = Chain(*memory, n, tile, block, balance, interpret)
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
