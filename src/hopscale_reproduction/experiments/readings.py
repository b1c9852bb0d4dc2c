"""Where the paper's text and tables describe different programs: both are run.

Each reading changes one thing of the cell behind the tables. The report puts them beside the
printed numbers, which is how the reading behind the tables was established.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from hopscale_reproduction.cells import Cell, table_cell
from hopscale_reproduction.experiments.plan import (
    BEST_RATE,
    CONFIGS,
    LENGTHS,
    SIZES,
    Experiment,
    Find,
)


class Reading(NamedTuple):
    """One way to read the paper; `behind` marks the one that gave its tables."""

    question: str
    name: str
    behind: bool
    model: str
    method: tuple[str, str, str]  # sampler, balance, variant
    changes: dict[str, Any]


def _readings() -> Iterator[Reading]:
    for balance in ("barker", "sqrt"):
        for detail in ("same", "reversed"):
            method = ("lbp", balance, "adaptive")
            yield Reading(
                "the way back", detail, detail == "same", "bernoulli", method, {"detail": detail}
            )
            yield Reading(
                "the way back", detail, detail == "same", "ising", method, {"detail": detail}
            )
        for detail in ("once", "parity"):
            method = ("gwg", balance, "adaptive")
            yield Reading(
                "a site drawn twice", detail, detail == "once", "bernoulli", method,
                {"detail": detail},
            )  # fmt: skip
    for sign in ("+", "-"):
        for disc in ("half", "text"):
            for method in (("rwm", "", "fixed-1"), ("lbp", "barker", "adaptive")):
                name = f"coupling {sign}, disc {disc}"
                options = {"sign": sign, "disc": disc}
                behind = (sign, disc) == ("+", "half")
                yield Reading(
                    "the Ising model", name, behind, "ising", method, {"options": options}
                )
    for variant in ("table", "written"):
        for axis in ("time", "factor"):
            for method in (
                ("rwm", "", "fixed-1"),
                ("rwm", "", "adaptive"),
                ("lbp", "barker", "adaptive"),
            ):
                name = f"{variant}, chains along {axis}"
                options: dict[str, Any] = {"variant": variant, "axis": axis}
                if variant == "written":
                    options["squared_weights"] = None  # as drawn
                behind = (variant, axis) == ("table", "time")
                yield Reading("the FHMM", name, behind, "fhmm", method, {"options": options})


READINGS = tuple(_readings())
RANK = {"quick": 0, "paper": 1}  # small, medium
LENGTH = {"quick": 3_000, "paper": LENGTHS[1]}


def cell(reading: Reading, profile: str, config: str) -> Cell:
    """The cell of a reading."""
    sampler, balance, variant = reading.method
    half = LENGTH[profile] // 2
    return table_cell(
        reading.model,
        SIZES[reading.model][RANK[profile]],
        config,
        sampler,
        balance,
        rate=None if variant == "fixed-1" else BEST_RATE[sampler],
        warmup=half,
        draws=half,
        **reading.changes,
    )


def configs(profile: str) -> tuple[str, ...]:
    return ("C2",) if profile == "quick" else CONFIGS


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """Every reading in every configuration."""
    for reading in READINGS:
        for config in configs(profile):
            yield cell(reading, profile, config)


EXPERIMENT = Experiment("readings", "Two readings", cells)
