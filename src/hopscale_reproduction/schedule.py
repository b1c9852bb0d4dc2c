"""Runs of samplers in batches: while one batch runs, the next ones compile."""

import collections
import itertools
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from hopscale_reproduction.batch import Batch, platform, program_size, split, work
from hopscale_reproduction.cells import digest
from hopscale_reproduction.rows import new_row
from hopscale_reproduction.tasks import Task, missing

if TYPE_CHECKING:
    from hopscale_reproduction.runner import Runner

AHEAD = {"cpu": 1, "gpu": 12}  # at most this many batches compile while another runs
TURN = 1e-4  # seconds: threads that trace programs yield to the one that runs a batch
PENDING = 2  # at most this many batches have run and are not yet summarised


class Batches:
    """Runs of samplers, with cells of one shape side by side.

    While a batch runs, the next ones compile, and the results of the last ones are summarised.
    Cells that these results call for are run after the batches that are already waiting.
    """

    def __init__(self, runner: "Runner", tasks: list[Task]):
        self._runner, self._store, self._tasks = runner, runner.store, tasks
        self._measured: collections.deque[tuple[list[Any], Future[list]]] = collections.deque()
        self._done, self._error = 0, None

    def run(self, cells: list[Any]) -> int:
        """Run the cells that no other process has claimed; return how many were done."""
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
            finally:  # keep the results of everything that was run
                ahead.shutdown(wait=False, cancel_futures=True)
                self._keep(0)
        if self._error is not None:
            raise self._error
        return self._done

    def _waiting(self, cells: list[Any]) -> Iterator[list[Any] | None]:
        """Batches of these cells, then of those that results call for; None if none is ready."""
        begun, done = set(cells), 0
        while True:
            yield from in_turns(split(cells))
            while done == self._done:
                yield None
            done = self._done
            cells = [cell for cell in missing(self._tasks) if cell not in begun]
            begun.update(cells)

    def _keep(self, most: int) -> None:
        """Store the results of batches; wait while more than `most` batches are not ready."""
        while self._measured and (len(self._measured) > most or self._measured[0][1].done()):
            cells, results = self._measured.popleft()
            try:
                pairs = zip(cells, results.result(), strict=True)
                self._store.add_all([new_row(c.settings(), found, c.kind) for c, found in pairs])
                self._done += len(cells)
            except Exception as error:  # raised after the others are stored
                self._error = self._error or error

    def _prepare(self, ahead: ThreadPoolExecutor, waiting: Iterator) -> "Future[Batch] | None":
        """Claim the next batch, and start to compile it."""
        while cells := next(waiting):
            keys = {digest(cell.settings()): cell for cell in cells}
            mine = self._store.claim(keys)
            if mine:
                chosen = [cell for key, cell in keys.items() if key in mine]
                return ahead.submit(Batch, chosen, program_size(cells))
        return None

    def _tick(self, batch: Batch, shares: list[tuple[Task, int]], steps: int) -> bool:
        """Called between chunks of a batch."""
        self._keep(PENDING)
        for task, share in shares:
            if task.line is not None and share:
                task.line.advance(share * steps / (batch.warmup + batch.draws))
        return not self._runner.over


def _first_done(compiled: "collections.deque[Future[Batch]]") -> "Future[Batch]":
    """Take the first batch that is compiled, so that a slow compilation does not delay others."""
    wait(compiled, return_when=FIRST_COMPLETED)
    future = next(future for future in compiled if future.done())
    compiled.remove(future)
    return future


def _cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not available on every platform
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _turns(seconds: float) -> Iterator[None]:
    """Make Python switch between threads more often."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def in_turns(batches: list[list[Any]]) -> list[list[Any]]:
    """Alternate long and short batches, longest first: while a long one runs, others compile."""
    by_work = sorted(batches, key=lambda cells: sum(map(work, cells)), reverse=True)
    half = (len(by_work) + 1) // 2
    pairs = itertools.zip_longest(by_work[:half], reversed(by_work[half:]))
    return [cells for pair in pairs for cells in pair if cells is not None]
