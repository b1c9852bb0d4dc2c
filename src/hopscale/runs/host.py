"""The host's side of any long job: chunks, progress, time limit, stopping, saving.

The device runs a chunk of steps at a time. Between chunks, `drive` shows progress, saves, and
checks whether it was asked to stop. A job's result never depends on the chunks.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from hopscale.runs.notebook import NotebookBar, in_notebook

FIRST_CHUNK = 8
GROWTH = 8.0  # the largest ratio of a chunk to the one before


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM stopped a long call in an orderly way; nothing done until then is lost.

    Attributes:
        message: how far it got.
        partial: what the call would have returned, as far as it got; None if it had nothing yet.
    """

    def __init__(self, message: str, partial: Any = None, where: str = ""):
        super().__init__(f"{message}; {where}" if where else message)
        self.message = message
        self.partial = partial

    @property
    def run(self) -> Any:
        """The partial run, if `hs.sample` was stopped."""
        return self.partial


class Job(Protocol):
    """Something that takes steps, phase by phase."""

    @property
    def phases(self) -> Mapping[str, int]:
        """The phases by name, and how many steps each has."""
        ...

    @property
    def at(self) -> tuple[str, int]:
        """The current phase, and how many of its steps are done."""
        ...

    def room(self) -> int:
        """How many steps may be taken in one chunk; 0 when all is done."""
        ...

    def advance(self, steps: int) -> None: ...

    def status(self) -> Mapping[str, float]:
        """What the progress bar shows beside the bar."""
        ...


def drive(
    job: Job,
    *,
    seconds: float = 0.5,
    chunk: int | None = None,
    first_chunk: int = FIRST_CHUNK,
    progress: bool = True,
    minutes: float | None = None,
    save: Callable[[], None] | None = None,
    save_seconds: float = 120.0,
    tell: Callable[[int], bool] | None = None,
) -> str:
    """Run a job to its end.

    Args:
        job: what to run.
        seconds: how long a chunk should take.
        chunk: steps of a chunk, in place of `seconds`.
        first_chunk: steps of the first chunk, before it is known how long one takes.
        progress: show a progress bar in a terminal or a notebook.
        minutes: stop after this many minutes; at least one chunk is taken.
        save: called every `save_seconds`, and when the job stops.
        tell: called after each chunk with its steps; False stops the job.

    Returns:
        "done", or what stopped the job: "interrupted" (Ctrl-C, SIGTERM), "time" or "told".
    """
    began = saved = time.perf_counter()
    size, outcome = first_chunk, "done"
    with watch(progress, job.phases) as watched:
        while room := job.room():
            steps, now = max(1, min(room, chunk or size)), time.perf_counter()
            job.advance(steps)
            took = time.perf_counter() - now
            size = max(1, int(steps * min(seconds / max(took, 1e-9), GROWTH)))
            if save is not None and time.perf_counter() > saved + save_seconds:
                save()
                saved = time.perf_counter()
            watched.show(*job.at, job.status)
            if watched.stopped:
                outcome = "interrupted"
            elif tell is not None and not tell(steps):
                outcome = "told"
            elif minutes is not None and time.perf_counter() > began + 60 * minutes:
                outcome = "time"
            if outcome != "done":
                break
    if outcome != "done" and not job.room():
        outcome = "done" if outcome != "interrupted" else outcome
    if save is not None:
        save()
    return outcome


class Watch:
    """Shows the progress of each phase, and records whether the run was asked to stop."""

    def __init__(self, bar: Progress | NotebookBar | None, phases: Mapping[str, int]):
        self.stopped = False
        self._bar = bar
        self._totals = phases
        self._drawn = time.monotonic() - 1.0
        self._tasks: dict[str, Any] = {}
        if bar is not None:
            for name, total in phases.items():
                if total:
                    self._tasks[name] = bar.add_task(
                        f"{name:>7}", total=total, start=False, status=""
                    )

    def show(self, phase: str, done: int, status: Callable[[], Mapping[str, float]]) -> None:
        """Redraw the bar, at most once a second because drawing takes milliseconds.

        It is called between chunks of steps, never within one.
        """
        if self._bar is None:
            return
        task, now = self._tasks[phase], time.monotonic()
        self._bar.start_task(task)  # its clock starts with the first chunk
        if done < self._totals[phase] and now < self._drawn + 1.0:
            return
        text = "  ".join(f"{name} {value:.4g}" for name, value in status().items())
        self._bar.update(task, completed=done, status=text, refresh=True)
        self._drawn = now


@contextmanager
def watch(show: bool, phases: Mapping[str, int]) -> Iterator[Watch]:
    """Watch phases, each with its number of steps; the first Ctrl-C only sets `stopped`."""
    console = Console(stderr=True)
    bar = None
    if show and in_notebook():
        bar = NotebookBar()
    elif show and console.is_terminal:
        bar = _bar(console)
    watched = Watch(bar, phases)
    with interruptible(watched):
        if bar is None:
            yield watched
        else:
            with bar:
                yield watched


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
        console=console,
        auto_refresh=False,
    )


@contextmanager
def interruptible(watched: Any) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, set `watched.stopped` and let the current chunk finish.

    A second Ctrl-C interrupts at once. Handlers set by the program itself are left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return
    usual = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    ours = [number for number, handler in usual.items() if signal.getsignal(number) is handler]

    def stop(number, frame):
        watched.stopped = True
        signal.signal(number, usual[number])

    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, usual[number])
