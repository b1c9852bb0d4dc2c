"""Running experiments: cells that are not in the store are run and stored."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hopscale.runs.host import interruptible
from hopscale_reproduction.cells import AnyCell, digest
from hopscale_reproduction.experiment import Context, Experiment, OutOfTimeError
from hopscale_reproduction.schedule import Batches
from hopscale_reproduction.store import Store
from hopscale_reproduction.tasks import Line, Outcome, Task, missing

WAIT = 1.0  # seconds between two checks of cells that another process is running


class Runner:
    """Runs experiments: those with samplers together, then the others one after the other.

    Cells that several experiments share are run once. Cells of one shape run side by side,
    whichever experiment they belong to.

    Args:
        store: where results are stored.
        profile: "quick" or "paper".
        minutes: stop after this time; the cells done until then are kept. None: no limit.
        console: where progress is shown: bars on a terminal, else a line for each experiment.
        data_dir: the folder of data sets, for experiments that need one.
    """

    def __init__(
        self,
        store: Store,
        profile: str,
        minutes: float | None = None,
        console: Console | None = None,
        data_dir: Path | None = None,
    ) -> None:
        self.store, self.profile = store, profile
        self.console = console or Console(stderr=True)
        self.stopped = False  # by Ctrl-C
        self._found: dict[AnyCell, dict[str, Any]] = {}  # stored results never change
        self._deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self.context = Context(
            folder=store.path.parent,
            data_dir=data_dir,
            seconds_left=lambda: self._deadline - time.monotonic(),
            say=lambda line: self.console.print(line, highlight=False),
        )

    @property
    def over(self) -> bool:
        """Whether to stop, because of Ctrl-C or because time is up."""
        return self.stopped or self.context.seconds_left() < 0

    def expire(self) -> None:
        """End the run now: a procedure has run out of time."""
        self._deadline = -math.inf

    def find(self, cell: AnyCell) -> dict[str, Any] | None:
        """The results of a cell; None if it was not run."""
        if cell not in self._found:
            found = self.store.get(cell.settings())
            if found is None:
                return None
            self._found[cell] = found
        return self._found[cell]

    def run(self, experiments: Sequence[Experiment]) -> list[Outcome]:
        """Run missing cells until none is left or it is time to stop.

        Runs of samplers come first, with progress bars. A procedure shows its own progress and
        handles Ctrl-C itself.
        """
        # Another process may be running some of the cells: its results count, too.
        tasks = [Task(self, experiment) for experiment in experiments]
        batched = [task for task in tasks if task.experiment.procedure is None]
        with self.store.renewing():
            with interruptible(self), self._bars() as bars:
                for task in batched:
                    task.line = Line(bars, task.experiment.title)
                self._work(batched, Batches(self, batched))
            for task in tasks:
                if task.experiment.procedure is not None:
                    self._work([task], _OneByOne(self, task))
        return [task.outcome() for task in tasks]

    def _work(self, tasks: "list[Task]", work: "Batches | _OneByOne") -> None:
        """Run all missing cells; cells that depend on them are requested when they are done."""
        while (cells := missing(tasks)) and not self.over:
            try:
                done = work.run(cells)
                if not done and not self.over:
                    time.sleep(WAIT)  # another process is running the rest
            except KeyboardInterrupt:
                if self.stopped:
                    raise  # a second Ctrl-C stops at once
                self.stopped = True
        for task in tasks:
            task.say()

    @contextmanager
    def _bars(self) -> Iterator[Progress]:
        bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]:>14}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            refresh_per_second=2,
        )
        with bars:
            yield bars


class _OneByOne:
    """Runs the cells of a procedure one at a time.

    The list is requested again after each, because the result may make others unnecessary.
    """

    def __init__(self, runner: Runner, task: Task):
        self._runner, self._task = runner, task

    def run(self, cells: list[Any]) -> int:
        """Run the first cell that no other process has claimed; return how many were done."""
        runner, context = self._runner, self._runner.context
        procedure = self._task.experiment.procedure
        assert procedure is not None
        cell = next((c for c in cells if runner.store.claim([digest(c.settings())])), None)
        if cell is None:
            return 0
        began = time.monotonic()
        try:
            results = procedure.run(cell, context)
        except OutOfTimeError:
            runner.expire()
            return 0
        finally:
            self._task.seconds += time.monotonic() - began
        results = {**results, "seconds": time.monotonic() - began}
        runner.store.put(cell.settings(), results, cell.kind)
        procedure.stored(cell, results, context)
        return 1
