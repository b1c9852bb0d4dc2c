"""The figures of performance curves: jump distance and effective sample size against acceptance."""

import numpy as np

from hopscale import theory
from hopscale.paper import instances
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
from hopscale_reproduction.design import BEST_RATE, MAIN
from hopscale_reproduction.experiments.sampling.comparison import middle, tables
from hopscale_reproduction.experiments.sampling.curves import Curves, Measured, curves
from hopscale_reproduction.formatting import CONFIG_LABELS, TITLES, size_label
from hopscale_reproduction.places import Column, sampler_name
from hopscale_reproduction.snapshot import Snapshot

LOOKS = {
    ("rwm", ""): ("green", "v"),
    ("gwg", "barker"): ("sky", "s"),
    ("lbp", "barker"): ("blue", "o"),
    ("gwg", "sqrt"): ("orange", "D"),
    ("lbp", "sqrt"): ("red", "^"),
}
METRIC_LABELS = {"ejd": "expected jump distance", "ess": "ESS per draw"}
BOTH = tuple(Mark("x", BEST_RATE[sampler], str(BEST_RATE[sampler])) for sampler in ("rwm", "lbp"))


def efficiency(snapshot: Snapshot, sizes: dict[str, int]) -> Chart:
    """LBP above, RWM below, one column per model, all configurations: Figures 1 to 4."""
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
    """The curve of the limit, with the way back as in the tables; dotted, Eq. (7) as printed."""
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
    """All samplers: jump distance above, effective sample size below, one column per target."""
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


def trade_off(snapshot: Snapshot) -> Chart:
    """LBP and RWM on one target, each relative to its best: the idea in a picture."""
    column = middle(snapshot.once(tables)).get("bernoulli")
    series = []
    for (where, sampler, balance), points in snapshot.once(curves, "bernoulli").items():
        if where == column and (sampler, balance) in MAIN:
            top = max(point.results["ejd"] for point in points)
            drawn = [
                Point(p.acceptance, p.results["ejd"] / top, p.results["ejd_error"] / top, p.cell)
                for p in points
            ]
            name = {"lbp": "locally balanced proposal", "rwm": "random walk"}[sampler]
            series.append(Series(name, drawn, *LOOKS[sampler, balance]))
    panel = Panel("", "share of proposals that are accepted", "distance moved / best", series, BOTH)
    return Chart("trade-off", "Distance moved against acceptance", [panel], 1, height=2.6)
