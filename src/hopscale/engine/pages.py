"""Pages of numbers: written in the loop, summarised on the device, merged on the host.

Every step writes a row: its acceptance, its distance and its statistics. A full page is reduced on
the device to means, squared deviations and averages of blocks. The host merges these into `Moments`
and `Trace`, whose size does not depend on the length of the run.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale.kernels.kernel import ChainState, Info
from hopscale.record import Statistics
from hopscale.target import Target

# What every step records besides the statistics.
STEP_NUMBERS = ("accept_prob", "distance", "invalid", "scale")
HISTORY = 4096  # entries of their history


class Page(NamedTuple):
    """A buffer with a row for each step, and one more for steps that do not count."""

    numbers: Float[Array, "rows+1 numbers chains"]


class Summary(NamedTuple):
    """The summary of a page: mean and summed squared deviations over its steps, and its history.

    Attributes:
        mean, rest, squares: for each number and chain. The mean is `mean` + `rest`: the second is
            what rounding takes from the first, which matters where numbers are large and vary
            little. Squares are about `mean`.
        blocks: averages of the statistics over `resolution` steps each, chain by chain.
        history: the mean over chains of each step's numbers.
    """

    mean: Float[Array, "numbers chains"]
    rest: Float[Array, "numbers chains"]
    squares: Float[Array, "numbers chains"]
    blocks: Float[Array, "blocks statistics chains"]
    history: Float[Array, "rows steps"]


def page_rows(chains: int) -> int:
    """How many steps a page holds: fewer for many chains, of all runs, to limit its memory."""
    rows = 2048
    while rows > 128 and rows * chains > 2**21:
        rows //= 2
    return rows


def empty_page(statistics: Statistics, target: Target, chains: int, rows: int) -> Page:
    width = len(STEP_NUMBERS) + len(statistics.names)
    return Page(numbers=zeros((rows + 1, width, chains), target.dtype))


def zeros(shape: tuple[int, ...], dtype) -> Array:
    """Zeros made by NumPy, which compiles nothing, in memory that can be donated to a program."""
    return jax.device_put(np.zeros(shape, dtype), may_alias=False)


def row_of(statistics: Statistics, states: ChainState, scale: Array, info: Info, dtype) -> Array:
    """The row of a page that one step writes; `scale` is one number, or one for each chain."""
    found = jax.vmap(lambda state, info: statistics(state, info, dtype))(states, info)
    scale = jnp.broadcast_to(scale, info.accept_prob.shape)
    step = (info.accept_prob, info.distance, info.invalid, scale)
    return jnp.concatenate([jnp.stack([number.astype(dtype) for number in step]), found.T])


@partial(jax.jit, static_argnames="resolution")
def summarize(numbers: Array, rows: Array, resolution: int) -> Summary:
    """The summary of the first `rows` rows of pages along the first axis."""
    return jax.vmap(lambda page: _summary(page, rows, resolution))(numbers)


def _summary(numbers: Array, rows: Array, resolution: int) -> Summary:
    numbers = numbers[:-1]
    taken = (jnp.arange(len(numbers)) < rows)[:, None, None]
    counted = jnp.where(taken, numbers, 0.0)
    count = jnp.maximum(rows, 1).astype(numbers.dtype)
    mean = jnp.sum(counted, axis=0) / count
    off = jnp.where(taken, numbers - mean[None], 0.0)
    rest, first = jnp.sum(off, axis=0) / count, len(STEP_NUMBERS)
    return Summary(
        mean=mean,
        rest=jnp.where(jnp.isfinite(rest), rest, 0.0),  # the mean of infinite numbers is infinite
        squares=jnp.sum(off**2, axis=0),
        blocks=average(counted[:, first:], resolution),
        history=jnp.mean(counted[:, :first], axis=2),
    )


def average(rows, width: int):
    """Averages over `width` rows (a power of two), by halving, in a fixed order of summation."""
    while width > 1:
        rows, width = 0.5 * (rows[0::2] + rows[1::2]), width // 2
    return rows


class Moments:
    """Mean and variance over steps, from the summaries of pages (Chan, Golub and LeVeque)."""

    def __init__(self, shape: tuple[int, ...]):
        self.count, self._mean, self._squares = 0, np.zeros(shape), np.zeros(shape)

    def add(self, count: int, mean: np.ndarray, squares: np.ndarray) -> None:
        if not count:
            return
        with np.errstate(invalid="ignore"):  # numbers that are not finite give NaN
            gap, total = mean.astype(np.float64) - self._mean, self.count + count
            self._squares += squares + gap**2 * (self.count * count / total)
            self._mean += gap * (count / total)
        self.count = total

    @property
    def mean(self) -> np.ndarray:
        """NaN before the first step."""
        return self._mean.copy() if self.count else np.full_like(self._mean, np.nan)

    @property
    def variance(self) -> np.ndarray:
        """Over n, not n - 1."""
        return self._squares / self.count if self.count else np.full_like(self._squares, np.nan)

    def state(self) -> dict[str, np.ndarray]:
        return {"count": np.asarray(self.count), "mean": self._mean, "squares": self._squares}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.count = int(state["count"])
        self._mean, self._squares = state["mean"].copy(), state["squares"].copy()


class Trace:
    """A history in at most `capacity` blocks of equal length.

    While the run is short a block is one step. When the blocks run out, neighbours are averaged
    and blocks become twice as long. Averages of blocks carry the same information on the
    variance of the mean, so the effective sample size can still be estimated from them.
    """

    def __init__(self, shape: tuple[int, ...], capacity: int):
        self.block = 1
        self._capacity = capacity + capacity % 2
        self._blocks = np.zeros((0, *shape), np.float32)
        self._filled = 0
        self._loose = np.zeros((0, *shape), np.float32)

    def add(self, rows: np.ndarray, resolution: int) -> None:
        """Append rows, each the average of `resolution` steps.

        The lengths of pages and blocks are powers of two, so rows are left over for the next call
        only if a block is longer than a page.
        """
        rows = np.concatenate([self._loose, rows])
        while len(rows):
            width = self.block // resolution
            blocks = min(len(rows) // width, self._capacity - self._filled)
            if not blocks:
                break
            self._make_room(self._filled + blocks)
            self._blocks[self._filled : self._filled + blocks] = average(
                rows[: blocks * width], width
            )
            self._filled += blocks
            rows = rows[blocks * width :]
            if self._filled == self._capacity:
                self._filled //= 2
                self._blocks[: self._filled] = average(self._blocks[: self._capacity], 2)
                self.block *= 2
        self._loose = rows

    def _make_room(self, size: int) -> None:
        if size > len(self._blocks):
            room = min(self._capacity, max(2 * len(self._blocks), size))
            grown = np.zeros((room, *self._blocks.shape[1:]), np.float32)
            grown[: self._filled] = self._blocks[: self._filled]
            self._blocks = grown

    @property
    def values(self) -> np.ndarray:
        return self._blocks[: self._filled]

    def copy(self) -> "Trace":
        copy = Trace(self._blocks.shape[1:], self._capacity)
        copy.block, copy._filled, copy._blocks = self.block, self._filled, self.values.copy()
        copy._loose = self._loose
        return copy

    def state(self) -> dict[str, np.ndarray]:
        return {"block": np.asarray(self.block), "values": self.values, "loose": self._loose}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.block, self._blocks = int(state["block"]), np.array(state["values"])
        self._filled, self._loose = len(self._blocks), np.array(state["loose"])


def trace_capacity(chains: int) -> int:
    """Blocks of a trace: 2^22 numbers for each statistic, so fewer per chain if chains are many."""
    capacity = 16_384
    while capacity > 1024 and capacity * chains > 2**22:
        capacity //= 2
    return capacity


class Totals(NamedTuple):
    """The merged summaries of all full pages of a phase."""

    moments: Moments
    trace: Trace
    history: Trace

    @staticmethod
    def empty(runs: int, statistics: int, chains: int) -> "Totals":
        return Totals(
            moments=Moments((runs, len(STEP_NUMBERS) + statistics, chains)),
            trace=Trace((runs, statistics, chains), trace_capacity(chains)),
            history=empty_history(runs),
        )

    def add(self, summary: Summary, rows: int, resolution: int) -> None:
        """Add the summary of a page with this number of rows."""
        mean, rest, squares, blocks, means = map(np.asarray, summary)
        rest = rest.astype(np.float64)
        self.moments.add(rows, mean + rest, np.maximum(squares - rows * rest**2, 0.0))
        self.trace.add(np.swapaxes(blocks, 0, 1)[: rows // resolution], resolution)
        self.history.add(np.swapaxes(means, 0, 1)[:rows], 1)

    def copy(self) -> "Totals":
        moments = Moments((1,))
        moments.restore(self.moments.state())
        return Totals(moments, self.trace.copy(), self.history.copy())

    def state(self) -> dict[str, Any]:
        return {name: part.state() for name, part in self._asdict().items()}

    def restore(self, tree: Mapping[str, Any]) -> None:
        for name, part in self._asdict().items():
            part.restore(tree[name])


def empty_history(runs: int) -> Trace:
    """An empty history of the means over chains, step by step."""
    return Trace((runs, len(STEP_NUMBERS)), HISTORY)
