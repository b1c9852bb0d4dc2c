"""Choosing sites by weight, by the algorithm of `reference`: one program a chain.

Sums over columns go to memory, those down the columns do not: a draw adds up the weights of its
column again, at most 16 of them. Which draws repeat a site is found by the least number of a draw
at each site, kept by atomic minima: of the draws that fall on a site, the one that finds its own
number there came first. These marks are only ever read where a draw has just reset them, or at
sites that were chosen, so nobody clears all of them. What one thread has written others read after
a barrier.
"""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental.pallas import triton as plgpu

from hopscale.native import reference
from hopscale.native.pallas import parts
from hopscale.native.pallas.scores import score_path

NEVER = np.float32(2.0**30)  # the number of a draw that has not come
LATE = np.float32(3e38)  # when a site without weight rings
FIRST = None  # the number of the first round; those of the others are known as it runs
IN_REGISTERS = 1024  # columns, of which all rows' values can be held


class Chain(NamedTuple):
    """The arrays of a chain, and what is fixed when a kernel is compiled."""

    input: Any  # references to memory
    chosen: Any
    sites: Any
    marks: Any
    edges: Any
    n: int
    tile: int
    block: int
    balance: str
    interpret: bool

    @property
    def width(self) -> int:
        return reference.columns(self.n)

    @property
    def rows(self) -> int:
        return -(-self.n // self.width)

    def barrier(self):
        if not self.interpret:
            plgpu.debug_barrier()

    def left(self, at, turn):
        """Which sites the round of this number may draw: not those of rounds before it.

        All draws of a round are by the same weights, also those of sites that it has chosen.
        """
        if turn is FIRST:
            return at < self.n
        now = parts.load(self.marks, at, at < self.n, NEVER) == _mark(turn)
        return ~parts.load(self.chosen, at, at < self.n, True) | ((at < self.n) & now)

    def values(self, at):
        return parts.load(self.input, at, at < self.n, -jnp.inf)

    def weights(self, at, turn, scale, values=None):
        """The weights of the sites that this round may draw; zero for the others."""
        values = self.values(at) if values is None else values
        weights = parts.weight(values, scale, self.balance)
        return jnp.where(self.left(at, turn), weights, 0.0)

    def over_tiles(self, size, body, initial, together=parts.TOGETHER):
        """Fold `body(at, value)` over the places below `size`."""
        return parts.over_tiles(size, self.tile, body, initial, together)

    def first_of(self, at, number, mask):
        """Which of these draws, numbered in order, is the first of those on its site."""
        parts.scatter(self.marks, at, jnp.full(at.shape, NEVER), mask)
        self.barrier()
        self._note(at, number, mask)
        self.barrier()
        return mask & (parts.load(self.marks, at, mask, NEVER) == number)

    def _note(self, at, number, mask):
        """Lower the marks of these sites to the numbers of the draws that fell on them."""
        if self.interpret:  # whose atomic operations know neither masks nor repeats
            marks = self.marks[...]  # pyright: ignore
            self.marks[...] = marks.at[jnp.where(mask, at, self.n)].min(number, mode="drop")  # pyright: ignore
        else:
            plgpu.atomic_min(self.marks, at, number, mask=mask)


def _mark(turn):
    """What marks the sites that a round, by its number, has chosen."""
    return (-turn).astype(jnp.float32)


class Table(NamedTuple):
    """What a draw needs beside the sums in memory: the unit of weights, and the sum of all."""

    scale: tuple[Array, Array]
    top: Array
    usable: Array


def tabulate(chain: Chain, turn) -> Table:
    """Whole sums over the columns, of the weights of all sites that are left, to memory."""
    short = chain.width <= min(chain.tile, IN_REGISTERS)
    values = [None] * chain.rows
    if short:
        column = lax.iota(jnp.int32, chain.tile)
        values = [chain.values(row * chain.width + column) for row in range(chain.rows)]

    def larger(at, most, x):
        return jnp.maximum(most, jnp.where(chain.left(at, turn) & (x == x), x, -jnp.inf))

    most = jnp.full(chain.tile, -jnp.inf, jnp.float32)
    if short:
        for row, x in enumerate(values):
            most = larger(row * chain.width + column, most, x)
    else:
        most = chain.over_tiles(chain.n, lambda at, most: larger(at, most, chain.values(at)), most)
    scale = parts.scale(most, chain.balance)

    def down(column):
        sums = jnp.zeros(chain.tile, jnp.float32)
        for row, x in enumerate(values):
            sums = sums + chain.weights(row * chain.width + column, turn, scale, x)
        return sums

    return _accumulate(chain, scale, down)


def read_table(chain: Chain, sums_ref, scale_ref) -> Table:
    """The same, where the sums down the columns are in memory, and all sites are left."""

    def down(column):
        return parts.load(sums_ref, column, column < chain.width, 0.0)

    return _accumulate(chain, (scale_ref[0], scale_ref[1]), down)


def _accumulate(chain: Chain, scale, down) -> Table:
    """The table of sums down the columns: `down(column)`, for a tile of columns."""

    def measure(total):
        usable = (total > 0.0) & (total < jnp.inf) & (scale[0] < jnp.inf)
        return usable, jnp.where(usable, np.float32(reference.PARTS) / total, 0.0)

    def write(column, sums, factor, before):
        whole = (sums * factor).astype(jnp.int32)
        edges = before + jnp.cumsum(whole, dtype=jnp.int32)
        parts.store(chain.edges, column, edges, column < chain.width)
        return before + jnp.sum(whole, dtype=jnp.int32)

    zero = jnp.int32(0)
    if chain.width <= chain.tile:
        column = lax.iota(jnp.int32, chain.tile)
        sums = jnp.where(column < chain.width, down(column), 0.0)
        usable, factor = measure(jnp.sum(sums))
        # Sums that are not usable may be NaN, which no whole number is.
        top = write(column, jnp.where(usable, sums, 0.0), factor, zero)
    else:
        lanes = jnp.zeros(chain.tile, jnp.float32)
        # One tile of columns at a time has as many loads as it has rows.
        lanes = chain.over_tiles(chain.width, lambda column, sums: sums + down(column), lanes, 1)
        usable, factor = measure(jnp.sum(lanes))

        def again(column, before):
            return write(column, jnp.where(usable, down(column), 0.0), factor, before)

        top = chain.over_tiles(chain.width, again, zero, 1)
    chain.barrier()
    return Table(scale=scale, top=top, usable=usable)


def draw(chain: Chain, table: Table, key, number, turn):
    """The sites that draws of these numbers fall on."""
    top = table.top.astype(jnp.uint32)  # pyright: ignore
    level = parts.high_product(parts.random_bits(key, 2 * number), top).astype(jnp.int32)
    column, half = jnp.zeros_like(number), chain.width // 2
    while half > 0:
        beyond = parts.load(chain.edges, column + (half - 1)) <= level
        column = jnp.where(beyond, column + half, column)
        half //= 2
    upto, sums = jnp.zeros(number.shape, jnp.float32), []
    for row in range(chain.rows):
        upto = upto + chain.weights(row * chain.width + column, turn, table.scale)
        sums.append(upto)
    goal = parts.uniform_number(parts.random_bits(key, 2 * number + 1)) * upto
    row = sum((s <= goal).astype(jnp.int32) for s in sums)
    return jnp.minimum(jnp.minimum(row, chain.rows - 1) * chain.width + column, chain.n - 1)


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
            parts.scatter(chain.marks, site, jnp.full(site.shape, _mark(turn)), kept)
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
