"""Both readings wherever the paper's text and tables describe different programs.

Each reading changes one thing in the cell behind the tables. The report compares the readings with
the printed numbers, which is how the reading behind the tables was established.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from hopscale_reproduction import printed
from hopscale_reproduction.cells import SINGLE, TUNED, Cell, table_cell
from hopscale_reproduction.design import CHAINS, CONFIGS, LENGTHS, SIZES, single_and_tuned
from hopscale_reproduction.experiment import Experiment, Find, Part
from hopscale_reproduction.formatting import TITLES, column_label, percent, plus_minus, span
from hopscale_reproduction.formatting import printed as as_printed
from hopscale_reproduction.places import Column, Method
from hopscale_reproduction.report.blocks import Block, Fold, Grid, Head, Text
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.values import Value, metric

NAME = "readings"
RANK = {"quick": 0, "paper": 1}  # small, medium
LENGTH = {"quick": 3_000, "paper": LENGTHS[1]}

QUESTIONS = {
    "the way back": (
        "The way back is the reverse of a proposal. Eq. (4) scores it with the sites in reversed "
        "order; the tables follow from the same order. Both leave the target invariant. For "
        "independent bits and t/(t+1), the variance of the log acceptance ratio is 4/3 as large "
        "with the same order. In the limit, the best jump distance is therefore (4/3)^(1/3) = "
        f"{(4 / 3) ** (1 / 3):.3f} times as large with the reversed order, the library's default."
    ),
    "a site drawn twice": (
        "GWG draws sites with replacement. In the tables, a site drawn several times is flipped "
        "once and scored each time. The other reading flips it as often as it is drawn, so that "
        "pairs cancel. Both are valid."
    ),
    "the Ising model": (
        "The text couples neighbours with a minus sign, and its disc covers the whole lattice. The "
        "tables follow from a plus sign (neighbours agree), and fit a disc of half the lattice's "
        "area as well or better."
    ),
    "the FHMM": (
        "As written, a value is kept with probability 0.8, and RWM-1 cannot accept as often as in "
        "the table, whatever the weights. The table follows from an almost flat prior: a change "
        "of value costs 0.2 in log-weight, the first time step favours 1 by nine to one, and "
        "chains run along time. The text's formula runs them along the factors."
    ),
}


class Reading(NamedTuple):
    """One way to read the paper; `behind` marks the one behind its tables."""

    question: str
    name: str
    behind: bool
    model: str
    method: Method
    changes: dict[str, Any]


def _readings() -> Iterator[Reading]:
    for balance in ("barker", "sqrt"):
        for detail in ("same", "reversed"):
            for model in ("bernoulli", "ising"):
                yield Reading(
                    question="the way back",
                    name=detail,
                    behind=detail == "same",
                    model=model,
                    method=Method("lbp", balance, TUNED),
                    changes={"detail": detail},
                )
        for detail in ("once", "parity"):
            yield Reading(
                question="a site drawn twice",
                name=detail,
                behind=detail == "once",
                model="bernoulli",
                method=Method("gwg", balance, TUNED),
                changes={"detail": detail},
            )
    for sign in ("+", "-"):
        for disc in ("half", "text"):
            for method in (Method("rwm", "", SINGLE), Method("lbp", "barker", TUNED)):
                yield Reading(
                    question="the Ising model",
                    name=f"coupling {sign}, disc {disc}",
                    behind=(sign, disc) == ("+", "half"),
                    model="ising",
                    method=method,
                    changes={"options": {"sign": sign, "disc": disc}},
                )
    for variant in ("table", "written"):
        for axis in ("time", "factor"):
            options: dict[str, Any] = {"variant": variant, "axis": axis}
            if variant == "written":
                options["squared_weights"] = None  # as drawn
            for method in (
                Method("rwm", "", SINGLE),
                Method("rwm", "", TUNED),
                Method("lbp", "barker", TUNED),
            ):
                yield Reading(
                    question="the FHMM",
                    name=f"{variant}, chains along {axis}",
                    behind=(variant, axis) == ("table", "time"),
                    model="fhmm",
                    method=method,
                    changes={"options": options},
                )


READINGS = tuple(_readings())


def cell_of(reading: Reading, profile: str, config: str) -> Cell:
    """The cell of a reading."""
    sampler, balance, variant = reading.method
    size, half = SIZES[reading.model][RANK[profile]], LENGTH[profile] // 2
    run = {"warmup": half, "draws": half, "chains": CHAINS[profile]}
    cell = table_cell(reading.model, size, config, sampler, balance, **run, **reading.changes)
    single, tuned = single_and_tuned(cell)
    return {SINGLE: single, TUNED: tuned}[variant]


def configs(profile: str) -> tuple[str, ...]:
    return ("C2",) if profile == "quick" else CONFIGS


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """Every reading in every configuration."""
    for reading in READINGS:
        for config in configs(profile):
            yield cell_of(reading, profile, config)


# Numbers


class Side(NamedTuple):
    """One reading's jump distance."""

    reading: Reading
    column: Column
    printed: float | None
    ours: Value | None

    @property
    def ratio(self) -> float | None:
        return None if self.ours is None or not self.printed else self.ours.mean / self.printed


def sides(snapshot: Snapshot) -> list[Side]:
    """Every reading in every configuration of the profile."""
    found = []
    for reading in READINGS:
        for config in configs(snapshot.profile):
            cell = cell_of(reading, snapshot.profile, config)
            results = snapshot.find(cell)
            column = Column(reading.model, cell.size, config)
            paper = printed.value(*column, *reading.method, "ejd")
            ours = None if results is None else Value(*metric(cell, results, "ejd"))
            found.append(Side(reading, column, paper, ours))
    return found


class Misfit(NamedTuple):
    """How far a reading is from the printed numbers over all its cells, typically and at most."""

    question: str
    name: str
    behind: bool
    cells: int
    typical: float
    worst: float


def misfits(sides: list[Side]) -> list[Misfit]:
    """One entry for each reading that was run."""
    groups: dict[tuple[str, str, bool], list[float]] = {}
    for side in sides:
        if side.ratio is not None:
            where = (side.reading.question, side.reading.name, side.reading.behind)
            groups.setdefault(where, []).append(abs(math.log(side.ratio)))
    return [
        Misfit(*where, len(logs), math.exp(_rms(logs)) - 1.0, math.exp(max(logs)) - 1.0)
        for where, logs in groups.items()
    ]


def _rms(values: list[float]) -> float:
    return math.sqrt(sum(v * v for v in values) / len(values))


# Report


def blocks(snapshot: Snapshot) -> list[Block]:
    found = sides(snapshot)
    content: list[Block] = [
        Head(NAME, "Two readings"),
        Text(
            "The text, the formulas and the tables of the paper do not always describe the same "
            "program. Each reading was run. The one behind the tables, marked (tables), is used "
            "for comparison."
        ),
        _overview(misfits(found)),
    ]
    for question, answer in QUESTIONS.items():
        here = [side for side in found if side.reading.question == question]
        title = question[0].upper() + question[1:]
        content.append(Fold(title, [Text(answer + _gains(here)), _every_side(here)]))
    return content


def _overview(found: list[Misfit]) -> Grid:
    rows = [
        [
            item.question,
            item.name + (" (tables)" if item.behind else ""),
            str(item.cells),
            percent(item.typical),
            percent(item.worst),
        ]
        for item in found
    ]
    heads = ["question", "reading", "cells", "typically off by", "at most"]
    text = "How far each reading's jump distances are from the printed ones."
    return Grid(text, heads, rows)


def _gains(sides: list[Side]) -> str:
    """The jump distance of a sampler's other reading, relative to that of the tables."""
    ours = {
        (side.reading.behind, side.column, side.reading.method): side.ours.mean
        for side in sides
        if side.ours is not None and "detail" in side.reading.changes
    }
    ratios: dict[str, list[float]] = {}
    for (behind, column, method), value in ours.items():
        base = ours.get((True, column, method))
        if not behind and base:
            ratios.setdefault(column.model, []).append(value / base)
    if not ratios:
        return ""
    parts = [f"{TITLES[model]} {span(found, 2)}" for model, found in ratios.items()]
    return f" The other reading's jump distance, relative to the tables' one: {', '.join(parts)}."


def _every_side(sides: list[Side]) -> Grid:
    rows = [
        [
            column_label(side.column),
            side.reading.method.name,
            side.reading.name + (" (tables)" if side.reading.behind else ""),
            plus_minus(side.ours),
            as_printed(side.printed),
            "–" if side.ratio is None else f"×{side.ratio:.3f}",
        ]
        for side in sorted(
            sides, key=lambda s: (s.reading.model, s.reading.method, s.column.config)
        )
    ]
    heads = ["target", "sampler", "reading", "ours", "paper", "ratio"]
    return Grid("Jump distance under each reading.", heads, rows)


EXPERIMENT = Experiment(
    name=NAME, title="Two readings", cells=cells, parts=(Part("differences", NAME, blocks),)
)
