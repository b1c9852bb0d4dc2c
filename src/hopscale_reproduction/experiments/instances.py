r"""The spread over random targets: the same cells over many draws of the targets' parameters.

The paper drew p, or the field, once per column. The spread of a column over draws says how close a
comparison can be, and which differences need no other explanation.

The best jump distance of RWM scales as $1 / \sum_i (2 p_i - 1) \log \frac{p_i}{1 - p_i}$, that of
LBP as $\lambda_1^{-2/3}$. Both are functions of averages over sites, so their relative standard
deviation over draws of p falls as $N^{-1/2}$.
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hopscale.paper.instances import INTERVAL
from hopscale_reproduction import printed
from hopscale_reproduction.cells import GRID, SINGLE, TUNED, Cell, table_cell
from hopscale_reproduction.chart import CONFIG_LOOKS, Chart, Mark, Panel, Point, Series
from hopscale_reproduction.criteria import ejd_tolerance
from hopscale_reproduction.design import (
    CHAINS,
    CONFIGS,
    LENGTHS,
    MAIN,
    METHODS,
    SIZES,
    single_and_tuned,
)
from hopscale_reproduction.experiment import Experiment, Find, Part
from hopscale_reproduction.formatting import (
    CONFIG_LABELS,
    TITLES,
    column_label,
    percent,
    size_label,
)
from hopscale_reproduction.formatting import printed as as_printed
from hopscale_reproduction.places import ARWM, Column, Method, Run, by_place
from hopscale_reproduction.report.blocks import Block, Fold, Grid, Head, Picture, Text
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.values import Value, mean, metric

NAME = "instances"
TARGETS = {"quick": 4, "paper": 16}
LENGTH = {"quick": 3_000, "paper": LENGTHS[0]}
READING = {"bernoulli": {"spacing": "random"}, "ising": {}}

ROUNDING = 0.01 / math.sqrt(12.0)  # standard deviation of rounding to two decimals
_SITES, _DRAWS = 400, 2_000  # with which the predicted spread is measured


def columns(profile: str) -> Iterator[tuple[str, int, str, str]]:
    """Model, size, sampler and balance."""
    if profile == "quick":
        yield from (("bernoulli", 100, *method) for method in MAIN)
        return
    yield from (("bernoulli", size, *method) for size in (100, 800) for method in METHODS)
    yield from (("ising", 20, *method) for method in MAIN)


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """R = 1 and the tuned scale on many draws of the target."""
    half = LENGTH[profile] // 2
    for model, size, sampler, balance in columns(profile):
        for config in ("C2",) if profile == "quick" else CONFIGS:
            for instance in range(TARGETS[profile]):
                yield from single_and_tuned(
                    table_cell(
                        model, size, config, sampler, balance, instance=instance,
                        options=READING[model], warmup=half, draws=half, chains=CHAINS[profile],
                    )
                )  # fmt: skip


# Numbers


class Spread(NamedTuple):
    """One printed number, compared with draws of p or of the field.

    Args:
        column, method: its place in the tables.
        printed: the paper's jump distance.
        ours: mean over draws of the target's parameters.
        runs: ours, one cell per draw.
        predicted: the relative standard deviation over draws that the theory gives.
    """

    column: Column
    method: Method
    printed: float
    ours: Value
    runs: list[Run]
    predicted: float

    @property
    def z(self) -> float:
        """The printed number's distance from ours, in standard deviations of one draw.

        The rounding of printed numbers to two decimals is included.
        """
        draw = self.ours.spread * math.sqrt(1.0 + 1.0 / self.ours.count)
        spread = math.hypot(draw, ROUNDING / self.ours.mean)
        return (self.printed / self.ours.mean - 1.0) / spread


def spreads(snapshot: Snapshot) -> list[Spread]:
    """All columns that were run over several draws."""
    found = []
    for (column, method), runs in by_place(snapshot.found(NAME)).items():
        paper = printed.value(*column, *method, "ejd")
        ours = mean(metric(*run, "ejd") for run in runs)
        if paper is not None and ours is not None and ours.count > 1:
            found.append(Spread(column, method, paper, ours, runs, predicted(column, method)))
    return found


def spread_at(found: list[Spread], column: Column, method: Method) -> float:
    """The relative standard deviation over draws; NaN if neither theory nor runs give it.

    For Ising fields it is measured at the size that was drawn many times, and taken to fall as one
    over the side of the lattice. A grid has the spread of the tuned scale.
    """
    if column.model == "bernoulli":
        return predicted(column, method)
    drawn = method._replace(variant=TUNED) if method.variant == GRID else method
    for item in found:
        if (item.column.model, item.column.config, item.method) == (
            column.model, column.config, drawn,
        ):  # fmt: skip
            return item.ours.spread * item.column.size / column.size
    return math.nan


def predicted(column: Column, method: Method) -> float:
    """The relative standard deviation of the jump distance over draws of p, by the theory.

    There is no theory for GWG; its spread is taken to be that of LBP. With R = 1, GWG and LBP
    accept almost every proposal and have no spread. For models other than Bernoulli there is no
    prediction: NaN.
    """
    if column.model != "bernoulli":
        return math.nan
    if method.variant == SINGLE:
        if method.sampler != "rwm":
            return 0.0
        at_reference = _at_reference("single", "", column.config)
    else:
        curve = "walk" if method.sampler == "rwm" else "balanced"
        at_reference = _at_reference(curve, method.balance, column.config)
    return at_reference * math.sqrt(_SITES / column.size)


@functools.cache
def _at_reference(curve: str, balance: str, config: str) -> float:
    """The relative standard deviation at N = 400, over 2,000 draws."""
    low, high = INTERVAL[config]
    p = np.random.default_rng(0).uniform(low, high, (_DRAWS, _SITES))
    distance = {"single": _single, "walk": _walk, "balanced": _balanced}[curve](p, balance)
    return float(distance.std(ddof=1) / distance.mean())


def _single(p: np.ndarray, balance: str) -> np.ndarray:
    return np.mean(2.0 * np.minimum(p, 1.0 - p), axis=1)


def _walk(p: np.ndarray, balance: str) -> np.ndarray:
    return 1.0 / np.mean((2.0 * p - 1.0) * np.log(p / (1.0 - p)), axis=1)


def _balanced(p: np.ndarray, balance: str) -> np.ndarray:
    """lambda_1^(-2/3), up to a constant."""
    w_0, w_1 = (p, 1.0 - p) if balance == "barker" else (np.sqrt(p / (1 - p)), np.sqrt((1 - p) / p))
    flow = p * w_1
    square = np.sum(flow * (w_0 - w_1) ** 2, axis=1) / np.sum(flow, axis=1)
    return (np.sqrt(square) / np.mean(flow, axis=1)) ** (-2.0 / 3.0)


# Figure


def chart(snapshot: Snapshot) -> Chart:
    """The jump distance of each draw, divided by the printed number."""
    found = snapshot.once(spreads)
    panels = []
    for model, size in dict.fromkeys(item.column[:2] for item in found):
        here = [item for item in found if item.column[:2] == (model, size)]
        methods = list(dict.fromkeys(item.method for item in here))
        series = [
            Series(CONFIG_LABELS[config], _points(here, methods, config), *CONFIG_LOOKS[config])
            for config in dict.fromkeys(item.column.config for item in here)
        ]
        limit = ejd_tolerance(model, size) or 0.0
        marks = (Mark("y", 1.0, solid=True), Mark("y", 1 - limit), Mark("y", 1 + limit))
        ticks = tuple((i, method.name) for i, method in enumerate(methods))
        title = f"{TITLES[model]}, {size_label(model, size)}: every draw"
        panels.append(Panel(title, "", "ours / paper's EJD", series, marks, ticks=ticks))
    return Chart(NAME, "The spread over random targets", panels, 1, height=2.0)


def _points(found: list[Spread], methods: list[Method], config: str) -> list[Point]:
    shift = {"C1": -0.22, "C2": 0.0, "C3": 0.22}[config]
    return [
        Point(
            methods.index(item.method) + shift,
            results["ejd"] / item.printed,
            results["ejd_error"] / item.printed,
            cell,
        )
        for item in found
        if item.column.config == config
        for cell, results in item.runs
    ]


# Report


def blocks(snapshot: Snapshot) -> list[Block]:
    found = snapshot.once(spreads)
    rows = [
        [
            column_label(item.column),
            item.method.name,
            f"{item.ours.mean:.3f}",
            as_printed(item.printed),
            percent(item.ours.spread),
            "–" if math.isnan(item.predicted) else percent(item.predicted),
            f"{item.z:+.1f}".replace("-", "−"),
        ]
        for item in found
    ]
    heads = ["target", "sampler", "ours, mean", "paper", "spread", "predicted", "z"]
    caption = "Jump distance over draws: mean, spread, and the position of the printed number."
    grid = Grid(caption, heads, rows)
    return [
        Head(NAME, "The spread over random targets"),
        Text(_text() + _within_two(found)),
        Picture(
            chart(snapshot),
            "Our jump distance divided by the printed one. Each point is one draw of p or of the "
            "Ising field.",
        ),
        Fold("Every column", [grid]) if len(rows) > 12 else grid,
    ]


def _text() -> str:
    ranges = []
    for size in SIZES["bernoulli"]:
        values = [predicted(Column("bernoulli", size, config), ARWM) for config in CONFIGS]
        ranges.append(f"{percent(min(values))} to {percent(max(values))} at N = {size}")
    return (
        "The paper drew p, and the Ising field, once per column. The best jump distance of RWM on "
        "Bernoulli targets scales as one over the sum of (2p − 1) log(p/(1 − p)). Its relative "
        "standard deviation over draws of p is "
        + ", ".join(ranges)
        + ". A printed number comes from one draw; ours is the mean over draws, or comes from "
        "evenly spaced p. In the table, z is the distance of the printed number from our mean, in "
        "standard deviations of one draw. All samplers of a column share its draw, so their z are "
        "correlated."
    )


def _within_two(found: list[Spread]) -> str:
    scores = [abs(item.z) for item in found if not math.isnan(item.z)]
    if not scores:
        return ""
    inside = sum(score <= 2 for score in scores)
    return f" {inside} of {len(scores)} printed numbers are within two standard deviations."


EXPERIMENT = Experiment(
    name=NAME,
    title="Spread over targets",
    cells=cells,
    parts=(Part("differences", NAME, blocks),),
)
