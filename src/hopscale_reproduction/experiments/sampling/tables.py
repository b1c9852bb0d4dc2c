"""The paper's tables, with ours above and theirs below in every cell: Table 1 and appendix."""

from hopscale_reproduction.cells import GRID, SINGLE, TUNED
from hopscale_reproduction.criteria import BEYOND, NOT_RUN, WITHIN
from hopscale_reproduction.design import MAIN
from hopscale_reproduction.experiments.sampling.comparison import (
    Entry,
    Table,
    count,
    middle,
    tables,
    tolerance,
)
from hopscale_reproduction.experiments.sampling.figures import performance
from hopscale_reproduction.experiments.sampling.reasons import Reasons
from hopscale_reproduction.formatting import (
    METRIC_TITLES,
    TITLES,
    column_label,
    number,
    percent,
    plus_minus,
    printed,
    significant,
    size_label,
)
from hopscale_reproduction.places import ALBP, METRICS, Column, Method
from hopscale_reproduction.report.blocks import (
    Block,
    Bullets,
    Content,
    Fold,
    Grid,
    Head,
    Picture,
    Stack,
    Text,
)
from hopscale_reproduction.snapshot import Snapshot

SELECTED = [Method(*method, variant) for method in MAIN for variant in (SINGLE, TUNED, GRID)]
HEADS = {"ejd": "EJD", "ess": "ESS / ALBP", "seconds": "seconds"}
PAPER_TABLES = {
    ("bernoulli", "ejd"): 5, ("bernoulli", "ess"): 6, ("bernoulli", "seconds"): 7,
    ("ising", "ejd"): 8, ("ising", "ess"): 9, ("ising", "seconds"): 10,
    ("fhmm", "ejd"): 11, ("fhmm", "ess"): 12, ("fhmm", "seconds"): 13,
    ("rbm", "ejd"): 14, ("rbm", "ess"): 15, ("rbm", "seconds"): 16,
}  # fmt: skip
PAPER_FIGURES = {"bernoulli": 7, "ising": 8, "fhmm": 9, "rbm": 10}
EXPLAIN = {
    "ejd": "Ours ± its standard error; below, the paper's and the ratio of ours to it.",
    "ess": "The size per kept draw, relative to the ALBP(t/(t+1)) row of its column.",
    "seconds": "Seconds per cell, as its share of its batch; below, the paper's.",
}


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
    """The details that do not fit into the cell."""
    parts = [f"{entry.method.name}; {column_label(entry.column)}"]
    if entry.measured is not None:
        if entry.metric == "ess":
            parts.append(
                f"{significant(entry.measured.mean)} effective draws per draw, "
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
    groups = [(size_label(c.model, s), sum(c.size == s for c in table.columns))
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
        (f"{TITLES[model]}, {size_label(model, column.size)}", len(METRICS))
        for model, column in columns.items()
    )
    heads = ["sampler", *(HEADS[metric] for _ in columns for metric in METRICS)]
    return Grid(caption, heads, rows, (("", 1), *groups), rules=(3,))


# Report


def table_1(snapshot: Snapshot) -> list[Block]:
    found = snapshot.once(tables)
    smaller = "" if snapshot.profile == "paper" else (
        " The quick profile has the smallest sizes, with the paper's numbers for them."
    )  # fmt: skip
    text = (
        "Configuration C2. A sampler X is run as X-1 (R = 1), AX (R tuned for the theory's best "
        "acceptance rate) and GX (the best of a grid of rates). Each cell has our value, the "
        "paper's, and the ratio of ours to it. ESS is per kept draw and relative to that of ALBP, "
        "because the absolute size depends on a chain length that the paper's numbers do not fit "
        "(see the account of differences). Our seconds and the paper's are from two different "
        "machines." + smaller
    )
    caption = "Table 1. Six samplers on the paper's distributions."
    return [Text(text), selected_grid(found, middle(found), caption)]


def criterion(snapshot: Snapshot) -> list[Block]:
    """The criterion by which the tables below are judged."""
    return [
        Text(
            "These are all cells of the paper's appendix that this profile runs. A jump distance "
            "is within the criterion if ours is within 3% of the printed one (Bernoulli N = 100: "
            "6%, on the mean over draws of p where there are several; FHMM: 12%). An effective "
            "sample size, relative to ALBP, is within it if ours is within 15% of the printed one. "
            "RBM cells are shown but not judged, because the weights were trained again. Where "
            "several targets were drawn, the rows of R = 1 and of the tuned scale are means over "
            "them. A grid is that of the first target alone, so it can be below the tuned scale."
        )
    ]


def model_tables(model: str, snapshot: Snapshot) -> list[Block]:
    """A model's tables, the cells outside the criterion, and its performance curves."""
    table = snapshot.once(tables).get(model)
    if table is None:
        return []
    content: list[Block] = [Head(f"tables-{model}", TITLES[model])]
    for metric in ("ejd", "ess", "seconds"):
        name = f"Table {PAPER_TABLES[model, metric]}. {METRIC_TITLES[metric]}, {TITLES[model]}."
        grid = model_grid(table, metric, f"{name} {EXPLAIN[metric]}")
        content.append(Fold(name, [grid]) if metric == "seconds" else grid)
    content += outside(table, Reasons(snapshot))
    sizes = list(dict.fromkeys(column.size for column in table.columns))
    for some in [sizes] if model == "rbm" else [[size] for size in sizes]:
        named = ", ".join(size_label(model, size) for size in some)
        name = f"Figure {PAPER_FIGURES[model]}. {TITLES[model]}, {named}."
        text = f"{name} All samplers: jump distance above, effective sample size per draw below."
        picture = Picture(performance(snapshot, model, some), text)
        content.append(Fold(f"Performance curves, {named}", [picture]))
    return content


def outside(table: Table, reasons: Reasons) -> list[Block]:
    """The cells beyond the criterion, each with a reason."""
    beyond = [e for e in table.all(["ejd", "ess"]) if e.verdict == BEYOND]
    if not beyond:
        judged = count(table.all(["ejd", "ess"]))[WITHIN]
        text = f"All {judged} judged cells are within the criterion."
        return [Text(text)] if judged else []
    lines = [f"{_line(entry)} {reasons.of(entry)}" for entry in beyond]
    cells = "1 cell" if len(beyond) == 1 else f"{len(beyond)} cells"
    return [Fold(f"{cells} outside the criterion, and why", [Bullets(lines)])]


def _line(entry: Entry) -> str:
    assert entry.ours is not None
    assert entry.ratio is not None
    where = f"{entry.method.name}, {size_label(*entry.column[:2])}, {entry.column.config}"
    digits = 3 if entry.metric == "ess" else None
    numbers = f"{number(entry.ours.mean, digits)} against {significant(entry.paper)}"
    off = percent(entry.ratio - 1.0, signed=True)
    return f"{entry.metric.upper()} of {where}: {numbers} ({off})."
