"""Which runs stand behind a cell of the paper's tables."""

import math
from collections.abc import Iterator, Sequence

from hopscale_reproduction.cells import GRID, Cell
from hopscale_reproduction.criteria import SMALL_BERNOULLI
from hopscale_reproduction.experiment import Results
from hopscale_reproduction.places import ALBP, Column, Method, Run, by_place, column_of
from hopscale_reproduction.snapshot import Snapshot

TABLES, INSTANCES, LENGTHS = "tables", "instances", "lengths"
NEIGHBOURS = 2  # rates on either side of the best that must be done


class Sources:
    """The runs of a model's tables.

    `TABLES` are those of the tables' own experiment. `INSTANCES` are over many draws of the
    target's parameters: they stand for Bernoulli N = 100, whose columns move with the draw, and for
    Ising fields. `LENGTHS` are over as many draws as the printed effective sample sizes imply, and
    stand for these where there are any. The last two are experiments of these names.
    """

    def __init__(self, snapshot: Snapshot, model: str):
        self._snapshot = snapshot
        self._grids: dict[tuple[Column, str, str], list[Cell]] = {}
        for cell in snapshot.cells(model):
            where = (column_of(cell), cell.sampler, cell.balance)
            self._grids.setdefault(where, []).append(cell)
        self._runs = {
            TABLES: by_place(snapshot.found(model)),
            **{
                name: by_place(run for run in snapshot.found(name) if run[0].model == model)
                for name in (INSTANCES, LENGTHS)
            },
        }

    def choose(self, column: Column, method: Method, metric: str) -> tuple[list[Run], str]:
        """The runs to average, and their source; with ESS, one that has ALBP too."""
        for source in self._candidates(column, method, metric):
            found = self.of(source, column, method)
            if found and (metric != "ess" or self.of(source, column, ALBP)):
                return found, source
        if method.variant == GRID:
            return self._best(column, method, "ess" if metric == "ess" else "ejd"), TABLES
        return [], TABLES

    def of(self, source: str, column: Column, method: Method) -> list[Run]:
        """The runs of one source, but of a grid."""
        return self._runs[source].get((column, method), [])

    def _candidates(self, column: Column, method: Method, metric: str) -> Iterator[str]:
        if method.variant == GRID:
            return
        if metric == "ess":
            yield LENGTHS
        if column.model == "ising" or (column.model, column.size) == (
            "bernoulli",
            SMALL_BERNOULLI,
        ):
            yield INSTANCES
        yield TABLES

    def _best(self, column: Column, method: Method, metric: str) -> list[Run]:
        """The best of all rates of the first target, once it is known which one that is."""
        cells = self._grids.get((column, method.sampler, method.balance), [])
        first = [cell for cell in cells if cell.instance == 0]
        by_rate = sorted(first, key=lambda c: math.inf if c.rate is None else c.rate)
        return best_of([(cell, self._snapshot.find(cell)) for cell in by_rate], metric)


def best_of(runs: Sequence[tuple[Cell, Results | None]], metric: str) -> list[Run]:
    """The best of some runs in the order of their rates, of which not all need be done.

    Efficiency has one top along the rates. So the best is the best of all once `NEIGHBOURS` on
    either side of it are done, as far as there are any; until then there is none. (On the complete
    grids on record, cut to the rates about their tops, this finds what the complete ones have.)
    """
    done = [(place, cell, found) for place, (cell, found) in enumerate(runs) if found is not None]
    if not done:
        return []
    place, cell, found = max(done, key=lambda run: run[2][metric])
    around = runs[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]
    return [] if any(results is None for _, results in around) else [(cell, found)]
