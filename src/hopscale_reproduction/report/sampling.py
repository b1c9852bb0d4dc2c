"""Sections on sampling: Table 1, performance curves, order of the scale, all tables."""

from hopscale_reproduction import charts
from hopscale_reproduction.report.blocks import (
    Block,
    Bullets,
    Fold,
    Grid,
    Head,
    Picture,
    Section,
    Text,
)
from hopscale_reproduction.report.grids import model_grid, selected_grid
from hopscale_reproduction.report.reasons import Reasons
from hopscale_reproduction.views import curves, scaling
from hopscale_reproduction.views.book import Book, Value
from hopscale_reproduction.views.comparison import BEYOND, Entry, Table, count
from hopscale_reproduction.views.names import Column, sampler_name
from hopscale_reproduction.words import (
    METRIC_TITLES,
    TITLES,
    number,
    percent,
    plus_minus,
    significant,
    size_words,
    span,
)

PAPER_TABLES = {
    ("bernoulli", "ejd"): 5, ("bernoulli", "ess"): 6, ("bernoulli", "seconds"): 7,
    ("ising", "ejd"): 8, ("ising", "ess"): 9, ("ising", "seconds"): 10,
    ("fhmm", "ejd"): 11, ("fhmm", "ess"): 12, ("fhmm", "seconds"): 13,
    ("rbm", "ejd"): 14, ("rbm", "ess"): 15, ("rbm", "seconds"): 16,
}  # fmt: skip
PAPER_FIGURES = {"bernoulli": 7, "ising": 8, "fhmm": 9, "rbm": 10}
EXPLAIN = {
    "ejd": "Expected jump distance, ± its standard error; below, the paper's and ours over it.",
    "ess": "Effective sample size a kept draw, relative to the ALBP(t/(t+1)) row of its column.",
    "seconds": "Seconds a cell, its share of the batch it ran in; below, the paper's.",
}


def middle(tables: dict[str, Table]) -> dict[str, Column]:
    """The column of Table 1: C2 at the medium size, or at the only one of a profile."""
    chosen = {}
    for model, table in tables.items():
        columns = [c for c in table.columns if c.config == "C2"] or table.columns
        if columns:
            chosen[model] = columns[min(1, len(columns) - 1)]
    return chosen


def table_1(book: Book, tables: dict[str, Table]) -> Section:
    columns = middle(tables)
    smaller = "" if book.profile == "paper" else (
        " The quick profile has the smallest sizes, beside the paper's numbers for those."
    )  # fmt: skip
    text = (
        "Configuration C2. In each cell ours, then the paper's and ours over it. ESS is that of a "
        "kept draw relative to ALBP's, because the absolute size depends on a chain length that "
        "the paper's numbers do not fit (see the account of differences). Seconds are those of "
        "two different machines." + smaller
    )
    grid = selected_grid(tables, columns, "Table 1. Six samplers on the paper's distributions.")
    return Section("table-1", "Table 1", [Text(text), grid])


def performance(book: Book, tables: dict[str, Table]) -> Section:
    sizes = {model: column.size for model, column in middle(tables).items()}
    named = ", ".join(f"{TITLES[m]} {size_words(m, s)}" for m, s in sizes.items())
    blocks: list[Block] = [
        Text(
            "Each point is a cell: a scale tuned for one acceptance rate, then frozen and run. The "
            "solid line is the theory with the way back scored in the order of the tables; the "
            "dotted one is Eq. (7) as printed, for the reversed order."
        ),
        Picture(
            charts.efficiency(book, sizes),
            f"Figures 1 to 4. Jump distance against acceptance: {named}.",
        ),
        *_peaks(book, tables),
    ]
    return Section("curves", "Performance curves", blocks)


def _peaks(book: Book, tables: dict[str, Table]) -> list[Block]:
    """Where the curves have their tops: in short, and every one."""
    tops: dict[tuple[str, str], dict[str, list[float]]] = {}
    for model in tables:
        for (_, sampler, balance), points in curves.curves(book, model).items():
            top = curves.peak(points)
            if top is not None:
                tops.setdefault((sampler, balance), {}).setdefault(model, []).append(top.mean)
    rows = [
        [
            sampler_name(*method),
            "0.234" if method[0] == "rwm" else "0.574",
            *(span(found[model], 2) if model in found else "–" for model in tables),
        ]
        for method, found in tops.items()
    ]
    heads = ["sampler", "theory", *(TITLES[model] for model in tables)]
    short = Grid(
        "Acceptance rates at which the jump distance peaks, over all targets.", heads, rows
    )
    return [short, Fold("Every curve", [_every_peak(book, tables)])]


def _every_peak(book: Book, tables: dict[str, Table]) -> Grid:
    rows = []
    for model in tables:
        for (column, sampler, balance), points in curves.curves(book, model).items():
            rate = 0.234 if sampler == "rwm" else 0.574
            share = curves.share_of_best(points, rate)
            if share is None:
                continue  # no grid of rates was run
            rows.append([
                f"{TITLES[model]}, {size_words(model, column.size)}, {column.config}",
                sampler_name(sampler, balance),
                str(rate),
                *(_top(points, metric) for metric in ("ejd", "ess")),
                percent(share),
            ])  # fmt: skip
    heads = ["target", "sampler", "theory", "EJD peaks at", "ESS peaks at", "EJD at theory's rate"]
    caption = (
        "Acceptance rates at which the curves peak (a cubic near the top, ± the fit's error) where "
        "a grid of rates was run, and the share of the best jump distance had at the theory's rate."
    )
    return Grid(caption, heads, rows)


def _top(points: list[curves.Point], metric: str) -> str:
    top = curves.peak(points, metric)
    return "–" if top is None else plus_minus(top, 3)


def order(book: Book) -> Section:
    rows = [
        [
            f"{TITLES[g.model]}: {g.quantity}",
            f"{g.sites[0]:,} to {g.sites[-1]:,}",
            "0" if g.quantity == scaling.RWM_SCALE else "2/3",
            *(plus_minus(Value(s.slope, s.error), 3) if s else "–" for s in (g.fit, g.upper)),
        ]
        for g in scaling.growths(book)
    ]
    heads = ["quantity", "sites", "theory", "slope", "slope, larger half"]
    blocks: list[Block] = [
        Text(
            "Adaptive LBP and RWM in configuration C2 over sizes. Lines are least squares on "
            "logarithms, errors by the scatter around them. Small targets are not yet in the "
            "limit, so the slope through the larger half of the sizes stands beside that through "
            "all." + _first_step(book)
        ),
        Picture(
            charts.order(book), "Figure 5. Best scale and gain over the random walk against N."
        ),
        Grid("Slopes on log-log axes.", heads, rows),
    ]
    return Section("order", "Order of the scale", blocks)


def _first_step(book: Book) -> str:
    """Why the random walk's R grows with small FHMMs, if it does."""
    for g in scaling.growths(book):
        if (g.model, g.quantity) == ("fhmm", scaling.RWM_SCALE) and g.fit and g.fit.slope > 0.05:
            return (
                " The R of RWM grows with the FHMM: in the model of the tables the first time step "
                f"favours 1 nine to one, and it is one in {g.sites[0] // 5} sites of the smallest "
                f"target, one in {g.sites[-1] // 5:,} of the largest. What it takes away from the "
                "small ones shows in the gain too."
            )
    return ""


def all_tables(book: Book, tables: dict[str, Table]) -> Section:
    blocks: list[Block] = [
        Text(
            "Every cell of the paper's appendix that this profile runs. A cell is within the "
            "criterion if ours is within 3% of the printed jump distance (Bernoulli N = 100: 6%, "
            "on the mean over draws of p where there are several; FHMM: 12%), and within 15% of "
            "the printed effective sample size relative to ALBP. RBM cells are shown, not judged: "
            "their weights were trained anew. Where several targets were drawn, rows of R = 1 and "
            "of the tuned scale are means over them; a grid is of the first alone, so that it can "
            "be below the tuned scale."
        )
    ]
    for model, table in tables.items():
        blocks += _model(book, model, table)
    return Section("tables", "All tables", blocks)


def _model(book: Book, model: str, table: Table) -> list[Block]:
    made: list[Block] = [Head(f"tables-{model}", TITLES[model])]
    for metric in ("ejd", "ess", "seconds"):
        name = f"Table {PAPER_TABLES[model, metric]}. {METRIC_TITLES[metric]}, {TITLES[model]}."
        grid = model_grid(table, metric, f"{name} {EXPLAIN[metric]}")
        made.append(Fold(name, [grid]) if metric == "seconds" else grid)
    made += outside(table, Reasons(book))
    sizes = list(dict.fromkeys(column.size for column in table.columns))
    for some in [sizes] if model == "rbm" else [[size] for size in sizes]:
        named = ", ".join(size_words(model, size) for size in some)
        name = f"Figure {PAPER_FIGURES[model]}. {TITLES[model]}, {named}."
        text = f"{name} All samplers: jump distance above, effective sample size a draw below."
        picture = Picture(charts.performance(book, model, some), text)
        made.append(Fold(f"Performance curves, {named}", [picture]))
    return made


def outside(table: Table, reasons: Reasons) -> list[Block]:
    """The cells beyond the criterion, each with a reason."""
    beyond = [e for e in table.all(["ejd", "ess"]) if e.verdict == BEYOND]
    if not beyond:
        judged = count(table.all(["ejd", "ess"]))["within"]
        text = f"All {judged} cells that were judged are within the criterion."
        return [Text(text)] if judged else []
    lines = [f"{_line(entry)} {reasons.of(entry)}" for entry in beyond]
    cells = "1 cell" if len(beyond) == 1 else f"{len(beyond)} cells"
    return [Fold(f"{cells} outside the criterion, and why", [Bullets(lines)])]


def _line(entry: Entry) -> str:
    assert entry.ours is not None
    assert entry.ratio is not None
    where = f"{entry.method.name}, {size_words(*entry.column[:2])}, {entry.column.config}"
    digits = 3 if entry.metric == "ess" else None
    numbers = f"{number(entry.ours.mean, digits)} against {significant(entry.paper)}"
    off = percent(entry.ratio - 1.0, signed=True)
    return f"{entry.metric.upper()} of {where}: {numbers} ({off})."
