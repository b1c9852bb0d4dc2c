"""The paper's tables as grids: ours above, the paper's below, in every cell."""

from hopscale_reproduction.report.blocks import Content, Grid, Stack
from hopscale_reproduction.views.comparison import BEYOND, NOT_RUN, Entry, Table, tolerance
from hopscale_reproduction.views.names import ALBP, METRICS, Column, Method
from hopscale_reproduction.words import (
    TITLES,
    percent,
    plus_minus,
    printed,
    significant,
    size_words,
)

SELECTED = [Method(s, b, v) for s, b in (("rwm", ""), ("lbp", "barker"))
            for v in ("fixed-1", "adaptive", "grid")]  # fmt: skip
HEADS = {"ejd": "EJD", "ess": "ESS / ALBP", "seconds": "seconds"}


def stack(entry: Entry) -> Stack:
    """One cell of a table."""
    if entry.ours is None:
        return Stack("not run", _paper(entry), NOT_RUN, _detail(entry))
    mark = _mark(entry)
    if entry.metric == "seconds":
        return Stack(significant(entry.ours.mean), _paper(entry), mark, _detail(entry))
    if entry.metric == "ess" and entry.method == ALBP:
        return Stack("1", "reference", mark, _detail(entry))
    top = plus_minus(entry.ours)
    ratio = "" if entry.ratio is None else f" · ×{entry.ratio:.3f}"
    return Stack(top, _paper(entry) + ratio, mark, _detail(entry))


def _mark(entry: Entry) -> str:
    """The verdict, and on which side ours is."""
    if entry.verdict != BEYOND or entry.ratio is None:
        return entry.verdict
    return "high" if entry.ratio > 1 else "low"


def _paper(entry: Entry) -> str:
    if entry.paper is None:
        return "–"
    return f"{entry.paper:.3f}" if entry.metric == "ess" else printed(entry.paper)


def _detail(entry: Entry) -> str:
    """What does not fit into the cell."""
    where = f"{TITLES[entry.column.model]}, {size_words(*entry.column[:2])}, {entry.column.config}"
    parts = [f"{entry.method.name}; {where}"]
    if entry.measured is not None:
        if entry.metric == "ess":
            parts.append(
                f"{significant(entry.measured.mean)} effective draws a kept draw, "
                f"{entry.measured.mean * entry.draws:,.1f} of {entry.draws:,}"
            )
        if entry.measured.count > 1:
            parts.append(
                f"mean of {entry.measured.count} targets, spread {percent(entry.measured.spread)}"
            )
        if entry.stated is not None:
            parts.append(f"with the stated chain length {significant(entry.stated.mean)}")
        parts.append(f"R-hat {entry.r_hat:.3f}")
    if entry.metric == "ess" and entry.printed is not None:
        parts.append(f"paper {printed(entry.printed)}")
    limit = tolerance(entry)
    if limit is not None:
        parts.append(f"criterion ±{100 * limit:.0f}%")
    return "; ".join(parts)


def model_grid(table: Table, metric: str, caption: str) -> Grid:
    """One of the appendix's tables."""
    sizes = list(dict.fromkeys(column.size for column in table.columns))
    groups = [(size_words(c.model, s), sum(c.size == s for c in table.columns))
              for s in sizes for c in table.columns[:1]]  # fmt: skip
    rows: list[list[Content]] = [
        [method.name, *(stack(table.entries[column, method, metric]) for column in table.columns)]
        for method in table.methods
    ]
    rules = tuple(i for i in range(3, len(rows), 3))
    heads = ["sampler", *(column.config for column in table.columns)]
    return Grid(caption, heads, rows, (("", 1), *groups), rules)


def selected_grid(tables: dict[str, Table], columns: dict[str, Column], caption: str) -> Grid:
    """Table 1: six samplers, all models, one size, C2."""
    rows: list[list[Content]] = []
    for method in SELECTED:
        row: list[Content] = [method.short]
        for model, column in columns.items():
            for metric in METRICS:
                entry = tables[model].entries.get((column, method, metric))
                row.append("" if entry is None else stack(entry))
        rows.append(row)
    groups = tuple(
        (f"{TITLES[model]}, {size_words(model, column.size)}", len(METRICS))
        for model, column in columns.items()
    )
    heads = ["sampler", *(HEADS[metric] for _ in columns for metric in METRICS)]
    return Grid(caption, heads, rows, (("", 1), *groups), rules=(3,))
