"""Performance curves, Figures 1 to 4 and the appendix's: efficiency against acceptance."""

import math
from typing import NamedTuple

import numpy as np

from hopscale import theory
from hopscale.paper import instances
from hopscale_reproduction.cells import TUNED, Cell
from hopscale_reproduction.chart import (
    CONFIG_LOOKS,
    RATE_LABEL,
    Chart,
    Mark,
    Panel,
    Point,
    Series,
    line,
)
from hopscale_reproduction.design import BEST_RATE
from hopscale_reproduction.experiment import Results
from hopscale_reproduction.experiments.sampling.comparison import Table, tables
from hopscale_reproduction.formatting import (
    CONFIG_LABELS,
    TITLES,
    column_label,
    percent,
    plus_minus,
    size_label,
    span,
)
from hopscale_reproduction.places import Column, column_of, sampler_name
from hopscale_reproduction.report.blocks import Block, Fold, Grid, Picture, Text
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.values import Value, metric

NEAR_TOP = 0.8  # a curve's top is fitted to what is at least this much of the best
LOOKS = {
    ("rwm", ""): ("green", "v"),
    ("gwg", "barker"): ("sky", "s"),
    ("lbp", "barker"): ("blue", "o"),
    ("gwg", "sqrt"): ("orange", "D"),
    ("lbp", "sqrt"): ("red", "^"),
}
METRIC_LABELS = {"ejd": "expected jump distance", "ess": "ESS per draw"}
BOTH = tuple(Mark("x", BEST_RATE[sampler], str(BEST_RATE[sampler])) for sampler in ("rwm", "lbp"))


class Measured(NamedTuple):
    """A point of a curve."""

    cell: Cell
    results: Results

    @property
    def acceptance(self) -> float:
        return self.results["acceptance"]

    def metric(self, name: str) -> tuple[float, float]:
        return metric(self.cell, self.results, name)


Curves = dict[tuple[Column, str, str], list[Measured]]


def curves(snapshot: Snapshot, model: str) -> Curves:
    """All points of a model's first target, by (column, sampler, balance), by acceptance."""
    found: Curves = {}
    for cell, results in snapshot.found(model):
        if cell.instance == 0:
            where = (column_of(cell), cell.sampler, cell.balance)
            found.setdefault(where, []).append(Measured(cell, results))
    return {where: sorted(points, key=lambda p: p.acceptance) for where, points in found.items()}


def curves_of(snapshot: Snapshot, sampler: str, balance: str) -> dict[str, list[list[Measured]]]:
    """A sampler's curves by model."""
    found = {}
    for model in snapshot.once(tables):
        mine = [
            points
            for (_, *method), points in snapshot.once(curves, model).items()
            if method == [sampler, balance]
        ]
        if mine:
            found[model] = mine
    return found


def peak(points: list[Measured], name: str = "ejd") -> Value | None:
    """The acceptance rate at which a curve has its top; None with too few points.

    Where a cubic through (rate, log of the metric) near the top has its maximum; the error is
    that of the fit, by the scatter of the points around it.
    """
    rates = np.array([point.acceptance for point in points])
    values = np.array([point.metric(name)[0] for point in points])
    near = values >= NEAR_TOP * values.max() if len(values) else np.zeros(0, bool)
    x, y = rates[near], np.log(values[near])
    if len(x) < 6 or np.ptp(x) < 0.1:
        return None
    weights = np.exp(y - y.max()) ** 4  # the top counts most
    (a, b, c, _), covariance = np.polyfit(x - x.mean(), y, 3, w=weights, cov=True)
    roots = np.roots([3 * a, 2 * b, c])
    tops = [r.real for r in roots if abs(r.imag) < 1e-9 and 6 * a * r.real + 2 * b < 0]
    inside = [t for t in tops if x.min() <= t + x.mean() <= x.max()]
    if not inside:
        return None
    top = inside[0]
    gradient = -np.array([3 * top**2, 2 * top, 1.0, 0.0]) / (6 * a * top + 2 * b)
    error = math.sqrt(max(0.0, gradient @ covariance @ gradient))
    return Value(float(top + x.mean()), error)


def share_of_best(points: list[Measured]) -> float | None:
    """The jump distance tuned for the theory's rate, over the best of the curve."""
    values = [point.results["ejd"] for point in points]
    tuned = [point.results["ejd"] for point in points if point.cell.role == TUNED]
    return tuned[0] / max(values) if tuned and len(values) >= 6 else None


# Figures


def efficiency(snapshot: Snapshot, sizes: dict[str, int]) -> Chart:
    """LBP above, RWM below, a column a model, all configurations: Figures 1 to 4."""
    found = {model: snapshot.once(curves, model) for model in sizes}
    sizes = {model: size for model, size in sizes.items() if found[model]}
    panels = [
        _efficiency_panel(found[model], model, size, sampler, balance)
        for sampler, balance in (("lbp", "barker"), ("rwm", ""))
        for model, size in sizes.items()
    ]
    return Chart("efficiency", "Jump distance against acceptance", panels, max(1, len(sizes)))


def _efficiency_panel(found: Curves, model: str, size: int, sampler: str, balance: str) -> Panel:
    series = []
    for (column, *method), points in found.items():
        if (column.size != size and model != "rbm") or tuple(method) != (sampler, balance):
            continue
        color, marker = CONFIG_LOOKS[column.config]
        series += _theory(column, sampler, balance, color, points[-1].acceptance)
        series.append(Series(CONFIG_LABELS[column.config], _points(points, "ejd"), color, marker))
    return Panel(
        title=f"{TITLES[model]}: {sampler.upper()}",
        x=RATE_LABEL,
        y=METRIC_LABELS["ejd"],
        series=series,
        marks=(Mark("x", BEST_RATE[sampler], f"{BEST_RATE[sampler]}"),),
    )


def _points(points: list[Measured], name: str) -> list[Point]:
    return [Point(point.acceptance, *point.metric(name), point.cell) for point in points]


def _theory(column: Column, sampler: str, balance: str, color: str, top: float) -> list[Series]:
    """The limit's curve, with the way back of the tables; dotted, that of Eq. (7) as printed."""
    if column.model != "bernoulli":
        return []
    p = np.asarray(instances.bernoulli(column.size, column.config, spacing="even").p)
    rates = np.linspace(0.02, min(top, 0.985), 80)
    if sampler == "rwm":
        curve = theory.efficiency_curve(rates, p, "rwm")
        return [line("theory", rates, curve, color, "-")]
    same = theory.efficiency_curve(rates, p, "lbp", balance=balance, path="same")
    printed = theory.efficiency_curve(rates, p, "lbp", balance=balance, complete=False)
    return [
        line("theory", rates, same, color),
        line("theory, Eq. (7) as printed", rates, printed, color, ":"),
    ]


def performance(snapshot: Snapshot, model: str, sizes: list[int]) -> Chart:
    """All samplers: jump distance above, effective sample size below, a column a target."""
    everything = snapshot.once(curves, model)
    found = {where: points for where, points in everything.items() if where[0].size in sizes}
    columns = list(dict.fromkeys(where[0] for where in found))
    panels = [_panel(found, column, metric) for metric in METRIC_LABELS for column in columns]
    named = ", ".join(size_label(model, size) for size in sizes)
    title = f"{TITLES[model]}, {named}: all samplers"
    name = "-".join([model, *map(str, sizes)])
    return Chart(name, title, panels, max(1, len(columns)))


def _panel(found: Curves, column: Column, metric: str) -> Panel:
    series = []
    size = size_label(column.model, column.size)
    for (where, sampler, balance), points in found.items():
        if where == column:
            name = sampler_name(sampler, balance)
            series.append(Series(name, _points(points, metric), *LOOKS[sampler, balance]))
    return Panel(
        title=size if column.model == "rbm" else CONFIG_LABELS[column.config],
        x=RATE_LABEL,
        y=METRIC_LABELS[metric],
        series=series,
        marks=BOTH,
        log="y",
    )


# Report


def middle(found: dict[str, Table]) -> dict[str, Column]:
    """The column of Table 1: C2 at the medium size, or at the only one of a profile."""
    chosen = {}
    for model, table in found.items():
        columns = [c for c in table.columns if c.config == "C2"] or table.columns
        if columns:
            chosen[model] = columns[min(1, len(columns) - 1)]
    return chosen


def blocks(snapshot: Snapshot) -> list[Block]:
    found = snapshot.once(tables)
    sizes = {model: column.size for model, column in middle(found).items()}
    named = ", ".join(f"{TITLES[m]} {size_label(m, s)}" for m, s in sizes.items())
    return [
        Text(
            "Each point is a cell: a scale tuned for one acceptance rate, then frozen and run. The "
            "solid line is the theory with the way back scored in the order of the tables; the "
            "dotted one is Eq. (7) as printed, for the reversed order."
        ),
        Picture(
            efficiency(snapshot, sizes),
            f"Figures 1 to 4. Jump distance against acceptance: {named}.",
        ),
        _peaks(snapshot, list(found)),
        Fold("Every curve", [_every_peak(snapshot, list(found))]),
    ]


def _peaks(snapshot: Snapshot, models: list[str]) -> Grid:
    """Where the curves have their tops, in short."""
    tops: dict[tuple[str, str], dict[str, list[float]]] = {}
    for model in models:
        for (_, sampler, balance), points in snapshot.once(curves, model).items():
            top = peak(points)
            if top is not None:
                tops.setdefault((sampler, balance), {}).setdefault(model, []).append(top.mean)
    rows = [
        [
            sampler_name(*method),
            str(BEST_RATE[method[0]]),
            *(span(found[model], 2) if model in found else "–" for model in models),
        ]
        for method, found in tops.items()
    ]
    heads = ["sampler", "theory", *(TITLES[model] for model in models)]
    caption = "Acceptance rates at which the jump distance peaks, over all targets."
    return Grid(caption, heads, rows)


def _every_peak(snapshot: Snapshot, models: list[str]) -> Grid:
    rows = []
    for model in models:
        for (column, sampler, balance), points in snapshot.once(curves, model).items():
            share = share_of_best(points)
            if share is None:
                continue  # no grid of rates was run
            rows.append([
                column_label(column),
                sampler_name(sampler, balance),
                str(BEST_RATE[sampler]),
                *(_top(points, metric) for metric in ("ejd", "ess")),
                percent(share),
            ])  # fmt: skip
    heads = ["target", "sampler", "theory", "EJD peaks at", "ESS peaks at", "EJD at theory's rate"]
    caption = (
        "Acceptance rates at which the curves peak (a cubic near the top, ± the fit's error) where "
        "a grid of rates was run, and the share of the best jump distance had at the theory's rate."
    )
    return Grid(caption, heads, rows)


def _top(points: list[Measured], metric: str) -> str:
    top = peak(points, metric)
    return "–" if top is None else plus_minus(top, 3)
