"""The paper's tables, cell by cell: printed, ours, and whether they agree."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from hopscale_reproduction import tables
from hopscale_reproduction.views.book import Book, Value, mean, metric
from hopscale_reproduction.views.names import ALBP, METRICS, VARIANTS, Column, Method, column_of
from hopscale_reproduction.views.sources import KEPT, TABLE, Run, Sources

# Within so much of the printed number a cell agrees. One draw of p moves a column of N = 100 by
# more than a larger one; the weights of the FHMM are not given and had to be fitted; those of
# the RBM were trained anew, so its numbers are shown and not judged.
EJD_TOLERANCE = {"bernoulli": 0.03, "ising": 0.03, "fhmm": 0.12}
SMALL_BERNOULLI = 100
SMALL_TOLERANCE = 0.06
ESS_TOLERANCE = 0.15

WITHIN, BEYOND, NOT_RUN, UNJUDGED = "within", "beyond", "not run", "unjudged"


class Entry(NamedTuple):
    """A cell of a table.

    Args:
        column, method, metric: where it stands.
        printed: in the paper; None where it has none.
        paper: the number to compare: as printed, but relative to the ALBP row for ESS.
        measured: ours, ESS a kept draw; None if not run.
        ours: the number to compare.
        source: which runs are behind ours, of `views.sources`.
        stated: for ESS with the chain length that the printed numbers imply, the same with the
            stated one.
        r_hat: the largest behind it.
        draws: kept, of a chain.
        implied: for ESS, the kept draws that ALBP's printed size would take at ours a draw.
    """

    column: Column
    method: Method
    metric: str
    printed: float | None
    paper: float | None
    measured: Value | None
    ours: Value | None
    source: str = TABLE
    stated: Value | None = None
    r_hat: float = math.nan
    draws: int = 0
    implied: float = math.nan

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's."""
        return None if self.ours is None or not self.paper else self.ours.mean / self.paper

    @property
    def verdict(self) -> str:
        limit = tolerance(self)
        if self.ours is None:
            return NOT_RUN
        if self.ratio is None or limit is None:
            return UNJUDGED
        return WITHIN if abs(self.ratio - 1.0) <= limit else BEYOND


def tolerance(entry: Entry) -> float | None:
    """How far ours may be from the paper's, relatively; None where that is not judged."""
    model, size, _ = entry.column
    if entry.metric == "seconds" or model not in EJD_TOLERANCE:
        return None
    if entry.metric == "ess":
        return None if entry.method == ALBP else ESS_TOLERANCE
    if model == "bernoulli" and size == SMALL_BERNOULLI:
        return SMALL_TOLERANCE
    return EJD_TOLERANCE[model]


class Table(NamedTuple):
    """All entries of a model, by (column, method, metric)."""

    columns: list[Column]
    methods: list[Method]
    entries: dict[tuple[Column, Method, str], Entry]

    def all(self, metrics: Iterable[str] = METRICS) -> list[Entry]:
        """The entries of some metrics, row by row."""
        return [
            self.entries[column, method, name]
            for name in metrics
            for method in self.methods
            for column in self.columns
        ]


def table(book: Book, model: str) -> Table:
    """A model's table, in the columns and rows that the profile has."""
    cells = book.cells(model)
    columns = list(dict.fromkeys(map(column_of, cells)))
    stems = dict.fromkeys((c.sampler, c.balance) for c in cells)
    methods = [Method(*stem, variant) for stem in stems for variant in VARIANTS]
    sources = Sources(book, model)
    entries = {
        (column, method, name): _entry(sources, column, method, name)
        for column in columns
        for method in methods
        for name in METRICS
    }
    return Table(columns, methods, entries)


def _entry(sources: Sources, column: Column, method: Method, name: str) -> Entry:
    printed = tables.value(*column, *method, name)
    runs, source = sources.choose(column, method, name)
    paper, ours, stated, implied = printed, _mean(runs, name), None, math.nan
    measured = ours
    if name == "ess":
        top = tables.value(*column, *ALBP, "ess")
        paper = None if printed is None or not top else printed / top
        # Beside the ALBP of the same targets: the grid has those of the tables throughout.
        reference = sources.of(source, column, ALBP)
        ours = _relative(runs, reference)
        size = _mean(reference, "ess")
        implied = top / size.mean if top and size else math.nan
        if source == KEPT:
            plain = (sources.of(TABLE, column, m) for m in (method, ALBP))
            stated = _relative(*plain)
    return Entry(
        column=column,
        method=method,
        metric=name,
        printed=printed,
        paper=paper,
        measured=measured,
        ours=ours,
        source=source,
        stated=stated,
        r_hat=max((results["r_hat"] for _, results in runs), default=math.nan),
        draws=runs[0][0].draws if runs else 0,
        implied=implied,
    )


def _mean(runs: list[Run], name: str) -> Value | None:
    return mean(metric(*run, name) for run in runs)


def _relative(runs: list[Run], top: list[Run]) -> Value | None:
    """ESS a draw of some runs over that of others."""
    above, below = _mean(runs, "ess"), _mean(top, "ess")
    return None if above is None or below is None else above.over(below)


def count(entries: Iterable[Entry]) -> dict[str, int]:
    """How many entries of each verdict."""
    counts = {WITHIN: 0, BEYOND: 0, NOT_RUN: 0, UNJUDGED: 0}
    for entry in entries:
        counts[entry.verdict] += 1
    return counts
