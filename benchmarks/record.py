"""Runs of the paper's tables that are not on record yet, those that fill most of a table first.

Run: python benchmarks/record.py --families ising,fhmm --minutes 8 --out new.csv
         [--csv docs/results/paper.csv] [--profile paper] [--store FILE] [--all]

A family is an experiment of `hopscale reproduce` (bernoulli, ising, fhmm, rbm, ...). R = 1 and the
tuned scale come first, a row of a table each; then the rates about the top of each curve, as many
as decide the best of a grid (`sources.best_of`), first by jump distance, then by effective sample
size; with `--all`, the others. `--out` gets the runs that were not
in `--csv`, again every half minute, so that little is lost where the process is stopped. Processes
with the same `--store` share the work. What came back is added to the record by

    hopscale results import docs/results/paper.csv --out results
    hopscale results import new.csv --out results
    hopscale results export docs/results/paper.csv --out results
"""

import argparse
import contextlib
import dataclasses
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from hopscale_reproduction import exchange
from hopscale_reproduction.cells import GRID, AnyCell, Cell, digest
from hopscale_reproduction.experiment import Experiment, Find
from hopscale_reproduction.experiments import named
from hopscale_reproduction.experiments.sampling.sources import NEIGHBOURS
from hopscale_reproduction.rows import Row
from hopscale_reproduction.runner import Runner
from hopscale_reproduction.store import Store

# About where the curves on record have their tops: where to begin on a row that has no run yet.
TOPS = {"rwm": 0.234, "gwg": 0.51, "lbp": 0.57}
WRITE_SECONDS = 30.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--families", required=True, help="experiments, by commas")
    parser.add_argument("--minutes", type=float, default=8.0, help="in all")
    parser.add_argument("--csv", type=Path, default=Path("docs/results/paper.csv"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--profile", default="paper", choices=["quick", "paper"])
    parser.add_argument("--all", action="store_true", help="the whole grids")
    parser.add_argument("--store", type=Path, help="a file to share; one of its own, unless given")
    return parser.parse_args()


def about_the_top(row: list[Cell], find: Find, metric: str) -> list[Cell]:
    """The rates next to the best one that is done; the middle of them, if none is."""
    row = sorted(row, key=lambda cell: cell.rate or 0.0)
    done = [(results[metric], k) for k, cell in enumerate(row) if (results := find(cell))]
    guess = min(range(len(row)), key=lambda k: abs((row[k].rate or 0.0) - TOPS[row[k].sampler]))
    top = max(done)[1] if done else guess
    return row[max(0, top - NEIGHBOURS) : top + NEIGHBOURS + 1]


def limited(experiment: Experiment, metric: str | None) -> Experiment:
    """An experiment without its grids, or with as much of them as decides the best by a metric."""

    def cells(profile: str, find: Find) -> list[AnyCell]:
        rows: dict[Cell, list[Cell]] = {}
        found: list[AnyCell] = []
        for cell in experiment.cells(profile, find):
            if isinstance(cell, Cell) and cell.role == GRID:
                rows.setdefault(cell.but(rate=None), []).append(cell)
            else:
                found.append(cell)
        if metric is not None:
            found += [c for row in rows.values() for c in about_the_top(row, find, metric)]
        return found

    return dataclasses.replace(experiment, cells=cells)


def rows_of(csv: Path) -> list[Row]:
    """The runs of a file."""
    with tempfile.TemporaryDirectory() as scratch, Store(Path(scratch) / "old.sqlite") as store:
        exchange.read(store, csv)
        return store.rows()


def write_new(path: Path, on_record: set[str], out: Path) -> int:
    """Write the runs of a store that were not on record; how many there are."""
    with Store(path) as store:
        new = [row for row in store.rows() if digest(row["settings"]) not in on_record]
    with tempfile.TemporaryDirectory() as scratch, Store(Path(scratch) / "new.sqlite") as part:
        part.add_all(new)
        exchange.write(part, out)
    return len(new)


@contextlib.contextmanager
def writing(path: Path, on_record: set[str], out: Path) -> Iterator[None]:
    """Write what is new every half minute, by a thread, and at the end."""
    done = threading.Event()

    def write() -> None:
        while not done.wait(WRITE_SECONDS):
            write_new(path, on_record, out)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        print(f"{write_new(path, on_record, out)} runs in {out}", flush=True)


def main() -> None:
    options = arguments()
    end = time.monotonic() + 60 * options.minutes
    experiments = named(options.families.split(","), options.profile)
    path = options.store or Path(tempfile.mkdtemp()) / "results.sqlite"
    rows = rows_of(options.csv)
    on_record = {digest(row["settings"]) for row in rows}
    with Store(path) as store, writing(path, on_record, options.out):
        store.add_all(rows)
        plans = [[limited(e, metric) for e in experiments] for metric in (None, "ejd", "ess")]
        for plan in plans + [experiments] * options.all:
            minutes = (end - time.monotonic()) / 60
            if minutes > 0:
                Runner(store, options.profile, minutes).run(plan)


if __name__ == "__main__":
    main()
