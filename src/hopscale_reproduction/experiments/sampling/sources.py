"""Which runs stand behind a cell of the paper's tables."""

import math
from collections.abc import Iterator, Sequence

from hopscale_reproduction.cells import GRID, Cell
from hopscale_reproduction.criteria import SMALL_BERNOULLI
from hopscale_reproduction.experiment import Results
from hopscale_reproduction.experiments.sampling.plan import NEIGHBOURS
from hopscale_reproduction.places import ALBP, Column, Method, Run, by_place, column_of
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.values import metric

TABLES, INSTANCES, LENGTHS = "tables", "instances", "lengths"


class Sources:
    """The runs of a model's tables.

    `TABLES` are those of the tables' own experiment. `INSTANCES` are over many draws of the
    target's parameters: they stand for Bernoulli N = 100, whose columns move with the draw, and for
    Ising fields. `LENGTHS` are over as many draws as the printed effective sample sizes imply, and
    stand for these where there are any, of the grids for the random walk's. The last two are
    experiments of these names.
    """

    def __init__(self, snapshot: Snapshot, model: str):
        self._snapshot = snapshot
        experiments = {TABLES: model, INSTANCES: INSTANCES, LENGTHS: LENGTHS}
        self._runs = {
            source: by_place(run for run in snapshot.found(name) if run[0].model == model)
            for source, name in experiments.items()
        }
        self._grids: dict[tuple[str, Column, str, str], list[Cell]] = {}
        for source in (TABLES, LENGTHS):
            for cell in snapshot.cells(experiments[source]):
                if cell.model == model and cell.instance == 0:
                    where = (source, column_of(cell), cell.sampler, cell.balance)
                    self._grids.setdefault(where, []).append(cell)

    def choose(self, column: Column, method: Method, metric: str) -> tuple[list[Run], str]:
        """The runs to average, and their source; with ESS, one that has ALBP too."""
        for source in self._candidates(column, method, metric):
            found = self.of(source, column, method, metric)
            if found and (metric != "ess" or self.of(source, column, ALBP)):
                return found, source
        return [], TABLES

    def of(self, source: str, column: Column, method: Method, metric: str = "ejd") -> list[Run]:
        """The runs of one source; of a grid, the best by a metric, if it is known yet."""
        if method.variant == GRID:
            return self._best(source, column, method, "ess" if metric == "ess" else "ejd")
        return self._runs[source].get((column, method), [])

    def _candidates(self, column: Column, method: Method, metric: str) -> Iterator[str]:
        if metric == "ess":
            yield LENGTHS
        small = (column.model, column.size) == ("bernoulli", SMALL_BERNOULLI)
        if method.variant != GRID and (column.model == "ising" or small):
            yield INSTANCES
        yield TABLES

    def _best(self, source: str, column: Column, method: Method, metric: str) -> list[Run]:
        """The best of all rates of the first target, once it is known which one that is."""
        cells = self._grids.get((source, column, method.sampler, method.balance), [])
        if not any(cell.role == GRID for cell in cells):
            return []
        by_rate = sorted(cells, key=lambda c: math.inf if c.rate is None else c.rate)
        return best_of([(cell, self._snapshot.find(cell)) for cell in by_rate], metric)


def best_of(runs: Sequence[tuple[Cell, Results | None]], name: str) -> list[Run]:
    """The best of some runs, by a metric, in the order of their rates; not all need be done.

    Efficiency has one top along the rates. So the best is the best of all once `NEIGHBOURS` on
    either side of it are done, as far as there are any; until then there is none. (On the complete
    grids on record, cut to the rates about their tops, this finds what the complete ones have.)
    """
    done = [(place, cell, found) for place, (cell, found) in enumerate(runs) if found is not None]
    if not done:
        return []
    place, cell, found = max(done, key=lambda run: metric(run[1], run[2], name)[0])
    around = runs[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]
    return [] if any(results is None for _, results in around) else [(cell, found)]
