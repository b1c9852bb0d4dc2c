"""The experiments of a run: their missing cells, and a line of progress for each."""

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.progress import Progress

from hopscale_reproduction.experiment import Experiment

if TYPE_CHECKING:
    from hopscale_reproduction.runner import Runner


class Outcome(NamedTuple):
    """The progress of an experiment."""

    name: str
    cells: int
    ran: int  # since the start of this run, by any process
    seconds: float
    complete: bool
    problems: tuple[str, ...] = ()  # why its results cannot be judged


class Task:
    """An experiment and its progress."""

    def __init__(self, runner: "Runner", experiment: Experiment):
        self._runner, self.experiment = runner, experiment
        self.line: Line | None = None
        self.seconds = 0.0
        self._said = False
        self.look()
        self._before = len(self.cells) - len(self.missing)

    def look(self) -> None:
        """Update the list of its cells, and which of them are missing."""
        runner = self._runner
        cells = self.experiment.cells(runner.profile, runner.find)
        self.cells: list[Any] = list(dict.fromkeys(cells))
        # A dictionary, because it keeps the order of the cells.
        self.missing = {cell: None for cell in self.cells if runner.find(cell) is None}.keys()
        if self.line is not None:
            self.line.begin(len(self.cells), len(self.cells) - len(self.missing))
            if not self.missing:
                self.say()

    def outcome(self) -> Outcome:
        return Outcome(
            name=self.experiment.name,
            cells=len(self.cells),
            ran=len(self.cells) - len(self.missing) - self._before,
            seconds=self.seconds,
            complete=not self.missing,
            problems=tuple(self.experiment.problems(self._runner.profile, self._runner.find)),
        )

    def say(self) -> None:
        """Print a line on what was run, once, unless a progress bar shows it."""
        shown = self._runner.console.is_terminal and self.experiment.procedure is None
        if not self._said and not shown:
            self._runner.context.say(_sentence(self.experiment, self.outcome(), len(self.missing)))
        self._said = True


def missing(tasks: list[Task]) -> list[Any]:
    """The cells that experiments currently list and that are not done, each once."""
    for task in tasks:
        task.look()
    return list(dict.fromkeys(cell for task in tasks for cell in task.missing))


class Line:
    """An experiment's line of progress: cells done of the total, cells per second, time left."""

    def __init__(self, bars: Progress, title: str) -> None:
        self._bars = bars
        self._task = bars.add_task(f"{title:24}", total=None, start=False, speed="")
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
        speed = self._seen / max(time.monotonic() - self._began, 1e-9)
        text = f"{speed:.1f} cells/s" if speed >= 0.1 else f"{60 * speed:.1f} cells/min"
        self._bars.update(self._task, completed=int(self._at + 1e-6), speed=text)


def _sentence(experiment: Experiment, outcome: Outcome, missing: int) -> str:
    left = "" if outcome.complete else f", {missing:,} left"
    return (
        f"{experiment.title:24} {outcome.cells:>6,} cells, {outcome.ran:,} of them run now in "
        f"{outcome.seconds:.0f} s{left}"
    )
