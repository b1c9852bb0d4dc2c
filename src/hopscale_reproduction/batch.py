"""Many cells side by side: one compiled program for targets, rates and chains alike.

A run of `hopscale.sample` is a program with an axis of chains; here it gets another axis, of
cells. Each cell has its own target, key and scale, and is the run that `sample` would give.
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale import diagnostics, loop, native, validate
from hopscale.loop import Carry, Program, Span
from hopscale.scale import Tuner, TunerState
from hopscale_reproduction.cells import Cell

ROWS = 512  # steps between two looks at a batch
SITES = {"cpu": 2**19, "gpu": 2**28}  # of all chains of a batch together
CHAINS = 2**15  # of a batch: their traces have to fit into memory
BLOCKS = 10_000  # of a trace at most: longer ones hold means of 2, 4, 8, ... draws


class GainTuner(Tuner):
    """The paper's rule with its step as a number: with 0 the scale stays. One program for both."""

    rate: Float[Array, ""]
    start: Float[Array, ""]
    gain: Float[Array, ""]

    def init(self, num_sites: int, chains: int, dtype) -> TunerState:
        return TunerState(scale=self.start.astype(dtype))

    def update(self, state: TunerState, accept_prob, num_sites: int) -> TunerState:
        moved = state.scale + self.gain * (jnp.mean(accept_prob) - self.rate)
        return TunerState(scale=jnp.clip(moved, 1.0, float(num_sites)).astype(state.scale.dtype))


def split(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells in batches: of one shape each, equal in size where one does not hold them all."""
    groups: dict[tuple, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.shape, []).append(cell)
    batches = []
    for group in groups.values():
        most = _most(group[0])
        parts = -(-len(group) // most)
        size = -(-len(group) // parts)
        batches += [group[i : i + size] for i in range(0, len(group), size)]
    return batches


def _most(cell: Cell) -> int:
    """How many cells of this shape one batch may hold."""
    platform = "cpu" if jax.default_backend() == "cpu" else "gpu"
    sites = cell.make_target().num_sites * cell.chains
    return max(1, min(SITES[platform] // sites, CHAINS // cell.chains))


class Batch:
    """Cells of one shape, compiled."""

    def __init__(self, cells: list[Cell], size: int | None = None):
        """Args:
        cells: of one shape.
        size: how many to run, filling up with copies: batches of one size share a program.
        """
        self.cells = cells
        filled = cells + cells[:1] * ((size or len(cells)) - len(cells))
        first = cells[0]
        self.chains, self.warmup, self.draws = first.chains, first.warmup, first.draws
        programs, carries = zip(*map(_begin, filled), strict=True)
        self.programs, self.carry = _stack(programs), _stack(carries)
        rows = min(ROWS, max(self.warmup, self.draws, 1))
        self.rows = -(-rows // loop.PAGE) * loop.PAGE
        numbers = jnp.zeros((len(filled), self.rows, 4, self.chains), first.make_target().dtype)
        self.records = loop.Records(numbers=numbers, states=None)
        self.block = 1
        while self.draws > BLOCKS * self.block:
            self.block *= 2
        self.step, self.seconds = 0, 0.0
        self._advance(0, warm=True)  # compiles, and takes no step
        jax.block_until_ready(self.carry)

    def run(self, tick: Callable[[int], bool]) -> bool:
        """Warm up and draw. `tick(steps)` is told of progress and says whether to go on."""
        began = time.perf_counter()
        self.summaries: list[_Summary] = []
        seen = None
        for steps, warm in (*self._chunks(self.warmup, True), *self._chunks(self.draws, False)):
            self._advance(steps, warm)
            if seen is not None:
                self.summaries.append(_fetched(*seen, self.block))  # while the next chunk runs
            seen = None if warm else (_summary(self.records.numbers, steps, self.block), steps)
            if warm:
                jax.block_until_ready(self.carry)
            if not tick(steps):
                return False
        if seen is not None:
            self.summaries.append(_fetched(*seen, self.block))
        self.seconds = time.perf_counter() - began
        return True

    def _chunks(self, steps: int, warm: bool) -> list[tuple[int, bool]]:
        return [(min(self.rows, steps - done), warm) for done in range(0, steps, self.rows)]

    def _advance(self, steps: int, warm: bool) -> None:
        span = Span(
            first=jnp.asarray(self.step),
            steps=jnp.asarray(steps),
            warm=jnp.asarray(warm),
            thin=jnp.asarray(1),
            offset=jnp.asarray(0),
        )
        self.carry, self.records = _advance((self.programs, span), self.carry, self.records)
        self.step += steps

    def results(self) -> list[dict[str, Any]]:
        """What each cell measured, with standard errors over chains."""
        mean, variance = _merged(self.summaries)  # (cells, 3, chains), (cells, chains)
        traces = np.concatenate([summary.blocks for summary in self.summaries], axis=1)

        def mixing(i: int):
            arguments = (traces[i].T.astype(np.float64), self.block, variance[i])
            ess = diagnostics.effective_sample_size(*arguments)
            return ess, diagnostics.r_hat(arguments[0])

        with ThreadPoolExecutor() as pool:  # transforms let go of the interpreter
            mixed = list(pool.map(mixing, range(len(self.cells))))
        scales = np.asarray(self.carry.tuner.scale, np.float64)
        return [
            {
                "scale": float(scales[i]),
                **_measured("acceptance", mean[i, 0]),
                **_measured("ejd", mean[i, 1]),
                **_measured("ess", mixed[i][0]),
                "r_hat": mixed[i][1],
                "seconds": self.seconds / len(scales),
                "side_by_side": len(scales),
            }
            for i in range(len(self.cells))
        ]


class _Summary(NamedTuple):
    """A chunk of draws: means of what was recorded, and the statistic's history in blocks."""

    steps: Any
    mean: Any  # (cells, 3, chains): accept_prob, distance, statistic
    squares: Any  # (cells, chains): summed squared deviations of the statistic
    blocks: Any  # (cells, blocks, chains)


@partial(jax.jit, static_argnames="block")
def _summary(numbers, steps, block: int) -> _Summary:
    cells, rows, _, chains = numbers.shape
    taken = (jnp.arange(rows) < steps)[None, :, None, None]
    recorded = jnp.where(taken, numbers[:, :, :3], 0.0)
    mean = jnp.sum(recorded, axis=1) / steps
    off = jnp.where(taken[:, :, 0], recorded[:, :, 2] - mean[:, None, 2], 0.0)
    blocks = recorded[:, :, 2].reshape(cells, rows // block, block, chains)
    return _Summary(steps, mean, jnp.sum(off**2, axis=1), jnp.mean(blocks, axis=2))


def _fetched(summary: _Summary, steps: int, block: int) -> _Summary:
    """The summary in this machine's memory, without the rows that were not taken."""
    _, mean, squares, blocks = (np.asarray(part) for part in summary)
    full = blocks[:, : steps // block]
    return _Summary(steps, mean.astype(np.float64), squares.astype(np.float64), full)


def _merged(summaries: list[_Summary]) -> tuple[np.ndarray, np.ndarray]:
    """Means over all draws, and the statistic's variance."""
    steps = np.array([summary.steps for summary in summaries], np.float64)
    means = np.stack([summary.mean for summary in summaries])
    mean = np.average(means, axis=0, weights=steps)
    off = np.average((means[:, :, 2] - mean[:, 2]) ** 2, axis=0, weights=steps)
    return mean, sum(summary.squares for summary in summaries) / steps.sum() + off


@eqx.filter_jit(donate="all-except-first")
def _advance(fixed, carry, records):
    programs, span = fixed

    def one(program, carry, records):
        return loop.advance((program, span), carry, records)

    return eqx.filter_vmap(one)(programs, carry, records)


def _begin(cell: Cell) -> tuple[Program, Carry]:
    """Where `hopscale.sample` would begin with these settings."""
    target, sampler = cell.make_target(), cell.make_sampler()
    key_init, key_origin, key_run = jax.random.split(validate.as_key(cell.seed), 3)
    x = validate.initial_states(target, cell.chains, None, key_init)
    origin = jax.random.randint(key_origin, target.shape, 0, target.num_states)
    tuner = GainTuner(
        rate=jnp.asarray(0.0 if cell.rate is None else cell.rate, target.dtype),
        start=jnp.asarray(cell.scale, target.dtype),
        gain=jnp.asarray(0.0 if cell.rate is None else 1.0, target.dtype),
    )
    program = Program(
        key=key_run,
        target=target,
        sampler=sampler,
        tuner=tuner,
        statistic=cell.make_statistic(target, origin.astype(target.state_dtype)),
        implementation=native.in_use(),
        whole_pages=jax.default_backend() != "cpu",
    )
    carry = Carry(
        chains=loop.start(target, sampler, x),
        tuner=tuner.init(target.num_sites, cell.chains, target.dtype),
    )
    return program, carry


def _stack(trees):
    """Arrays of all trees, stacked; all else as in the first."""
    arrays, rest = eqx.partition(list(trees), eqx.is_array)
    return eqx.combine(jax.tree.map(lambda *a: jnp.stack(a), *arrays), rest[0])


def _measured(name: str, by_chain: np.ndarray) -> dict[str, float]:
    error = by_chain.std(ddof=1) / np.sqrt(len(by_chain)) if len(by_chain) > 1 else float("nan")
    return {name: float(by_chain.mean()), f"{name}_error": float(error)}
