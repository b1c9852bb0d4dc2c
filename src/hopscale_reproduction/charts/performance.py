"""Performance curves: Figures 1 to 4, and the appendix's."""

import numpy as np

from hopscale import theory
from hopscale.paper import instances
from hopscale_reproduction.charts.chart import RATE_LABEL, Chart, Mark, Panel, Point, Series, line
from hopscale_reproduction.experiments.plan import BEST_RATE
from hopscale_reproduction.views.book import Book
from hopscale_reproduction.views.curves import Curves, curves
from hopscale_reproduction.views.names import Column, sampler_name
from hopscale_reproduction.words import CONFIG_WORDS, TITLES, size_words

LOOKS = {
    ("rwm", ""): ("green", "v"),
    ("gwg", "barker"): ("sky", "s"),
    ("lbp", "barker"): ("blue", "o"),
    ("gwg", "sqrt"): ("orange", "D"),
    ("lbp", "sqrt"): ("red", "^"),
}
CONFIG_LOOKS = {"C1": ("sky", "o"), "C2": ("blue", "s"), "C3": ("red", "^")}
METRIC_WORDS = {"ejd": "expected jump distance", "ess": "ESS per draw"}
BOTH = (Mark("x", 0.234, "0.234"), Mark("x", 0.574, "0.574"))


def efficiency(book: Book, sizes: dict[str, int]) -> Chart:
    """LBP above, RWM below, a column a model, all configurations: Figures 1 to 4."""
    found = {model: curves(book, model) for model in sizes}
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
        series += _theory(column, sampler, balance, color, points[-1].rate)
        made = [Point(p.rate, *p.metric("ejd"), p.cell) for p in points]
        series.append(Series(CONFIG_WORDS[column.config], made, color, marker))
    return Panel(
        title=f"{TITLES[model]}: {sampler.upper()}",
        x=RATE_LABEL,
        y=METRIC_WORDS["ejd"],
        series=series,
        marks=(Mark("x", BEST_RATE[sampler], f"{BEST_RATE[sampler]}"),),
    )


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


def performance(book: Book, model: str, sizes: list[int]) -> Chart:
    """All samplers: jump distance above, effective sample size below, a column a target."""
    everything = curves(book, model)
    found = {where: points for where, points in everything.items() if where[0].size in sizes}
    columns = list(dict.fromkeys(where[0] for where in found))
    panels = [_panel(found, column, metric) for metric in METRIC_WORDS for column in columns]
    named = ", ".join(size_words(model, size) for size in sizes)
    title = f"{TITLES[model]}, {named}: all samplers"
    name = "-".join([model, *map(str, sizes)])
    return Chart(name, title, panels, max(1, len(columns)))


def _panel(found: Curves, column: Column, metric: str) -> Panel:
    series = []
    size = size_words(column.model, column.size)
    for (where, sampler, balance), points in found.items():
        if where == column:
            color, marker = LOOKS[sampler, balance]
            made = [Point(p.rate, *p.metric(metric), p.cell) for p in points]
            name = sampler_name(sampler, balance)
            series.append(Series(name, made, color, marker))
    return Panel(
        title=size if column.model == "rbm" else CONFIG_WORDS[column.config],
        x=RATE_LABEL,
        y=METRIC_WORDS[metric],
        series=series,
        marks=BOTH,
        log="y",
    )
