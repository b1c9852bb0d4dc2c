"""Statistics and recorders of a run, in memory that does not grow with its length.

A *statistic* is a number for each chain and draw. Its trace is kept, averaged into blocks when it
gets long; mean, Monte Carlo error, effective sample size and R-hat are computed from it.
A *recorder* keeps anything else that can be updated draw by draw: means of all sites, moments of
pairs, a histogram, the best state. Both run on the device, inside the compiled loop.

Examples:
    >>> record = {"sites": hs.record.SiteMeans(), "ones": lambda state, info: state.x.sum()}
    >>> run = hs.sample(hs.Bernoulli([0.2, 0.5, 0.8]), record=record, progress=False)
    >>> print(run.recorded["sites"].mean.round(1))
    [0.2 0.5 0.8]
    >>> print(round(run.statistics["ones"].mean, 1))
    1.5
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale import native, tables, validate
from hopscale.kernels.kernel import ChainState, Info
from hopscale.target import State, Target, as_float


class Hamming(eqx.Module):
    """Hamming distance to a fixed state; the paper's statistic if that state is random."""

    origin: State

    def __call__(self, state: ChainState, info: Info) -> Float[Array, ""]:
        return native.call("hamming", state.x, self.origin)


def log_prob(state: ChainState, info: Info) -> Float[Array, ""]:
    """The log-probability of the state, up to a constant of the target."""
    return state.log_prob


class Statistics(eqx.Module):
    """Functions of (state, info), each of which returns one number or several.

    Attributes:
        functions: the functions, in order.
        names: names of the numbers that they return, in order.
    """

    functions: tuple[Callable, ...]  # not a dictionary, which JAX would sort
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, functions: Mapping[str, Callable], state: ChainState, info: Info):
        """Name the numbers that the functions return.

        Args:
            functions: the functions, by name.
            state, info: of one chain, or their shapes: what the functions will be given.
        """
        self.functions = tuple(functions.values())
        names: list[str] = []
        for name, function in functions.items():
            names += _names(name, function, state, info)
        self.names = tuple(names)

    def __call__(self, state: ChainState, info: Info, dtype) -> Float[Array, " statistics"]:
        """All numbers for one chain."""
        values = []
        for function in self.functions:
            for leaf in jax.tree.leaves(function(state, info)):
                values.append(jnp.ravel(jnp.asarray(leaf)).astype(dtype))
        return jnp.concatenate(values)


def _names(name: str, function: Any, state: ChainState, info: Info) -> list[str]:
    """The names of the numbers that a function returns."""
    if not callable(function) or isinstance(function, type):
        raise TypeError(
            f"record[{name!r}] must be a function of (state, info) or a recorder such as "
            f"hs.record.SiteMeans(); got {function!r}."
        )
    needed = f"record[{name!r}] must be a function of (state, info)"
    out = validate.outcome(needed, function, state, info)
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
    """Base class of recorders: a memory that is updated at every draw of all chains.

    Attributes:
        in_warmup: whether it also runs during warm-up, where its result is discarded. If all
            recorders do, warm-up and draws share one compiled program.
        by_chain: whether each array of its memory has a leading axis of chains, and a chain's
            entries depend on that chain alone. If so, each of several devices keeps the memory of
            its own chains. Otherwise every device keeps the same memory, of all chains.
    """

    in_warmup: ClassVar[bool] = False
    by_chain: ClassVar[bool] = False

    @abc.abstractmethod
    def init(self, target: Target, chains: int) -> Any:
        """The memory before the first draw, made of arrays."""

    @abc.abstractmethod
    def update(self, memory: Any, states: ChainState, info: Info) -> Any:
        """The memory after a draw; `states` and `info` have a leading axis of chains."""

    @abc.abstractmethod
    def result(self, memory: Any, draws: int) -> Any:
        """The result for the user, given the memory after `draws` draws."""


class SiteMeans(Recorder):
    """The mean of every site over all draws; for bits, the share of draws in which it is 1.

    The result has `mean` and `error`, the standard error over chains, both of a state's shape.
    """

    by_chain: ClassVar[bool] = True

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
        # The mean over chains is exact in single precision up to 2^24 chains. The rounding error of
        # adding it to a large total is carried along.
        added = (flat.T @ flat) / len(flat) - lost
        after = total + added
        return after, (after - total) - added

    def result(self, memory, draws: int) -> np.ndarray:
        return np.asarray(memory[0], np.float64) / max(draws, 1)


class Histogram(Recorder):
    """The histogram of a statistic over all draws and chains, as counts.

    Args:
        function: a function of (state, info) that returns one number.
        edges: the n + 1 rising edges of n bins. Values outside are counted in the two outer bins.
    """

    function: Callable
    edges: Float[Array, " edges"]

    by_chain: ClassVar[bool] = True

    def __init__(self, function: Callable, edges):
        rising = np.asarray(edges)
        if (
            rising.dtype.kind not in "iuf"
            or rising.ndim != 1
            or rising.size < 2
            or not np.all(np.diff(rising) > 0)
        ):
            raise ValueError(f"edges must be at least two rising numbers; got {edges!r}.")
        if not callable(function):
            raise TypeError(f"function must be a function of (state, info); got {function!r}.")
        self.function, self.edges = function, jnp.asarray(rising)

    def init(self, target: Target, chains: int):
        return jnp.zeros((chains, self.edges.size - 1), jnp.int32)

    def update(self, memory, states: ChainState, info: Info):
        values = jax.vmap(self.function)(states, info)
        dtype = jnp.result_type(values.dtype, self.edges.dtype)
        inner = self.edges[1:-1].astype(dtype)
        bins = jnp.searchsorted(inner, values.astype(dtype), side="right")
        bins = jnp.where(values == values, bins, memory.shape[1])  # NaN is counted nowhere
        return memory + jax.nn.one_hot(bins, memory.shape[1], dtype=memory.dtype)

    def result(self, memory, draws: int) -> np.ndarray:
        return np.asarray(memory, np.int64).sum(axis=0)


class Best(NamedTuple):
    """The most probable state seen, and its log-probability."""

    x: np.ndarray
    log_prob: float

    def __repr__(self) -> str:
        return f"Best(log_prob={self.log_prob:.6g}, x={tables.short(self.x)})"


class BestState(Recorder):
    """The state with the largest log-probability among all draws of all chains."""

    by_chain: ClassVar[bool] = True

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

    def __repr__(self) -> str:
        return f"mean {tables.short(self.mean)} ± {tables.short(self.error)}"

    @staticmethod
    def of(by_chain: np.ndarray) -> "MeanAndError":
        count = len(by_chain)
        if count < 2:
            return MeanAndError(by_chain.mean(axis=0), np.full(by_chain.shape[1:], np.nan))
        return MeanAndError(by_chain.mean(axis=0), by_chain.std(axis=0, ddof=1) / np.sqrt(count))
