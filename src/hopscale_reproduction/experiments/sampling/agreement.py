"""How well the tables agree as a whole: jump distances, seconds, and the paper with itself."""

import statistics

from hopscale_reproduction import printed
from hopscale_reproduction.cells import SINGLE
from hopscale_reproduction.chart import Chart, Mark, Panel, Point, Series
from hopscale_reproduction.criteria import BEYOND, EJD_TOLERANCE, WITHIN
from hopscale_reproduction.design import SIZES
from hopscale_reproduction.experiments.sampling.comparison import (
    Entry,
    Table,
    count,
    tables,
    well_within,
)
from hopscale_reproduction.experiments.sampling.tables import SELECTED
from hopscale_reproduction.formatting import TITLES, plus_minus, significant, size_label
from hopscale_reproduction.formatting import printed as as_printed
from hopscale_reproduction.places import METRICS, Method
from hopscale_reproduction.report.blocks import Block, Bullets, Head, Picture, Text
from hopscale_reproduction.snapshot import Snapshot

RANKS = (("small", "sky", "o"), ("medium", "blue", "s"), ("large", "red", "^"))
METRIC_NAMES = {"ejd": "EJD", "ess": "ESS", "seconds": "Time"}


def chart(found: dict[str, Table]) -> Chart:
    """Every jump distance divided by the printed one, one panel per model that was run."""
    panels = []
    for model, table in found.items():
        if all(entry.ours is None for entry in table.all(["ejd"])):
            continue
        sizes = list(dict.fromkeys(column.size for column in table.columns))
        series = []
        for rank, size in enumerate(sizes):
            name, color, marker = RANKS[rank % 3]
            points = [
                Point(_place(table, e), e.ratio, e.ours.error / e.paper, note=_note(e))
                for e in table.all(["ejd"])
                if e.column.size == size and e.ratio is not None and e.ours and e.paper
            ]
            series.append(Series(name, points, color, marker))
        ticks = tuple((i, method.name) for i, method in enumerate(table.methods))
        title = f"{TITLES[model]}: {', '.join(size_label(model, size) for size in sizes)}"
        panels.append(Panel(title, "", "ours / paper's EJD", series, _band(model), ticks=ticks))
    return Chart("agreement", "Jump distances over the printed ones", panels, 1, height=1.9)


def _note(entry: Entry) -> str:
    """A cell of a table in one line."""
    where = f"{entry.method.name}, {size_label(*entry.column[:2])}, {entry.column.config}"
    return f"{where}: {plus_minus(entry.ours)}, paper {significant(entry.paper)}"


def _place(table: Table, entry: Entry) -> float:
    """The position along x: by row, and within a row by column."""
    column = table.columns.index(entry.column)
    return table.methods.index(entry.method) + 0.7 * ((column + 0.5) / len(table.columns) - 0.5)


def _band(model: str) -> tuple[Mark, ...]:
    middle = Mark("y", 1.0, solid=True)
    limit = EJD_TOLERANCE.get(model)
    if limit is None:
        return (middle,)
    return (Mark("y", 1.0 - limit), middle, Mark("y", 1.0 + limit))


def blocks(snapshot: Snapshot) -> list[Block]:
    found = snapshot.once(tables)
    return [
        Text(_overall(found)),
        Picture(
            chart(found),
            "Every jump distance divided by the printed one. Dashed lines: the criterion. Error "
            "bars are standard errors, including the spread over targets where there are several.",
        ),
    ]


def _overall(found: dict[str, Table]) -> str:
    entries = [entry for table in found.values() for entry in table.all(["ejd", "ess"])]
    judged = [entry for entry in entries if entry.verdict in (WITHIN, BEYOND)]
    if not judged:
        return "No cell of the tables was run yet."
    easy = [e for e in judged if e.metric == "ejd" and e.method.accepts_all]
    return (
        f"{count(judged)[WITHIN]} of {len(judged)} judged cells (jump distances and relative "
        f"effective sample sizes) are within the criterion, {sum(map(well_within, judged))} of "
        f"them within half of it. {len(easy)} could hardly be outside: the jump distances of GWG-1 "
        "and LBP-1, which accept almost every proposal. The cells outside are listed under each "
        "table, with the reason that the numbers give. This section is about differences that "
        "concern the tables as a whole."
    )


def seconds(snapshot: Snapshot) -> list[Block]:
    """What the seconds of a cell mean, and how much longer LBP takes than RWM."""
    ratios, theirs = [], []
    for table in snapshot.once(tables).values():
        for column in table.columns:
            pair = [
                table.entries.get((column, Method(*method, SINGLE), "seconds"))
                for method in (("lbp", "barker"), ("rwm", ""))
            ]
            values = [e.ours.mean for e in pair if e is not None and e.ours is not None]
            if len(values) == 2:
                ratios.append(values[0] / values[1])
            paper = [e.paper for e in pair if e is not None and e.paper]
            if len(paper) == 2:
                theirs.append(paper[0] / paper[1])
    text = (
        "Cells of one shape run side by side, as one program over all their chains. The seconds of "
        "a cell are its share of the batch, not what it would take alone. They compare samplers "
        "with one another, not machines."
    )
    if ratios and theirs:
        text += (
            f" A step of LBP-1 takes {min(ratios):.1f} to {max(ratios):.1f} times as long as one "
            f"of RWM-1 (median {statistics.median(ratios):.1f}). In these columns the paper's "
            f"ratios are {min(theirs):.1f} to {max(theirs):.1f} (median "
            f"{statistics.median(theirs):.1f})."
        )
    return [Head("seconds", "Seconds"), Text(text)]


def slips(snapshot: Snapshot) -> list[Block]:
    """The cells in which the paper's Table 1 and its appendix print different numbers."""
    items = []
    for model, (_, size, _) in SIZES.items():
        for method in SELECTED:
            for metric in METRICS:
                main = printed.value(model, size, "Table 1", *method, metric)
                appendix = printed.value(model, size, "C2", *method, metric)
                if main is not None and appendix is not None and main != appendix:
                    items.append(
                        f"{TITLES[model]}, {method.short}, {METRIC_NAMES[metric]}: "
                        f"{as_printed(main)} in Table 1, {as_printed(appendix)} in the appendix."
                    )
    return [
        Head("slips", "Differences within the paper"),
        Text(
            "Table 1 repeats the medium size of the appendix. For the FHMM, it has ESS and Time of "
            "ALBP and GLBP exchanged. All comparisons here are with the appendix. The cells that "
            "differ:"
        ),
        Bullets(items),
    ]
