"""The paper's tables, cell by cell: printed, ours, and whether they agree."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from hopscale_reproduction import printed
from hopscale_reproduction.criteria import (
    BEYOND,
    EJD_TOLERANCE,
    ESS_TOLERANCE,
    NOT_RUN,
    UNJUDGED,
    WITHIN,
    ejd_tolerance,
)
from hopscale_reproduction.experiments.sampling.sources import LENGTHS, TABLES, Sources
from hopscale_reproduction.formatting import TITLES
from hopscale_reproduction.places import ALBP, METRICS, VARIANTS, Column, Method, Run, column_of
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.values import Value, mean, metric


class Entry(NamedTuple):
    """A cell of a table.

    Args:
        column, method, metric: its place in the table.
        printed: the paper's number; None if there is none.
        paper: the paper's number to compare: as printed, but for ESS relative to the ALBP row.
        measured: our number, for ESS per draw; None if not run.
        ours: our number to compare.
        source: the source of our runs, one of those in `sources.py`.
        stated: for ESS at the chain length that the printed numbers imply, our number to compare at
            the stated length.
        r_hat: the largest R-hat of our runs.
        draws: the draws of a chain, without burn-in.
        implied: for ESS, the number of draws that ALBP's printed size implies, given ours per draw.
    """

    column: Column
    method: Method
    metric: str
    printed: float | None
    paper: float | None
    measured: Value | None
    ours: Value | None
    source: str = TABLES
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
    """The relative tolerance of ours against the paper's; None if the entry is not judged."""
    model, size, _ = entry.column
    if entry.metric == "seconds" or model not in EJD_TOLERANCE:
        return None
    if entry.metric == "ess":
        return None if entry.method == ALBP else ESS_TOLERANCE
    return ejd_tolerance(model, size)


def well_within(entry: Entry) -> bool:
    """Whether an entry is within half of its tolerance."""
    limit = tolerance(entry)
    return limit is not None and entry.ratio is not None and abs(entry.ratio - 1.0) <= limit / 2


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


def tables(snapshot: Snapshot) -> dict[str, Table]:
    """The tables of all models that the profile has, by model."""
    found = {model: table(snapshot, model) for model in TITLES}
    return {model: one for model, one in found.items() if one.columns}


def middle(found: dict[str, Table]) -> dict[str, Column]:
    """The column of Table 1: C2 at the medium size, or at the only one of a profile."""
    chosen = {}
    for model, table in found.items():
        columns = [c for c in table.columns if c.config == "C2"] or table.columns
        if columns:
            chosen[model] = columns[min(1, len(columns) - 1)]
    return chosen


def table(snapshot: Snapshot, model: str) -> Table:
    """A model's table, in the columns and rows that the profile has."""
    cells = snapshot.cells(model)
    columns = list(dict.fromkeys(map(column_of, cells)))
    stems = dict.fromkeys((c.sampler, c.balance) for c in cells)
    methods = [Method(*stem, variant) for stem in stems for variant in VARIANTS]
    sources = Sources(snapshot, model)
    entries = {
        (column, method, name): _entry(sources, column, method, name)
        for column in columns
        for method in methods
        for name in METRICS
    }
    return Table(columns, methods, entries)


def _entry(sources: Sources, column: Column, method: Method, name: str) -> Entry:
    as_printed = printed.value(*column, *method, name)
    runs, source = sources.choose(column, method, name)
    paper, ours, stated, implied = as_printed, _mean(runs, name), None, math.nan
    measured = ours
    if name == "ess":
        top = printed.value(*column, *ALBP, "ess")
        paper = None if as_printed is None or not top else as_printed / top
        # Relative to ALBP on the same targets.
        reference = sources.of(source, column, ALBP)
        ours = _relative(runs, reference)
        size = _mean(reference, "ess")
        implied = top / size.mean if top and size else math.nan
        if source == LENGTHS:
            plain = (sources.of(TABLES, column, m, name) for m in (method, ALBP))
            stated = _relative(*plain)
    return Entry(
        column=column,
        method=method,
        metric=name,
        printed=as_printed,
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
