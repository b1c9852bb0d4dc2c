"""Order of the scale, jump process, fair coins, sites needed."""

import numpy as np
from scipy.special import ndtri

from hopscale_reproduction.charts.chart import (
    MARKERS,
    RATE_LABEL,
    Chart,
    Mark,
    Panel,
    Point,
    Series,
    line,
)
from hopscale_reproduction.views import scaling, theorems
from hopscale_reproduction.views.book import Book
from hopscale_reproduction.words import STATISTIC_WORDS, TITLES

MODEL_LOOKS = {"bernoulli": ("blue", "o"), "ising": ("red", "s"), "fhmm": ("green", "^")}
HUES = ("blue", "sky", "green", "orange", "red", "pink")


def order(book: Book) -> Chart:
    """Figure 5: the best scale and the gain, against N."""
    found = scaling.growths(book)
    scales = [_growth(g) for g in found if g.quantity == scaling.LBP_SCALE]
    walks = [_growth(g, hollow=True) for g in found if g.quantity == scaling.RWM_SCALE]
    ratios = [_growth(g) for g in found if g.quantity == scaling.RATIO]
    panels = [
        Panel("best scale", "sites N", "R", _flat(scales + walks) + _slope(scales), log="xy",
              note="open: RWM"),
        Panel("gain", "sites N", "EJD of ALBP / ARWM", _flat(ratios) + _slope(ratios), log="xy"),
    ]  # fmt: skip
    return Chart("order", "Best scale and gain against the number of sites", panels, 2, height=2.9)


def _flat(groups: list[list[Series]]) -> list[Series]:
    return [series for group in groups for series in group]


def _growth(growth: scaling.Growth, hollow: bool = False) -> list[Series]:
    color, marker = MODEL_LOOKS[growth.model]
    points = [
        Point(n, v.mean, v.error, note=f"{TITLES[growth.model]}, N = {n:,}")
        for n, v in zip(growth.sites, growth.values, strict=True)
    ]
    made = [Series(TITLES[growth.model], points, color, marker, hollow)]
    if growth.fit is not None:
        ends = np.array([growth.sites[0], growth.sites[-1]], float)
        made.append(line("", ends, growth.fit.factor * ends**growth.fit.slope, color))
    return made


def _slope(groups: list[list[Series]]) -> list[Series]:
    """A line of slope 2/3, above the data."""
    points = [point for series in _flat(groups) for point in series.points]
    if not points:
        return []
    x = np.array([min(p.x for p in points), max(p.x for p in points)])
    height = 1.5 * max(p.y / p.x ** (2 / 3) for p in points)
    return [line("slope 2/3", x, height * x ** (2 / 3), "grey", "--")]


def jumps(book: Book) -> Chart:
    """1 / autocorrelation time against jump distance, a panel a test function."""
    panels = []
    for jump in theorems.jumps(book):
        best = int(np.argmax(jump.distance))
        made = [
            Point(x, y, e, cell)
            for x, y, e, (cell, _) in zip(
                jump.distance, jump.inverse_time, jump.errors, jump.cells, strict=True
            )
        ]
        ends = np.array([0.0, jump.distance.max()])
        panels.append(
            Panel(
                STATISTIC_WORDS[jump.statistic],
                "expected jump distance",
                "1 / autocorrelation time",
                [
                    line("proportional", ends, jump.factor * ends, "grey"),
                    Series("up to the best R", made[: best + 1], "blue", "o"),
                    Series("beyond it", made[best + 1 :], "red", "^", hollow=True),
                ],
                note=f"r = {jump.correlation:.3f}",
            )
        )
    return Chart("jumps", "Autocorrelation and jump distance across scales", panels, 3)


def fair(book: Book) -> Chart:
    """The random walk's curves near fair coins, each over its best."""
    groups: dict[int, list[theorems.Fair]] = {}
    for found in theorems.fairs(book):
        groups.setdefault(found.size, []).append(found)
    panels = []
    for size, members in groups.items():
        series = [_limit()]
        for i, member in enumerate(members):
            top = max(results["ejd"] for _, results in member.cells)
            points = [
                Point(r["acceptance"], r["ejd"] / top, r["ejd_error"] / top, cell)
                for cell, r in member.cells
            ]
            series.append(Series(f"β = {member.beta:g}", points, HUES[i], MARKERS[i]))
        title = f"N = {size:,}"
        panels.append(
            Panel(
                title,
                RATE_LABEL,
                "EJD / its best",
                series,
                (Mark("x", 0.234, "0.234"),),
                zero=False,
            )
        )
    return Chart("fair", "The random walk near fair coins", panels, 2)


def _limit() -> Series:
    """a s(a)^2 with a = 2 Phi(-s/2), over its best: the limit, whatever beta."""
    rates = np.linspace(0.07, 0.42, 60)
    curve = rates * ndtri(rates / 2) ** 2
    return line("limit", rates, curve / curve.max(), "grey")


def finite(book: Book) -> Chart:
    """Sites needed against epsilon, the paper's and ours."""
    found = theorems.needed(book)
    panels = []
    for case, title in (("half", "p = 1/2 - ε"), ("zero", "p = ε")):
        rows = [row for row in found if row.case == case]
        series = [
            Series(
                "paper", [Point(r.epsilon, r.paper, note="paper") for r in rows], "ink", "D", True
            )
        ]
        for path, color, marker in (("reversed", "blue", "o"), ("same", "red", "^")):
            points = [Point(r.epsilon, r.ours[path]) for r in rows]
            series.append(Series(f"ours, {path} order", points, color, marker))
        if rows:
            power = -2 if case == "half" else -1
            x = np.array([rows[0].epsilon, rows[-1].epsilon])
            factor = rows[-1].paper / rows[-1].epsilon ** power
            series.append(
                line("∝ 1/ε²" if case == "half" else "∝ 1/ε", x, factor * x**power, "grey", "--")
            )
        panels.append(Panel(title, "ε", "sites N", series, log="xy"))
    return Chart("finite", "Sites needed for the rate 0.574", panels, 2)
