"""What is remembered of a run, in memory that does not grow with its length.

A *statistic* is a number for each chain and draw: its history is kept, averaged into blocks when
it gets long, so that mean, Monte Carlo error, effective sample size and R-hat can be had from it.
A *recorder* keeps whatever else can be updated draw by draw: means of all sites, moments of pairs,
a histogram, the best state. Both work on the device, inside the compiled loop; the host only
merges a summary of each page of steps.
"""

import abc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale import native
from hopscale.kernels.kernel import ChainState, Info
from hopscale.loop import Chains
from hopscale.target import State, Target, as_float

# What every step leaves beside the statistics.
STEP_NUMBERS = ("accept_prob", "distance", "invalid", "scale")


class Hamming(eqx.Module):
    """Hamming distance to a fixed state; the paper's statistic, if that is random."""

    origin: State

    def __call__(self, state: ChainState, info: Info) -> Float[Array, ""]:
        return native.call("hamming", state.x, self.origin)


def log_prob(state: ChainState, info: Info) -> Float[Array, ""]:
    """The log-probability of the state, up to the target's constant."""
    return state.log_prob


class Statistics(eqx.Module):
    """Functions of (state, info), each of which gives a number, or several.

    Attributes:
        functions: one after the other.
        names: of the numbers they give, in order.
    """

    functions: tuple[Callable, ...]  # a dictionary would be sorted as it passes through JAX
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, functions: Mapping[str, Callable], state: ChainState, info: Info):
        """Args:
        functions: by name.
        state, info: of one chain, or their shapes: what the functions will be given.
        """
        self.functions = tuple(functions.values())
        names: list[str] = []
        for name, function in functions.items():
            names += _names(name, function, state, info)
        self.names = tuple(names)

    def __call__(self, state: ChainState, info: Info, dtype) -> Float[Array, " statistics"]:
        """All numbers of one chain."""
        values = []
        for function in self.functions:
            for leaf in jax.tree.leaves(function(state, info)):
                values.append(jnp.ravel(jnp.asarray(leaf)).astype(dtype))
        return jnp.concatenate(values)


def _names(name: str, function: Any, state: ChainState, info: Info) -> list[str]:
    """What the numbers of a function are called."""
    if not callable(function) or isinstance(function, type):
        raise TypeError(
            f"record[{name!r}] must be a function of (state, info) or a recorder such as "
            f"hs.record.SiteMeans(); got {function!r}."
        )
    out = eqx.filter_eval_shape(function, state, info)
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(out):
        shape = getattr(leaf, "shape", ())
        kind = getattr(leaf, "dtype", np.dtype(float))
        if jnp.issubdtype(kind, jnp.complexfloating) or len(shape) > 1:
            raise ValueError(
                f"record[{name!r}] must give real numbers for one chain, or one axis of them; it "
                f"gives {leaf}. For arrays, use a recorder such as hs.record.SiteMeans()."
            )
        label = name + jax.tree_util.keystr(path)
        found += [label] if not shape else [f"{label}[{i}]" for i in range(shape[0])]
    if not found:
        raise ValueError(f"record[{name!r}] must give at least one number; it gives {out}.")
    return found


# -- Recorders -----------------------------------------------------------------------------------


class Recorder(eqx.Module):
    """Something that is updated at every draw of all chains."""

    @abc.abstractmethod
    def init(self, target: Target, chains: int) -> Any:
        """The memory before the first draw: arrays."""

    @abc.abstractmethod
    def update(self, memory: Any, states: ChainState, info: Info) -> Any:
        """The memory after a draw; everything has a leading axis of chains."""

    @abc.abstractmethod
    def result(self, memory: Any, draws: int) -> Any:
        """What the user gets."""


class SiteMeans(Recorder):
    """The mean of every site over all draws: for bits, how often it is 1.

    The result has the shape of a state, with `.error`, the standard error over chains.
    """

    def init(self, target: Target, chains: int):
        # Counts are exact as integers; 2^31 draws of one chain would overflow them.
        return jnp.zeros((chains, *target.shape), jnp.int32)

    def update(self, memory, states: ChainState, info: Info):
        return memory + states.x.astype(jnp.int32)

    def result(self, memory, draws: int) -> "MeanAndError":
        by_chain = np.asarray(memory, np.float64) / max(draws, 1)
        return MeanAndError.of(by_chain)


class PairMoments(Recorder):
    """The mean of every product x_i x_j over all draws and chains, as a matrix over sites."""

    def init(self, target: Target, chains: int):
        n = target.num_sites
        return jnp.zeros((n, n), target.dtype), jnp.zeros((n, n), target.dtype)

    def update(self, memory, states: ChainState, info: Info):
        total, lost = memory
        flat = as_float(states.x.reshape(len(states.x), -1), total.dtype)
        # The mean over chains is exact in single precision up to 2^24 chains; what adding it to a
        # large total rounds off is carried along.
        added = (flat.T @ flat) / len(flat) - lost
        after = total + added
        return after, (after - total) - added

    def result(self, memory, draws: int) -> np.ndarray:
        return np.asarray(memory[0], np.float64) / max(draws, 1)


class Histogram(Recorder):
    """How often a statistic falls between two edges, over all draws and chains.

    Args:
        function: of (state, info), to one number.
        edges: n + 1 rising edges of n bins. What falls outside is counted in the two outer bins.
    """

    function: Callable
    edges: Float[Array, " edges"]

    def __init__(self, function: Callable, edges):
        rising = np.asarray(edges, np.float64)
        if rising.ndim != 1 or rising.size < 2 or not np.all(np.diff(rising) > 0):
            raise ValueError(f"edges must be at least two rising numbers; got {edges!r}.")
        self.function, self.edges = function, jnp.asarray(rising)

    def init(self, target: Target, chains: int):
        return jnp.zeros((chains, self.edges.size - 1), jnp.int32)

    def update(self, memory, states: ChainState, info: Info):
        values = jax.vmap(self.function)(states, info)
        inner = self.edges[1:-1].astype(values.dtype)
        bins = jnp.searchsorted(inner, values, side="right")
        return memory + jax.nn.one_hot(bins, memory.shape[1], dtype=memory.dtype)

    def result(self, memory, draws: int) -> np.ndarray:
        return np.asarray(memory, np.int64).sum(axis=0)


class Best(NamedTuple):
    """The most probable state seen, and its log-probability."""

    x: np.ndarray
    log_prob: float


class BestState(Recorder):
    """The state of the largest log-probability among all draws of all chains."""

    def init(self, target: Target, chains: int):
        x = jnp.zeros((chains, *target.shape), target.state_dtype)
        return x, jnp.full(chains, -jnp.inf, target.dtype)

    def update(self, memory, states: ChainState, info: Info):
        x, log_prob = memory
        better = states.log_prob > log_prob
        shaped = better.reshape(-1, *[1] * (x.ndim - 1))
        return jnp.where(shaped, states.x, x), jnp.where(better, states.log_prob, log_prob)

    def result(self, memory, draws: int) -> Best:
        x, log_prob = map(np.asarray, memory)
        first = int(np.argmax(log_prob))
        return Best(x=x[first], log_prob=float(log_prob[first]))


class MeanAndError(NamedTuple):
    """A mean over all draws, and its standard error over chains (NaN for one chain)."""

    mean: np.ndarray
    error: np.ndarray

    @staticmethod
    def of(by_chain: np.ndarray) -> "MeanAndError":
        count = len(by_chain)
        if count < 2:
            return MeanAndError(by_chain.mean(axis=0), np.full(by_chain.shape[1:], np.nan))
        return MeanAndError(by_chain.mean(axis=0), by_chain.std(axis=0, ddof=1) / np.sqrt(count))


# -- Pages of numbers: written in the loop, summarised on the device, merged on the host. ---------


class Page(NamedTuple):
    """A buffer with a row for each step, and one more for steps that do not count."""

    numbers: Float[Array, "rows+1 numbers chains"]


class Summary(NamedTuple):
    """A page: mean and summed squared deviations over its steps, and its history.

    Attributes:
        mean, squares: by number and chain.
        blocks: averages of the statistics over `resolution` steps each, chain by chain.
        history: the mean over chains of each step's numbers.
    """

    mean: Float[Array, "numbers chains"]
    squares: Float[Array, "numbers chains"]
    blocks: Float[Array, "blocks statistics chains"]
    history: Float[Array, "rows steps"]


def page_rows(chains: int) -> int:
    """How many steps a page holds: some megabytes, whatever the number of chains."""
    rows = 2048
    while rows > 128 and rows * chains > 2**21:
        rows //= 2
    return rows


def empty_page(statistics: Statistics, target: Target, chains: int) -> Page:
    width = len(STEP_NUMBERS) + len(statistics.names)
    return Page(numbers=jnp.zeros((page_rows(chains) + 1, width, chains), target.dtype))


def row_of(statistics: Statistics, chains: Chains, info: Info, dtype) -> Array:
    """What one step leaves in its row of a page."""
    found = jax.vmap(lambda state, info: statistics(state, info, dtype))(chains.states, info)
    scale = jnp.broadcast_to(chains.tuner.scale, info.accept_prob.shape)
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
    mean = jnp.sum(counted, axis=0) / jnp.maximum(rows, 1).astype(numbers.dtype)
    off = jnp.where(taken, numbers - mean[None], 0.0)
    first = len(STEP_NUMBERS)
    return Summary(
        mean=mean,
        squares=jnp.sum(off**2, axis=0),
        blocks=average(counted[:, first:], resolution),
        history=jnp.mean(counted[:, :first], axis=2),
    )


def average(rows, width: int):
    """Averages over `width` rows (a power of two), by halving: the same tree however they came."""
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
    variance of the mean, so the effective sample size can still be had from them.
    """

    def __init__(self, shape: tuple[int, ...], capacity: int):
        self.block = 1
        self._capacity = capacity + capacity % 2
        self._blocks = np.zeros((0, *shape), np.float32)
        self._filled = 0
        self._loose = np.zeros((0, *shape), np.float32)

    def add(self, rows: np.ndarray, resolution: int) -> None:
        """Append rows, each the average of `resolution` steps.

        Pages are a power of two long, and so are blocks: rows are left over, for the next call,
        only where a block is longer than a page.
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
        made = Trace(self._blocks.shape[1:], self._capacity)
        made.block, made._filled, made._blocks = self.block, self._filled, self.values.copy()
        made._loose = self._loose
        return made

    def state(self) -> dict[str, np.ndarray]:
        return {"block": np.asarray(self.block), "values": self.values, "loose": self._loose}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.block, self._blocks = int(state["block"]), np.array(state["values"])
        self._filled, self._loose = len(self._blocks), np.array(state["loose"])


def trace_capacity(chains: int) -> int:
    """Blocks of a trace: 2^22 numbers a statistic, and fewer of each chain where there are many."""
    capacity = 16_384
    while capacity > 1024 and capacity * chains > 2**22:
        capacity //= 2
    return capacity
