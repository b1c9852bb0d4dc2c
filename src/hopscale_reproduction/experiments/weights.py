"""The weights of the FHMM, which the paper does not give: one |W|^2 for all its tables.

The tables' model has an almost flat prior and weights of an unknown size. These cells cover several
values of |W|^2; the report finds the one that comes closest to all printed jump distances at once.
"""

import math
from collections.abc import Iterator

import numpy as np

from hopscale_reproduction import printed
from hopscale_reproduction.cells import TABLE_READING, Cell, table_cell
from hopscale_reproduction.chart import Chart, Panel, Point, Series, line
from hopscale_reproduction.design import CHAINS, CONFIGS, LENGTHS, MAIN, tuned
from hopscale_reproduction.experiment import Experiment, Find, Part
from hopscale_reproduction.formatting import percent
from hopscale_reproduction.places import method_of
from hopscale_reproduction.report.blocks import Block, Head, Picture, Text
from hopscale_reproduction.snapshot import Snapshot

NAME = "weights"
SQUARED_WEIGHTS = {"quick": (0.8, 1.1, 1.4), "paper": (0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)}
SIZES = {"quick": (200,), "paper": (200, 1000)}
LENGTH = {"quick": 2_000, "paper": LENGTHS[0]}
INSTANCES = {"quick": 1, "paper": 4}


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """Tuned RWM and LBP for each |W|^2."""
    half = LENGTH[profile] // 2
    for size in SIZES[profile]:
        for sampler, balance in MAIN:
            for config in ("C2",) if profile == "quick" else CONFIGS:
                for instance in range(INSTANCES[profile]):
                    for squared in SQUARED_WEIGHTS[profile]:
                        yield tuned(
                            table_cell(
                                "fhmm",
                                size,
                                config,
                                sampler,
                                balance,
                                instance=instance,
                                options={"squared_weights": squared},
                                warmup=half,
                                draws=half,
                                chains=CHAINS[profile],
                            )
                        )


def misfit(snapshot: Snapshot) -> dict[float, float]:
    """For each |W|^2, the root mean square of log(ours / paper's) over columns and samplers."""
    columns: dict[tuple, dict[float, list[float]]] = {}
    for cell, results in snapshot.found(NAME):
        paper = printed.value("fhmm", cell.size, cell.config, *method_of(cell), "ejd")
        if paper is not None:
            column = columns.setdefault((cell.size, cell.config, cell.sampler), {})
            squared = dict(cell.options)["squared_weights"]
            column.setdefault(squared, []).append(results["ejd"] / paper)
    return {
        squared: float(
            np.sqrt(np.mean([np.log(np.mean(column[squared])) ** 2 for column in columns.values()]))
        )
        for squared in SQUARED_WEIGHTS[snapshot.profile]
        if columns and all(squared in column for column in columns.values())
    }


def chart(snapshot: Snapshot) -> Chart:
    """How far our FHMM numbers are from the printed ones, against |W|^2."""
    found = misfit(snapshot)
    points = [
        Point(squared, value, note=f"|W|² = {squared:g}: {value:.1%}")
        for squared, value in found.items()
    ]
    series = [
        line("", list(found), list(found.values()), "blue"),
        Series("root mean square of log(ours / paper's)", points, "blue", "o"),
    ]
    panel = Panel("FHMM, tuned RWM and LBP", "|W|²", "misfit of EJD", series)
    return Chart("misfit", "The weights of the FHMM", [panel], 1, height=2.6)


def blocks(snapshot: Snapshot) -> list[Block]:
    found = misfit(snapshot)
    text = "The paper does not give the weights W and the offset b of the FHMM. "
    if found:
        best = min(found, key=lambda squared: found[squared])
        used = TABLE_READING["fhmm"]["squared_weights"]
        text += (
            f"Of the values that were tried, |W|^2 = {best:g} comes closest to all printed jump "
            "distances of tuned RWM and LBP at once. The root mean square of log(ours / paper's) "
            f"is {percent(found[best])}{_lowest(found)}. All tables here use |W|^2 = {used:g} for "
            "every column."
        )
    picture = Picture(chart(snapshot), "Misfit of the FHMM's jump distances against |W|².")
    return [Head(NAME, "The weights of the FHMM"), Text(text), picture]


def _lowest(found: dict[float, float]) -> str:
    """The minimum of a parabola through the squared misfits, if it is within their range."""
    if len(found) < 3:
        return ""
    a, b, _ = np.polyfit(list(found), [value**2 for value in found.values()], 2)
    lowest = -b / (2 * a) if a > 0 else math.inf
    if not min(found) <= lowest <= max(found):
        return ""
    return f"; a parabola fitted to the squared misfits has its minimum at {lowest:.2f}"


EXPERIMENT = Experiment(
    name=NAME,
    title="Weights of the FHMM",
    cells=cells,
    parts=(Part("differences", NAME, blocks),),
)
