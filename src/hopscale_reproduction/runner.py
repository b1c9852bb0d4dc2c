"""Running experiments: what is not in the store is run and put there."""

import collections
import itertools
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hopscale.host import interruptible
from hopscale_reproduction.batch import Batch, platform, program_size, split, work
from hopscale_reproduction.cells import AnyCell, digest
from hopscale_reproduction.experiment import Context, Experiment, OutOfTimeError
from hopscale_reproduction.rows import new_row
from hopscale_reproduction.store import Store

AHEAD = {"cpu": 1, "gpu": 12}  # batches compiled while another runs, at most
TURN = 1e-4  # seconds: threads that trace programs let the one that runs a batch go first
PENDING = 2  # batches that have run and are not summed up, at most
WAIT = 1.0  # seconds between two looks at cells that another process is at


class Outcome(NamedTuple):
    """How far an experiment is."""

    name: str
    cells: int
    ran: int  # meanwhile, by whichever process
    seconds: float
    complete: bool
    problems: tuple[str, ...] = ()  # what keeps its results from being judged


class Runner:
    """Runs experiments: those of samplers together, then the others one after the other.

    What several have in common is run once, and cells of one shape side by side, whichever
    experiment they belong to.

    Args:
        store: where results are put.
        profile: "quick" or "paper".
        minutes: stop after this long; the cells done until then are kept. None: no limit.
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
        self._found: dict[AnyCell, dict[str, Any]] = {}  # which does not change any more
        self._deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self.context = Context(
            folder=store.path.parent,
            data_dir=data_dir,
            seconds_left=lambda: self._deadline - time.monotonic(),
            say=lambda line: self.console.print(line, highlight=False),
        )

    @property
    def over(self) -> bool:
        """Whether to stop: by Ctrl-C, or because time is up."""
        return self.stopped or self.context.seconds_left() < 0

    def expire(self) -> None:
        """Let time be up: a procedure has run out of it."""
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
        """Run what is missing, until nothing is, or it is time to stop.

        Runs of samplers come first, below progress bars; a procedure shows its own progress, and
        deals with Ctrl-C by itself.
        """
        # Another process may be at some of them: what it runs meanwhile counts, too.
        tasks = [_Task(self, experiment) for experiment in experiments]
        batched = [task for task in tasks if task.experiment.procedure is None]
        with self.store.renewing():
            with interruptible(self), self._bars() as bars:
                for task in batched:
                    task.line = _Line(bars, task.experiment.title)
                self._work(batched, _Batches(self, batched))
            for task in tasks:
                if task.experiment.procedure is not None:
                    self._work([task], _OneByOne(self, task))
        return [task.outcome() for task in tasks]

    def _work(self, tasks: "list[_Task]", work: "_Batches | _OneByOne") -> None:
        """Run what is missing of all of them: what comes after it is asked for when it is done."""
        while (missing := _missing(tasks)) and not self.over:
            try:
                done = work.run(missing)
                if not done and not self.over:
                    time.sleep(WAIT)  # another process is at the rest
            except KeyboardInterrupt:
                if self.stopped:
                    raise  # the second time: at once
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


class _Task:
    """An experiment, and how far it is."""

    def __init__(self, runner: Runner, experiment: Experiment):
        self._runner, self.experiment = runner, experiment
        self.line: _Line | None = None
        self.seconds = 0.0
        self._said = False
        self.look()
        self._before = len(self.cells) - len(self.missing)

    def look(self) -> None:
        """Ask for its cells, and which of them are missing."""
        runner = self._runner
        cells = self.experiment.cells(runner.profile, runner.find)
        self.cells: list[Any] = list(dict.fromkeys(cells))
        # In the order of the cells, as the keys of a dictionary are.
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
        """A line of what was run, once, unless a bar shows it."""
        shown = self._runner.console.is_terminal and self.experiment.procedure is None
        if not self._said and not shown:
            self._runner.context.say(_sentence(self.experiment, self.outcome(), len(self.missing)))
        self._said = True


def _missing(tasks: list[_Task]) -> list[Any]:
    """The cells that experiments ask for by now and that are not done, each once."""
    for task in tasks:
        task.look()
    return list(dict.fromkeys(cell for task in tasks for cell in task.missing))


class _Batches:
    """Runs of samplers: cells of one shape side by side.

    While a batch runs, the next compile, and what the last ones measured is summed up. What their
    results ask for follows the batches that wait.
    """

    def __init__(self, runner: Runner, tasks: list[_Task]):
        self._runner, self._store, self._tasks = runner, runner.store, tasks
        self._measured: collections.deque[tuple[list[Any], Future[list]]] = collections.deque()
        self._done, self._error = 0, None

    def run(self, cells: list[Any]) -> int:
        """Run what no other process is at; how many cells got done."""
        self._done, self._error = 0, None
        compiled, waiting = collections.deque(), self._waiting(cells)
        threads = min(AHEAD[platform()], _cores())
        with _turns(TURN), ThreadPoolExecutor(threads) as ahead, ThreadPoolExecutor(1) as after:
            try:
                while not self._runner.over and self._error is None:
                    while len(compiled) < threads + 1 and (future := self._prepare(ahead, waiting)):
                        compiled.append(future)
                    if not compiled:
                        break
                    began = time.monotonic()
                    batch = _first_done(compiled).result()
                    shares = [(t, len(t.missing & set(batch.cells))) for t in self._tasks]
                    if not batch.run(partial(self._tick, batch, shares)):
                        break
                    self._measured.append((batch.cells, after.submit(batch.results)))
                    for task, share in shares:
                        task.seconds += (time.monotonic() - began) * share / len(batch.cells)
                    self._keep(PENDING)
            finally:  # nothing that was run is lost
                ahead.shutdown(wait=False, cancel_futures=True)
                self._keep(0)
        if self._error is not None:
            raise self._error
        return self._done

    def _waiting(self, cells: list[Any]) -> Iterator[list[Any] | None]:
        """Batches of these cells, then of those that results ask for; None while there are none."""
        begun, done = set(cells), 0
        while True:
            yield from in_turns(split(cells))
            while done == self._done:
                yield None
            done = self._done
            cells = [cell for cell in _missing(self._tasks) if cell not in begun]
            begun.update(cells)

    def _keep(self, most: int) -> None:
        """Put what batches measured into the store; wait where more than `most` are not ready."""
        while self._measured and (len(self._measured) > most or self._measured[0][1].done()):
            cells, results = self._measured.popleft()
            try:
                pairs = zip(cells, results.result(), strict=True)
                self._store.add_all([new_row(c.settings(), found, c.kind) for c, found in pairs])
                self._done += len(cells)
            except Exception as error:  # after the others are kept
                self._error = self._error or error

    def _prepare(self, ahead: ThreadPoolExecutor, waiting: Iterator) -> "Future[Batch] | None":
        """Claim the next batch, and begin to compile it."""
        while cells := next(waiting):
            keys = {digest(cell.settings()): cell for cell in cells}
            mine = self._store.claim(keys)
            if mine:
                chosen = [cell for key, cell in keys.items() if key in mine]
                return ahead.submit(Batch, chosen, program_size(cells))
        return None

    def _tick(self, batch: Batch, shares: list[tuple[_Task, int]], steps: int) -> bool:
        """Called between chunks of a batch."""
        self._keep(PENDING)
        for task, share in shares:
            if task.line is not None and share:
                task.line.advance(share * steps / (batch.warmup + batch.draws))
        return not self._runner.over


def _first_done(compiled: "collections.deque[Future[Batch]]") -> "Future[Batch]":
    """Take out the first that is compiled: a program that takes long does not hold up others."""
    wait(compiled, return_when=FIRST_COMPLETED)
    future = next(future for future in compiled if future.done())
    compiled.remove(future)
    return future


def _cores() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not everywhere
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _turns(seconds: float) -> Iterator[None]:
    """Let Python's threads take shorter turns."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def in_turns(batches: list[list[Any]]) -> list[list[Any]]:
    """The longest batch, the shortest, the next longest: while a long one runs, others compile."""
    by_work = sorted(batches, key=lambda cells: sum(map(work, cells)), reverse=True)
    half = (len(by_work) + 1) // 2
    pairs = itertools.zip_longest(by_work[:half], reversed(by_work[half:]))
    return [cells for pair in pairs for cells in pair if cells is not None]


class _OneByOne:
    """Cells of a procedure: the list is asked for again after each, as one may spare others."""

    def __init__(self, runner: Runner, task: _Task):
        self._runner, self._task = runner, task

    def run(self, cells: list[Any]) -> int:
        """Run the first that no other process is at; how many cells got done."""
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


class _Line:
    """An experiment's line of progress: cells done, of all; cells a second; time left."""

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
