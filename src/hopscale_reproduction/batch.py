"""Many cells side by side: one compiled program for targets, rates and chains alike.

A batch is what `hopscale.sample_many` runs: each cell has its own target, key and scale, and is
the run that `hopscale.sample` would give with the kernel's literal rule (`lengths="paper"`).
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale.kernels import Info, ScaleRange
from hopscale.results.run import Run
from hopscale.runs.host import drive
from hopscale.runs.plan import Plan
from hopscale.runs.run import make_runs
from hopscale.tune import Tuner, TunerState
from hopscale_reproduction.cells import Cell

CHUNK = {"cpu": 512, "gpu": 2048}  # steps between two looks at a batch
SITES = {"cpu": 2**19, "gpu": 2**26}  # of all chains of a batch together
CHAINS = 2**15  # of a batch: their traces have to fit into memory
SHORT = 1e11  # steps times sites: seconds on a GPU, less than compiling takes
STATISTIC = "statistic"


class GainTuner(Tuner):
    """The paper's rule with its step as a number: with 0 the scale stays. One program for both."""

    rate: Float[Array, ""]
    start: Float[Array, ""]
    gain: Float[Array, ""]

    def init(self, scales: ScaleRange, chains: int, dtype) -> TunerState:
        return TunerState(scale=self.start.astype(dtype))

    def update(self, state: TunerState, info: Info, scales: ScaleRange) -> TunerState:
        moved = state.scale + self.gain * (jnp.mean(info.accept_prob) - self.rate)
        scale = jnp.clip(moved, scales.low, scales.tuned_high)
        return TunerState(scale=scale.astype(state.scale.dtype))


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


def platform() -> str:
    """By which numbers differ: "cpu" or "gpu"."""
    return "cpu" if jax.default_backend() == "cpu" else "gpu"


def _sites(cell: Cell) -> int:
    """Of all its chains."""
    return cell.num_sites * cell.chains


def _most(cell: Cell) -> int:
    """How many cells of this shape one batch may hold."""
    return max(1, min(SITES[platform()] // _sites(cell), CHAINS // cell.chains))


def work(cell: Cell) -> int:
    """Steps times sites, of all its chains."""
    return (cell.warmup + cell.draws) * _sites(cell)


def program_size(cells: list[Cell]) -> int:
    """For how many cells to compile the program that runs these.

    On a GPU to compile takes longer than to run a few short cells more: sizes are rounded up to
    three binary digits, so that one program does for many batches.
    """
    count = len(cells)
    step = 1 << max(0, count.bit_length() - 3)
    rounded = min(-(-count // step) * step, max(count, _most(cells[0])))
    too_long = (rounded - count) * work(cells[0]) > SHORT
    return count if too_long or platform() == "cpu" else rounded


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
        self.warmup, self.draws = first.warmup, first.draws
        targets = [cell.make_target() for cell in filled]
        plan = Plan.of(
            targets,
            first.make_kernel(),
            [cell.seed for cell in filled],
            [_tuner(cell, target.dtype) for cell, target in zip(filled, targets, strict=True)],
            first.chains,
            self.warmup,
            self.draws,
            record=[
                {STATISTIC: cell.make_statistic(target)}
                for cell, target in zip(filled, targets, strict=True)
            ],
            defaults=False,
        )
        self._job = plan.begin()

    def run(self, tick: Callable[[int], bool]) -> bool:
        """Warm up and draw. `tick(steps)` is told of progress and says whether to go on."""
        return drive(self._job, chunk=CHUNK[platform()], progress=False, tell=tick) == "done"

    def results(self) -> list[dict[str, Any]]:
        """What each cell measured, with standard errors over chains."""
        runs = make_runs(self._job, None)[: len(self.cells)]
        with ThreadPoolExecutor() as pool:  # transforms let go of the interpreter
            return list(pool.map(self._measured, runs))

    def _measured(self, run: Run) -> dict[str, Any]:
        statistic = run.statistics[STATISTIC]
        return {
            "scale": float(np.mean(np.asarray(run.scale))),
            **_with_error("acceptance", run.accept_prob_by_chain),
            **_with_error("ejd", run.distance_by_chain),
            **_with_error("ess", statistic.ess_by_chain),
            "r_hat": statistic.r_hat,
            "seconds": run.run_seconds,
            "side_by_side": len(self._job.programs),
        }


def _tuner(cell: Cell, dtype) -> GainTuner:
    return GainTuner(
        rate=jnp.asarray(0.0 if cell.rate is None else cell.rate, dtype),
        start=jnp.asarray(cell.scale, dtype),
        gain=jnp.asarray(0.0 if cell.rate is None else 1.0, dtype),
    )


def _with_error(name: str, by_chain: np.ndarray) -> dict[str, float]:
    error = by_chain.std(ddof=1) / np.sqrt(len(by_chain)) if len(by_chain) > 1 else float("nan")
    return {name: float(by_chain.mean()), f"{name}_error": float(error)}
