"""Running experiments: what is not in the store is run and put there."""

import collections
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hopscale.host import interruptible
from hopscale_reproduction.batch import Batch, program_size, split
from hopscale_reproduction.cells import AnyCell, digest
from hopscale_reproduction.experiment import Context, Experiment, OutOfTimeError, Procedure
from hopscale_reproduction.store import Store

AHEAD = {"cpu": 1, "gpu": 6}  # batches compiled while another runs
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
    """Runs experiments one after the other.

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
        return self.store.get(cell.settings())

    def run(self, experiments: Sequence[Experiment]) -> list[Outcome]:
        """Run what is missing, until nothing is, or it is time to stop.

        Runs of samplers come first, below progress bars; a procedure shows its own progress, and
        deals with Ctrl-C by itself.
        """
        outcomes: dict[int, Outcome] = {}  # by place
        places = range(len(experiments))
        # Another process may be at some of them: what it runs meanwhile counts, too.
        before = [self._stored(experiment) for experiment in experiments]
        with self.store.renewing():
            with interruptible(self), self._bars() as bars:
                batched = [place for place in places if experiments[place].procedure is None]
                lines = {place: _Line(bars, experiments[place].title) for place in batched}
                for place, line in lines.items():
                    work = _Batches(self, line)
                    outcomes[place] = self._run(experiments[place], work, before[place])
            for place in places:
                procedure = experiments[place].procedure
                if procedure is not None:
                    work = _OneByOne(self, procedure)
                    outcomes[place] = self._run(experiments[place], work, before[place])
        return [outcomes[place] for place in places]

    def _stored(self, experiment: Experiment) -> int:
        """How many of its cells are in the store."""
        cells = dict.fromkeys(experiment.cells(self.profile, self.find))
        return sum(self.find(cell) is not None for cell in cells)

    def _run(self, experiment: Experiment, work: "_Batches | _OneByOne", before: int) -> Outcome:
        began = time.monotonic()
        while True:
            cells = list(dict.fromkeys(experiment.cells(self.profile, self.find)))
            missing = [cell for cell in cells if self.find(cell) is None]
            work.begin(len(cells), len(missing))
            if not missing or self.over:
                break
            try:
                done = work.run(missing)
                if not done and not self.over:
                    time.sleep(WAIT)  # another process is at the rest
            except KeyboardInterrupt:
                if self.stopped:
                    raise  # the second time: at once
                self.stopped = True
        outcome = Outcome(
            name=experiment.name,
            cells=len(cells),
            ran=len(cells) - len(missing) - before,
            seconds=time.monotonic() - began,
            complete=not missing,
            problems=tuple(experiment.problems(self.profile, self.find)),
        )
        if not self.console.is_terminal or experiment.procedure is not None:
            self.context.say(_sentence(experiment, outcome, len(missing)))
        return outcome

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


class _Batches:
    """Runs of samplers: cells of one shape side by side; while a batch runs, the next compile."""

    def __init__(self, runner: Runner, line: "_Line"):
        self._runner, self._store, self._line = runner, runner.store, line

    def begin(self, cells: int, missing: int) -> None:
        self._line.begin(cells, cells - missing)

    def run(self, cells: list[Any]) -> int:
        """Run what no other process is at; how many cells got done."""
        done, compiled, waiting = 0, collections.deque(), iter(split(cells))
        threads = AHEAD["cpu" if jax.default_backend() == "cpu" else "gpu"]
        with ThreadPoolExecutor(threads) as ahead:
            while not self._runner.over:
                while len(compiled) < threads + 1 and (future := self._prepare(ahead, waiting)):
                    compiled.append(future)
                if not compiled:
                    break
                batch = compiled.popleft().result()
                if not batch.run(lambda steps, batch=batch: self._tick(batch, steps)):
                    break
                for cell, results in zip(batch.cells, batch.results(), strict=True):
                    self._store.put(cell.settings(), results, cell.kind)
                done += len(batch.cells)
            ahead.shutdown(cancel_futures=True)
        return done

    def _prepare(self, ahead: ThreadPoolExecutor, waiting: Iterator) -> "Future[Batch] | None":
        """Claim the next batch, and begin to compile it."""
        for cells in waiting:
            keys = {digest(cell.settings()): cell for cell in cells}
            mine = self._store.claim(keys)
            if mine:
                chosen = [cell for key, cell in keys.items() if key in mine]
                return ahead.submit(Batch, chosen, program_size(cells))
        return None

    def _tick(self, batch: Batch, steps: int) -> bool:
        """Called between chunks of a batch."""
        self._line.advance(len(batch.cells) * steps / (batch.warmup + batch.draws))
        return not self._runner.over


class _OneByOne:
    """Cells of a procedure: the list is asked for again after each, as one may spare others."""

    def __init__(self, runner: Runner, procedure: Procedure):
        self._runner, self._procedure = runner, procedure

    def begin(self, cells: int, missing: int) -> None:
        pass

    def run(self, cells: list[Any]) -> int:
        """Run the first that no other process is at; how many cells got done."""
        runner, context = self._runner, self._runner.context
        cell = next((c for c in cells if runner.store.claim([digest(c.settings())])), None)
        if cell is None:
            return 0
        began = time.monotonic()
        try:
            results = self._procedure.run(cell, context)
        except OutOfTimeError:
            runner.expire()
            return 0
        results = {**results, "seconds": time.monotonic() - began}
        runner.store.put(cell.settings(), results, cell.kind)
        self._procedure.stored(cell, results, context)
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
