"""Choosing sites by weight, by the algorithm of `reference`: one program a chain."""

from functools import partial

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
    read_table,
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


def choose(chain: Chain, key, length, first_table=None):
    """Sites without replacement, in order; and the unit of the weights they were drawn by."""
    table = tabulate(chain, FIRST) if first_table is None else first_table()
    count = _draw_round(chain, table, key, jnp.int32(0), length, FIRST)

    def one_more(state):
        turn, _, count = state
        folded = parts.fold_in(key, np.uint32(reference.CLOCKS) + turn.astype(jnp.uint32))
        table = tabulate(chain, turn)
        return turn + 1, table.usable, _draw_round(chain, table, folded, count, length, turn)

    def unfinished(state):
        turn, usable, count = state
        return (turn < reference.ROUNDS) & usable & (count < length)

    *_, count = lax.while_loop(unfinished, one_more, (jnp.int32(1), table.usable, count))
    chain.barrier()
    _race_of_clocks(chain, parts.fold_in(key, np.uint32(reference.CLOCKS)), count, length)
    return table.scale


def _draw_round(chain: Chain, table: Table, key, count, length, turn):
    """Draw until `length` sites are chosen or the round is over; how many there are then."""
    most = jnp.where(table.usable, reference.most_draws(length - count), 0)  # pyright: ignore

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
        if turn is not FIRST:
            parts.scatter(chain.marks, site, jnp.full(site.shape, mark_of(turn)), kept)
        chain.barrier()
        return first + chain.block, count + jnp.sum(ones, dtype=jnp.int32)

    _, count = lax.while_loop(
        lambda state: (state[0] < most) & (state[1] < length), some, (jnp.int32(0), count)
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


def race_by_sums(
    key_ref, length_ref, input_ref, sums_ref, scale_ref, clear_ref,
    sites_ref, chosen_ref, marks_ref, edges_ref,
    *, n, tile, block, balance, interpret,
):  # fmt: skip
    """The same, of a long chain: what goes over all of its sites is done before this kernel."""
    del clear_ref  # the same memory as chosen_ref
    memory = input_ref, chosen_ref, sites_ref, marks_ref, edges_ref
    chain = Chain(*memory, n, tile, block, balance, interpret)
    length = jnp.clip(length_ref[0], 0, n)
    first_table = partial(read_table, chain, sums_ref, scale_ref)
    choose(chain, (key_ref[0], key_ref[1]), length, first_table)


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
