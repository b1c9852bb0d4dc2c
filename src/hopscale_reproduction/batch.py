"""Many cells side by side, in one compiled program over targets, rates and chains.

A batch runs as in `hopscale.sample_many`. Each cell has its own target, key and scale, and gives
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

CHUNK = {"cpu": 512, "gpu": 2048}  # steps between two calls of `tick`
SITES = {"cpu": 2**19, "gpu": 2**26}  # most sites of a batch, over all its chains
CHAINS = 2**15  # most chains of a batch: their traces must fit into memory
SHORT = 1e11  # steps times sites: these take seconds on a GPU, less than compiling
STATISTIC = "statistic"


class GainTuner(Tuner):
    """The paper's rule with its gain as an array: 0 fixes the scale, so one program does both."""

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
    """Group cells by shape into batches; a group too large for one batch is divided evenly."""
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
    """The kind of device that batch sizes depend on: "cpu" or "gpu"."""
    return "cpu" if jax.default_backend() == "cpu" else "gpu"


def _sites(cell: Cell) -> int:
    """The number of sites of a cell, over all its chains."""
    return cell.num_sites * cell.chains


def _most(cell: Cell) -> int:
    """How many cells of this shape one batch may hold."""
    return max(1, min(SITES[platform()] // _sites(cell), CHAINS // cell.chains))


def work(cell: Cell) -> int:
    """Steps times sites of a cell, over all its chains."""
    return (cell.warmup + cell.draws) * _sites(cell)


def program_size(cells: list[Cell]) -> int:
    """The number of cells that the program for these cells is compiled for.

    On a GPU, compiling takes longer than running a few more short cells. So sizes are rounded up
    to three binary digits, and many batches share one program.
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
        size: how many cells to run, copies included; batches of one size share a program.
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
        """Warm up and draw; `tick(steps)` receives the progress and returns whether to go on."""
        return drive(self._job, chunk=CHUNK[platform()], progress=False, tell=tick) == "done"

    def results(self) -> list[dict[str, Any]]:
        """The results of each cell, with standard errors over chains."""
        runs = make_runs(self._job, None)[: len(self.cells)]
        with ThreadPoolExecutor() as pool:  # FFTs release the interpreter lock
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
