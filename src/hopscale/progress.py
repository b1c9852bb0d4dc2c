"""Watching a run: a progress bar where there is a terminal, and Ctrl-C."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Watch:
    """Shows how far each phase is, and knows whether the run was asked to stop."""

    def __init__(self, bar: Progress | None, phases: Mapping[str, int]):
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
        """Draw the bar anew, at most once a second: drawing takes milliseconds of the cores' time.

        Called between chunks of steps, never inside.
        """
        if self._bar is None:
            return
        task, now = self._tasks[phase], time.monotonic()
        self._bar.start_task(task)  # its clock runs from the first chunk on
        if done < self._totals[phase] and now < self._drawn + 1.0:
            return
        text = "  ".join(f"{name} {value:.4g}" for name, value in status().items())
        self._bar.update(task, completed=done, status=text, refresh=True)
        self._drawn = now


@contextmanager
def watch(
    show: bool, phases: Mapping[str, int], stopped: str = "returning what was drawn so far"
) -> Iterator[Watch]:
    """Watch phases of so many steps each; the first Ctrl-C only sets `stopped`, and says so."""
    console = Console(stderr=True)
    bar = _bar(console) if show and console.is_terminal else None
    watched = Watch(bar, phases)
    with interruptible(watched):
        if bar is None:
            yield watched
        else:
            with bar:
                yield watched
    if watched.stopped:
        print(f"stopped by Ctrl-C: {stopped}", file=sys.stderr)


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
    """After Ctrl-C set `watched.stopped` and let the chunk in flight finish.

    A second Ctrl-C interrupts at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return
    usual = signal.getsignal(signal.SIGINT)

    def stop(number, frame):
        watched.stopped = True
        signal.signal(signal.SIGINT, usual)

    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        if usual is signal.default_int_handler:
            signal.signal(signal.SIGINT, usual)
