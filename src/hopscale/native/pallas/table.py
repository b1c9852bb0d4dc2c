"""A chain's weights as a table to draw sites from, by the algorithm of `reference`.

Sums over columns go to memory, those down the columns do not: a draw adds up the weights of its
column again, at most 16 of them. Which draws repeat a site is found by the least number of a draw
at each site, kept by atomic minima: of the draws that fall on a site, the one that finds its own
number there came first. These marks are only ever read where a draw has just reset them, or at
sites that were chosen, so nobody clears all of them. What one thread has written others read after
a barrier.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental.pallas import triton as plgpu

from hopscale.native import reference
from hopscale.native.pallas import parts

NEVER = np.float32(2.0**30)  # the number of a draw that has not come
FIRST = np.int32(0)  # the number of the first round
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

        All draws of a round are by the same weights, also those of sites that it has chosen. The
        first round loads nothing for it.
        """
        asked = (at < self.n) & (turn > 0)
        now = parts.load(self.marks, at, asked, NEVER) == mark_of(turn)
        return (at < self.n) & (~parts.load(self.chosen, at, asked, False) | now)

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


def mark_of(turn):
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
