"""Which of our runs are behind a cell of the paper's tables."""

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
    target's parameters. They are used for Bernoulli N = 100, whose columns change with the draw,
    and for Ising fields. `LENGTHS` have the number of draws that the printed effective sample sizes
    imply. They are used for these sizes where they exist; of the grids, only the random walk's do.
    The last two are experiments of these names.
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
        """The runs to average, and their source; for ESS, a source that has ALBP too."""
        for source in self._candidates(column, method, metric):
            found = self.of(source, column, method, metric)
            if found and (metric != "ess" or self.of(source, column, ALBP)):
                return found, source
        return [], TABLES

    def of(self, source: str, column: Column, method: Method, metric: str = "ejd") -> list[Run]:
        """The runs of one source; for a grid, the best by a metric, if it is known yet."""
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
        """The best of all rates of the first target, once that is known."""
        cells = self._grids.get((source, column, method.sampler, method.balance), [])
        if not any(cell.role == GRID for cell in cells):
            return []
        by_rate = sorted(cells, key=lambda c: math.inf if c.rate is None else c.rate)
        return best_of([(cell, self._snapshot.find(cell)) for cell in by_rate], metric)


def best_of(runs: Sequence[tuple[Cell, Results | None]], name: str) -> list[Run]:
    """The best by a metric of runs in the order of their rates; not all of them need be done.

    Efficiency has a single maximum along the rates. So the best run that is done is the best of all
    once its `NEIGHBOURS` on either side, as far as they exist, are done; until then there is none.
    (On the complete grids on record, cut to the rates around their maxima, this finds the same runs
    as on the complete ones.)
    """
    done = [(place, cell, found) for place, (cell, found) in enumerate(runs) if found is not None]
    if not done:
        return []
    place, cell, found = max(done, key=lambda run: metric(run[1], run[2], name)[0])
    around = runs[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]
    return [] if any(results is None for _, results in around) else [(cell, found)]
