"""Running experiments: what is not in the store is run, in batches, and put there."""

import collections
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hopscale.progress import interruptible
from hopscale_reproduction.batch import Batch, split
from hopscale_reproduction.cells import Cell, digest
from hopscale_reproduction.experiments import Experiment
from hopscale_reproduction.store import Store

AHEAD = {"cpu": 1, "gpu": 6}  # batches compiled while another runs


class Outcome(NamedTuple):
    """How far an experiment is."""

    name: str
    cells: int
    ran: int
    seconds: float
    complete: bool
    stopped: bool = False  # by Ctrl-C


class Runner:
    """Runs experiments one after the other.

    Args:
        store: where cells are kept.
        profile: "quick" or "paper".
        minutes: stop after so long; the cells done until then are kept. None: no limit.
        console: where progress is shown: bars on a terminal, else a line an experiment.
    """

    def __init__(
        self, store: Store, profile: str, minutes: float | None = None, console=None
    ) -> None:
        self.store, self.profile = store, profile
        self.console = console or Console(stderr=True)
        self._deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self.stopped = False  # by Ctrl-C

    @property
    def over(self) -> bool:
        """Whether to stop: by Ctrl-C, or because time is up."""
        late = self._deadline is not None and time.monotonic() > self._deadline
        return self.stopped or late

    @property
    def minutes_left(self) -> float | None:
        """Until time is up; None where there is no limit."""
        return None if self._deadline is None else (self._deadline - time.monotonic()) / 60

    def run(self, experiments: list[Experiment]) -> list[Outcome]:
        """Run what is missing, until nothing is, or it is time to stop."""
        with interruptible(self), self.store.renewing(), self._bars() as bars:
            tasks = [
                bars.add_task(f"{e.title:24}", total=None, start=False, rate="")
                for e in experiments
            ]
            return [
                self._experiment(experiment, _Line(bars, task))
                for experiment, task in zip(experiments, tasks, strict=True)
            ]

    def find(self, cell: Cell):
        return self.store.get(cell.settings())

    def _experiment(self, experiment: Experiment, line: "_Line") -> Outcome:
        began, ran = time.monotonic(), 0
        while True:
            cells = list(dict.fromkeys(experiment.cells(self.profile, self.find)))
            missing = [cell for cell in cells if self.find(cell) is None]
            line.begin(len(cells), len(cells) - len(missing))
            if not missing or self.over:
                break
            done = self._batches(split(missing), line)
            ran += done
            if not done and not self.over:
                time.sleep(1.0)  # another process is at the rest
        outcome = Outcome(
            experiment.name, len(cells), ran, time.monotonic() - began, complete=not missing
        )
        if not self.console.is_terminal:
            self.console.print(_sentence(experiment, outcome, len(missing)), highlight=False)
        return outcome

    def _batches(self, batches: list[list[Cell]], line: "_Line") -> int:
        """Run batches; while one runs, the next are compiled. How many cells got done."""
        done, ready, waiting = 0, collections.deque(), iter(batches)
        threads = AHEAD["cpu" if jax.default_backend() == "cpu" else "gpu"]
        with ThreadPoolExecutor(threads) as ahead:
            while not self.over:
                while len(ready) < threads + 1 and (future := self._prepare(ahead, waiting)):
                    ready.append(future)
                if not ready:
                    break
                batch = ready.popleft().result()
                if not batch.run(lambda steps, batch=batch: self._tick(batch, steps, line)):
                    break
                for cell, results in zip(batch.cells, batch.results(), strict=True):
                    self.store.put(cell.settings(), results)
                done += len(batch.cells)
            ahead.shutdown(cancel_futures=True)
        return done

    def _prepare(self, ahead: ThreadPoolExecutor, waiting: Iterator) -> "Future[Batch] | None":
        """Claim the next batch, and begin to compile it."""
        for cells in waiting:
            keys = {digest(cell.settings()): cell for cell in cells}
            mine = self.store.claim(keys)
            if mine:
                chosen = [cell for key, cell in keys.items() if key in mine]
                return ahead.submit(Batch, chosen, len(cells))
        return None

    def _tick(self, batch: Batch, steps: int, line: "_Line") -> bool:
        """Called between chunks of a batch."""
        line.advance(len(batch.cells) * steps / (batch.warmup + batch.draws))
        return not self.over

    @contextmanager
    def _bars(self):
        bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:>14}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            refresh_per_second=2,
        )
        with bars:
            yield bars


class _Line:
    """An experiment's line of progress: cells done, of all; cells a second; time left."""

    def __init__(self, bars: Progress, task) -> None:
        self._bars, self._task = bars, task
        self._began, self._seen, self._at = None, 0.0, 0.0

    def begin(self, total: int, done: int) -> None:
        if self._began is None:
            self._began = time.monotonic()
            self._bars.start_task(self._task)
        self._at = float(done)
        self._bars.update(self._task, total=total, completed=done)

    def advance(self, cells: float) -> None:
        assert self._began is not None
        self._at += cells
        self._seen += cells
        rate = self._seen / max(time.monotonic() - self._began, 1e-9)
        text = f"{rate:.1f} cells/s" if rate >= 0.1 else f"{60 * rate:.1f} cells/min"
        self._bars.update(self._task, completed=int(self._at + 1e-6), rate=text)


def _sentence(experiment: Experiment, outcome: Outcome, missing: int) -> str:
    left = "" if outcome.complete else f", {missing:,} left"
    return (
        f"{experiment.title:24} {outcome.cells:>6,} cells, {outcome.ran:,} of them run now in "
        f"{outcome.seconds:.0f} s{left}"
    )
