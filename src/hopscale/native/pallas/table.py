"""A chain's weights as a table to draw sites from, by the algorithm of `reference`.

Sums over columns are stored in memory, those down the columns are not: a draw adds up the weights
of its column again, at most 16 of them. To find draws that repeat a site, atomic minima keep the
least number of a draw at each site: of the draws that fall on a site, the one that finds its own
number there came first. These marks are read only where a draw has just reset them, or at sites
that were chosen, so there is no need to clear all of them. What one thread has written is read by
others after a barrier.
"""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from hopscale.native import reference
from hopscale.native.pallas import parts
from hopscale.native.pallas.weights import Weighing

NEVER = np.float32(2.0**30)  # the number of a draw that was not made
FIRST = np.int32(0)  # the number of the first round


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
    at_once: int
    weighing: Weighing

    @property
    def width(self) -> int:
        return reference.columns(self.n)

    @property
    def rows(self) -> int:
        return -(-self.n // self.width)

    def barrier(self):
        if not self.weighing.interpret:
            plgpu.debug_barrier()

    def left(self, at, turn):
        """Which sites the round of this number may draw: all but those chosen in earlier rounds.

        All draws of a round use the same weights, including those of sites that it has chosen.
        """
        asked = at < self.n
        if turn is FIRST:
            return asked
        now = parts.load(self.marks, at, asked, NEVER) == mark_of(turn)
        return asked & (~parts.load(self.chosen, at, asked, True) | now)

    def values(self, at):
        return parts.load(self.input, at, at < self.n, -jnp.inf)

    def weights(self, at, turn, unit):
        """The weights of the sites that this round may draw; zero for the others."""
        weights = self.weighing.weight(self.values(at), unit)
        return jnp.where(self.left(at, turn), weights, 0.0)

    def over_tiles(self, size, body, initial, together=parts.TOGETHER):
        """Fold `body(at, value)` over the places below `size`."""
        return parts.over_tiles(size, self.tile, body, initial, together)

    def over_rows(self, column, body, initial):
        """Fold `body(at, value)` over the sites in these columns, a few rows at a time."""
        together = min(pl.next_power_of_2(self.rows), max(1, self.at_once // column.size))

        def some(turn, value):
            row = turn * together + lax.broadcasted_iota(jnp.int32, (together, column.size), 0)
            return body(row * self.width + column[None, :], value)

        turns = -(-self.rows // together)
        if turns == 1:
            return some(np.int32(0), initial)
        return lax.fori_loop(np.int32(0), np.int32(turns), some, initial)

    def first_of(self, at, number, mask):
        """Which of these draws, numbered in order, is the first of those on its site."""
        parts.scatter(self.marks, at, jnp.full(at.shape, NEVER), mask)
        self.barrier()
        self._note(at, number, mask)
        self.barrier()
        return mask & (parts.load(self.marks, at, mask, NEVER) == number)

    def _note(self, at, number, mask):
        """Lower the marks of these sites to the numbers of the draws that fell on them."""
        if self.weighing.interpret:  # its atomic operations take neither masks nor repeats
            marks = self.marks[...]  # pyright: ignore
            self.marks[...] = marks.at[jnp.where(mask, at, self.n)].min(number, mode="drop")  # pyright: ignore
        else:
            plgpu.atomic_min(self.marks, at, number, mask=mask)


def mark_of(turn):
    """What marks the sites that a round, by its number, has chosen."""
    return (-turn).astype(jnp.float32)


class Table(NamedTuple):
    """What a draw needs besides the sums in memory: the unit of weights, and their sums."""

    unit: tuple[Array, ...]
    total: Array  # of the weights
    top: Array  # the same in whole parts
    usable: Array


def tabulate(chain: Chain, turn) -> Table:
    """Write sums over the columns, in whole numbers, of the weights of all remaining sites."""
    column = lax.iota(jnp.int32, chain.tile)
    nothing = jnp.zeros(chain.tile, jnp.float32), jnp.full(chain.tile, -jnp.inf, jnp.float32)
    in_registers = chain.width <= chain.tile

    def weigh(unit):
        def down(column, sums):
            return chain.over_rows(column, partial(_add, chain, turn, unit), sums)

        if in_registers:
            sums, most = down(column, nothing)
        else:
            sums, most = chain.over_tiles(chain.width, down, nothing, 1)
        return jnp.sum(sums), jnp.max(most), sums

    unit, total, sums = chain.weighing.in_unit(weigh, nothing[:1])
    usable = (total > 0.0) & (total < jnp.inf) & (unit[0] < jnp.inf)
    factor = jnp.where(usable, np.float32(reference.PARTS) / total, 0.0)

    def write(column, before, sums=None):
        if sums is None:
            add = partial(_add, chain, turn, unit)
            sums, _ = chain.over_rows(column, add, nothing)
        # Sums that are not usable may be NaN, which is not a whole number.
        whole = (jnp.where(usable, sums, 0.0) * factor).astype(jnp.int32)
        edges = before + jnp.cumsum(whole, dtype=jnp.int32)
        parts.store(chain.edges, column, edges, column < chain.width)
        return before + jnp.sum(whole, dtype=jnp.int32)

    if in_registers:
        top = write(column, jnp.int32(0), sums)
    else:
        top = chain.over_tiles(chain.width, write, jnp.int32(0), 1)
    chain.barrier()
    return Table(unit=unit, total=total, top=top, usable=usable)


def _add(chain: Chain, turn, unit, at, state):
    """Add the weights of some rows to sums down the columns; and keep the largest value of each."""
    sums, most = state
    left = chain.left(at, turn)
    x = jnp.where(left, chain.values(at), -jnp.inf)
    weights = jnp.where(left, chain.weighing.weight(x, unit), 0.0)
    return sums + jnp.sum(weights, axis=0), jnp.maximum(most, jnp.max(x, axis=0))


def draw(chain: Chain, table: Table, key, number, turn):
    """The sites that draws of these numbers fall on."""
    top = table.top.astype(jnp.uint32)  # pyright: ignore
    level = parts.high_product(parts.random_bits(key, 2 * number), top).astype(jnp.int32)
    column, half = jnp.zeros_like(number), chain.width // 2
    while half > 0:
        beyond = parts.load(chain.edges, column + (half - 1)) <= level
        column = jnp.where(beyond, column + half, column)
        half //= 2
    shape = pl.next_power_of_2(chain.rows), number.size
    rows = lax.broadcasted_iota(jnp.int32, shape, 0)
    weights = chain.weights(rows * chain.width + column[None, :], turn, table.unit)
    upto = jnp.cumsum(weights, axis=0)
    goal = parts.uniform_number(parts.random_bits(key, 2 * number + 1)) * jnp.max(upto, axis=0)
    # The first beyond the goal that has weight: sums made in parallel need not be monotonic.
    beyond = (upto > goal[None, :]) & (weights > 0.0)
    row = jnp.min(jnp.where(beyond, rows, chain.rows - 1), axis=0)
    return jnp.minimum(row * chain.width + column, chain.n - 1)
