"""The account of differences: what the paper's text, formulas and tables leave apart."""

import math

import numpy as np

from hopscale_reproduction import charts
from hopscale_reproduction import tables as printed_tables
from hopscale_reproduction.cells import TABLE_READING
from hopscale_reproduction.experiments.plan import CONFIGS
from hopscale_reproduction.report import effort
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
from hopscale_reproduction.report.grids import SELECTED
from hopscale_reproduction.views import chance, readings
from hopscale_reproduction.views.book import Book
from hopscale_reproduction.views.comparison import WITHIN, Table, count
from hopscale_reproduction.views.names import METRICS, Method
from hopscale_reproduction.words import (
    TITLES,
    percent,
    plus_minus,
    printed,
    size_words,
    span,
)

NAMES = {"ejd": "EJD", "ess": "ESS", "seconds": "Time"}
QUESTIONS = {
    "the way back": (
        "Eq. (4) scores the way back in the reversed order of the sites; the tables follow from "
        "the same order. Both leave the target invariant. The variance of the log acceptance "
        "ratio of independent bits is 4/3 as large with the same order, for t/(t+1), so that the "
        f"best jump distance of the limit is (4/3)^(1/3) = {(4 / 3) ** (1 / 3):.3f} times as large "
        "with the reversed order, the library's default."
    ),
    "a site drawn twice": (
        "GWG draws sites with replacement. In the tables a site drawn several times is flipped "
        "once and scored each time; the other reading flips it as often as drawn, so that pairs "
        "cancel. Both are valid."
    ),
    "the Ising model": (
        "The text couples neighbours with a minus sign and has a disc that covers the whole "
        "lattice; the tables follow from a plus sign (neighbours agree) and fit a disc of half "
        "the lattice's area as well or better."
    ),
    "the FHMM": (
        "As written, with probability 0.8 of keeping a value, RWM-1 cannot accept as often as the "
        "table has it, whatever the weights. The table follows from an almost flat prior: a "
        "change of value costs 0.2 in log-weight, the first time step favours 1 nine to one, "
        "chains run along time. The text's formula runs them along the factors."
    ),
}


def section(book: Book, tables: dict[str, Table]) -> Section:
    blocks: list[Block] = [
        Text(_overall(tables)),
        Picture(
            charts.agreement(tables),
            "Every jump distance over the printed one. Dashed: the criterion. Error bars are "
            "standard errors, with the spread over targets where there are several.",
        ),
        *_readings(book),
        *_weights(book),
        *_luck(book),
        *effort.effective_sizes(tables),
        *effort.seconds(tables),
        *_slips(),
    ]
    return Section("differences", "Account of differences", blocks)


def _overall(tables: dict[str, Table]) -> str:
    counts = count(entry for table in tables.values() for entry in table.all(["ejd", "ess"]))
    judged = counts[WITHIN] + counts["beyond"]
    if not judged:
        return "No cell of the tables was run yet."
    return (
        f"{counts[WITHIN]} of {judged} judged cells (jump distances and relative effective sample "
        "sizes) are within the criterion. Those outside are listed under each table, with the "
        "reason the numbers give. What differs as a whole is told here."
    )


def _readings(book: Book) -> list[Block]:
    sides = readings.sides(book)
    blocks: list[Block] = [
        Head("readings", "Two readings"),
        Text(
            "The text, the formulas and the tables do not always describe one program. Each "
            "reading was run; the one behind the tables, marked, is the one used for comparison."
        ),
        _verdicts(readings.verdicts(sides)),
    ]
    for question, words in QUESTIONS.items():
        here = [side for side in sides if side.reading.question == question]
        title = question[0].upper() + question[1:]
        blocks.append(Fold(title, [Text(words + _gains(here)), _sides(here)]))
    return blocks


def _verdicts(found: list[readings.Verdict]) -> Grid:
    rows = [
        [
            v.question,
            v.name + (" (tables)" if v.behind else ""),
            str(v.cells),
            percent(v.typical),
            percent(v.worst),
        ]
        for v in found
    ]
    heads = ["question", "reading", "cells", "typically off by", "at most"]
    text = "How far each reading's jump distances are from the printed ones."
    return Grid(text, heads, rows)


def _gains(sides: list[readings.Side]) -> str:
    """How far the other reading of a sampler moves, over that of the tables."""
    ours = {
        (side.reading.behind, side.reading.model, side.method, side.config): side.ours.mean
        for side in sides
        if side.ours is not None and "detail" in side.reading.changes
    }
    ratios: dict[str, list[float]] = {}
    for (behind, model, method, config), value in ours.items():
        base = ours.get((True, model, method, config))
        if not behind and base:
            ratios.setdefault(model, []).append(value / base)
    if not ratios:
        return ""
    parts = [f"{TITLES[model]} {span(found, 2)}" for model, found in ratios.items()]
    return f" The other reading's jump distance over that of the tables': {', '.join(parts)}."


def _sides(sides: list[readings.Side]) -> Grid:
    rows = [
        [
            f"{TITLES[s.reading.model]}, {size_words(s.reading.model, s.size)}, {s.config}",
            s.method.name,
            s.reading.name + (" (tables)" if s.reading.behind else ""),
            plus_minus(s.ours),
            printed(s.printed),
            "–" if s.ratio is None else f"×{s.ratio:.3f}",
        ]
        for s in sorted(sides, key=lambda s: (s.reading.model, s.reading.method, s.config))
    ]
    heads = ["target", "sampler", "reading", "ours", "paper", "ratio"]
    return Grid("Jump distance under each reading.", heads, rows)


def _weights(book: Book) -> list[Block]:
    found = readings.misfit(book)
    text = "The weights W and the offset b of the FHMM are not given. "
    if found:
        best = min(found, key=lambda squared: found[squared])
        used = TABLE_READING["fhmm"]["squared_weights"]
        text += (
            f"Of the sizes that were tried, |W|^2 = {best:g} comes closest to all printed jump "
            f"distances of tuned RWM and LBP at once: off by {percent(found[best])}, in the root "
            f"mean square of logarithms{_lowest(found)}. All tables here use |W|^2 = {used:g}, for "
            "every column."
        )
    picture = Picture(charts.misfit(book), "Misfit of the FHMM's jump distances over |W|².")
    return [Head("weights", "The weights of the FHMM"), Text(text), picture]


def _lowest(found: dict[float, float]) -> str:
    """Where a parabola through the squares has its lowest point, if that is among them."""
    if len(found) < 3:
        return ""
    a, b, _ = np.polyfit(list(found), [value**2 for value in found.values()], 2)
    lowest = -b / (2 * a) if a > 0 else math.inf
    if not min(found) <= lowest <= max(found):
        return ""
    return f"; a parabola through all has its lowest point at {lowest:.2f}"


def _luck(book: Book) -> list[Block]:
    found = chance.table(book)
    walk = Method("rwm", "", "adaptive")
    spreads = [
        f"{percent(min(values))} to {percent(max(values))} at N = {size}"
        for size in (100, 800, 6400)
        if (values := [chance.predicted("bernoulli", size, config, walk) for config in CONFIGS])
    ]
    text = (
        "The paper drew p, and the Ising field, once a column. The best jump distance of RWM on "
        "Bernoulli targets goes as one over the sum of (2p − 1) log(p/(1 − p)), whose relative "
        "standard deviation over draws of p is "
        + ", ".join(spreads)
        + ". A printed number is one draw; ours is the mean over draws, or that of evenly spaced "
        "p. The z below is the printed number's distance from our mean, in standard deviations of "
        "one draw. All samplers of a column share its draw, so their z go together."
    )
    rows = [
        [
            f"{TITLES[item.column.model]}, {size_words(*item.column[:2])}, {item.column.config}",
            item.method.name,
            f"{item.ours.mean:.3f}",
            printed(item.printed),
            percent(item.ours.spread),
            "–" if math.isnan(item.predicted) else percent(item.predicted),
            f"{item.z:+.1f}".replace("-", "−"),
        ]
        for item in found
    ]
    heads = ["target", "sampler", "ours, mean", "paper", "spread", "predicted", "z"]
    caption = "Jump distance over draws: mean, spread, and where the printed number lies."
    grid = Grid(caption, heads, rows)
    return [
        Head("luck", "The luck of the draw"),
        Text(text + _scores(found)),
        Picture(
            charts.luck(book),
            "Ours over the printed number, a point a draw of p or of the Ising field.",
        ),
        Fold("Every column", [grid]) if len(rows) > 12 else grid,
    ]


def _scores(found: list[chance.Luck]) -> str:
    scores = [abs(item.z) for item in found if not math.isnan(item.z)]
    if not scores:
        return ""
    inside = sum(score <= 2 for score in scores)
    return f" {inside} of {len(scores)} printed numbers are within two of them."


def _slips() -> list[Block]:
    """Where the paper's Table 1 and its appendix print different numbers."""
    items = []
    for model, size in (("bernoulli", 800), ("ising", 50), ("fhmm", 1000), ("rbm", 400)):
        for method in SELECTED:
            for metric in METRICS:
                main = printed_tables.value(model, size, "Table 1", *method, metric)
                appendix = printed_tables.value(model, size, "C2", *method, metric)
                if main is not None and appendix is not None and main != appendix:
                    items.append(
                        f"{TITLES[model]}, {method.short}, {NAMES[metric]}: {printed(main)} in "
                        f"Table 1, {printed(appendix)} in the appendix."
                    )
    return [
        Head("slips", "Within the paper"),
        Text(
            "Table 1 repeats the appendix's medium size. For the FHMM it has ESS and Time of ALBP "
            "and GLBP exchanged. All comparisons here are with the appendix. The cells that differ:"
        ),
        Bullets(items),
    ]
