"""The paper's tables, cell by cell: printed, ours, and whether they agree."""

import functools
import math
from collections.abc import Iterable
from typing import NamedTuple

from hopscale.paper import tables
from hopscale.paper.cells import Cell
from hopscale.paper.experiments.plan import BEST_RATE
from hopscale.paper.views.book import Book, Results, Value, mean, metric

VARIANTS = ("fixed-1", "adaptive", "grid")
METRICS = ("ejd", "ess", "seconds")

# Within so much of the printed number a cell agrees. One draw of p moves a column of N = 100 by
# more than a larger one; the weights of the FHMM are not given and had to be fitted; those of
# the RBM were trained anew, so its numbers are shown and not judged.
EJD_TOLERANCE = {"bernoulli": 0.03, "ising": 0.03, "fhmm": 0.12}
SMALL_BERNOULLI = 100
SMALL_TOLERANCE = 0.06
ESS_TOLERANCE = 0.15

WITHIN, BEYOND, NOT_RUN, UNJUDGED = "within", "beyond", "not run", "unjudged"


class Method(NamedTuple):
    """A row of the tables."""

    sampler: str
    balance: str
    variant: str

    @property
    def name(self) -> str:
        """As in the paper: RWM-1, AGWG(√t), GLBP(t/(t+1))."""
        weight = {"barker": "(t/(t+1))", "sqrt": "(√t)"}.get(self.balance, "")
        stem = self.sampler.upper() + weight
        return {"fixed-1": f"{stem}-1", "adaptive": f"A{stem}", "grid": f"G{stem}"}[self.variant]

    @property
    def short(self) -> str:
        """As in the paper's Table 1, without the weight function."""
        return self._replace(balance="").name


ALBP = Method("lbp", "barker", "adaptive")


class Column(NamedTuple):
    """A target distribution."""

    model: str
    size: int
    config: str


class Entry(NamedTuple):
    """A cell of a table.

    Args:
        column, method, metric: where it stands.
        printed: in the paper; None where it has none.
        paper: the number to compare: as printed, but relative to the ALBP row for ESS.
        measured: ours, ESS a kept draw; None if not run.
        ours: the number to compare.
        luck: whether ours is the mean over draws of p.
        r_hat: the largest behind it.
        draws: kept, of a chain.
    """

    column: Column
    method: Method
    metric: str
    printed: float | None
    paper: float | None
    measured: Value | None
    ours: Value | None
    luck: bool = False
    r_hat: float = math.nan
    draws: int = 0

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
    columns = list(dict.fromkeys(Column(c.model, c.size, c.config) for c in cells))
    stems = dict.fromkeys((c.sampler, c.balance) for c in cells)
    methods = [Method(*stem, variant) for stem in stems for variant in VARIANTS]
    sources = _Sources(book, model)
    entries = {
        (column, method, name): _entry(sources, column, method, name)
        for column in columns
        for method in methods
        for name in METRICS
    }
    return Table(columns, methods, entries)


def _entry(sources: "_Sources", column: Column, method: Method, name: str) -> Entry:
    printed = tables.value(*column, *method, name)
    runs, luck = sources.runs(column, method, name)
    measured = mean(metric(*run, name) for run in runs)
    paper, ours = printed, measured
    if name == "ess":
        top = tables.value(*column, *ALBP, "ess")
        paper = None if printed is None or not top else printed / top
        # Beside the ALBP of the same targets: the grid has evenly spaced p throughout.
        runs_top, luck_top = sources.runs(column, ALBP, name)
        if luck != luck_top:
            runs_top = sources.plain(column, ALBP)
        reference = mean(metric(*run, name) for run in runs_top)
        ours = None if measured is None or reference is None else measured.over(reference)
    return Entry(
        column=column,
        method=method,
        metric=name,
        printed=printed,
        paper=paper,
        measured=measured,
        ours=ours,
        luck=luck,
        r_hat=max((results["r_hat"] for _, results in runs), default=math.nan),
        draws=runs[0][0].draws if runs else 0,
    )


Run = tuple[Cell, Results]


class _Sources:
    """Which runs stand behind a cell of the table."""

    def __init__(self, book: Book, model: str):
        self._book = book
        self._cells: dict[tuple[Column, str, str], list[Cell]] = {}
        for cell in book.cells(model):
            where = (Column(cell.model, cell.size, cell.config), cell.sampler, cell.balance)
            self._cells.setdefault(where, []).append(cell)
        self._luck: dict[tuple[Column, Method], list[Run]] = {}
        for cell, results in book.found("luck") if model == "bernoulli" else ():
            column = Column(cell.model, cell.size, cell.config)
            method = Method(cell.sampler, cell.balance, variant_of(cell))
            self._luck.setdefault((column, method), []).append((cell, results))
        self.plain = functools.cache(self._plain)

    def runs(self, column: Column, method: Method, name: str) -> tuple[list[Run], bool]:
        """The runs to average, and whether they are over draws of p."""
        if column.size == SMALL_BERNOULLI and (column, method) in self._luck:
            return self._luck[column, method], True
        if method.variant == "grid":
            return self._best(column, method, "ess" if name == "ess" else "ejd"), False
        return self.plain(column, method), False

    def _plain(self, column: Column, method: Method) -> list[Run]:
        cells = self._cells.get((column, method.sampler, method.balance), [])
        return self._done(cell for cell in cells if variant_of(cell) == method.variant)

    def _best(self, column: Column, method: Method, name: str) -> list[Run]:
        """The best of all rates, once all of them are there."""
        cells = self._cells.get((column, method.sampler, method.balance), [])
        first = [cell for cell in cells if cell.instance == 0]
        done = self._done(first)
        if not first or len(done) < len(first):
            return []
        return [max(done, key=lambda run: run[1][name])]

    def _done(self, cells: Iterable[Cell]) -> list[Run]:
        pairs = ((cell, self._book.find(cell)) for cell in cells)
        return [(cell, results) for cell, results in pairs if results is not None]


def variant_of(cell: Cell) -> str:
    """The row of a cell: "fixed-1", "adaptive", or "grid" for all other rates."""
    if cell.rate is None:
        return "fixed-1"
    return "adaptive" if cell.rate == BEST_RATE[cell.sampler] else "grid"


def count(entries: Iterable[Entry]) -> dict[str, int]:
    """How many entries of each verdict."""
    counts = {WITHIN: 0, BEYOND: 0, NOT_RUN: 0, UNJUDGED: 0}
    for entry in entries:
        counts[entry.verdict] += 1
    return counts
