"""Which runs stand behind a cell of the paper's tables."""

from collections.abc import Iterable, Iterator

from hopscale_reproduction.cells import Cell
from hopscale_reproduction.views.book import Book, Results
from hopscale_reproduction.views.names import ALBP, Column, Method, column_of, method_of

Run = tuple[Cell, Results]

TABLE, LUCK, KEPT = "table", "luck", "kept"


class Sources:
    """The runs of a model's tables.

    `TABLE` are those of the tables' own experiment. `LUCK` are over many draws of the target's
    parameters: they stand for Bernoulli N = 100, whose columns move with the draw, and for Ising
    fields. `KEPT` are over as many draws as the printed effective sample sizes imply, and stand
    for these where there are any.
    """

    def __init__(self, book: Book, model: str):
        self._book = book
        self._grids: dict[tuple[Column, str, str], list[Cell]] = {}
        for cell in book.cells(model):
            where = (column_of(cell), cell.sampler, cell.balance)
            self._grids.setdefault(where, []).append(cell)
        self._runs = {
            TABLE: _by_place(book.found(model)),
            LUCK: _by_place(run for run in book.found("luck") if run[0].model == model),
            KEPT: _by_place(run for run in book.found("kept") if run[0].model == model),
        }

    def choose(self, column: Column, method: Method, metric: str) -> tuple[list[Run], str]:
        """The runs to average, and their source; with ESS, one that has ALBP too."""
        for source in self._candidates(column, method, metric):
            found = self.of(source, column, method)
            if found and (metric != "ess" or self.of(source, column, ALBP)):
                return found, source
        if method.variant == "grid":
            return self._best(column, method, "ess" if metric == "ess" else "ejd"), TABLE
        return [], TABLE

    def of(self, source: str, column: Column, method: Method) -> list[Run]:
        """The runs of one source, but of a grid."""
        return self._runs[source].get((column, method), [])

    def _candidates(self, column: Column, method: Method, metric: str) -> Iterator[str]:
        if method.variant == "grid":
            return
        if metric == "ess":
            yield KEPT
        if column.model == "ising" or (column.model, column.size) == ("bernoulli", 100):
            yield LUCK
        yield TABLE

    def _best(self, column: Column, method: Method, metric: str) -> list[Run]:
        """The best of all rates of the first target, once all of them are there."""
        cells = self._grids.get((column, method.sampler, method.balance), [])
        first = [cell for cell in cells if cell.instance == 0]
        results = [self._book.find(cell) for cell in first]
        done = [(c, found) for c, found in zip(first, results, strict=True) if found is not None]
        if not first or len(done) < len(first):
            return []
        return [max(done, key=lambda run: run[1][metric])]


def _by_place(runs: Iterable[Run]) -> dict[tuple[Column, Method], list[Run]]:
    places: dict[tuple[Column, Method], list[Run]] = {}
    for cell, results in runs:
        places.setdefault((column_of(cell), method_of(cell)), []).append((cell, results))
    return places
