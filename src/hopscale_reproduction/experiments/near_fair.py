"""The random walk on targets that approach fair coins (Theorem 2).

With |p - 1/2| of order $N^{-\\beta}$ the best scale is of order $N^{2\\beta}$, and the best
acceptance rate is 0.234 for every $\\beta$. Small $\\beta$ needs large N: at $\\beta = 0$ the scale
stays a small integer.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from hopscale_reproduction.cells import GRID, TUNED, Cell
from hopscale_reproduction.chart import (
    MARKERS,
    RATE_LABEL,
    Chart,
    Mark,
    Panel,
    Point,
    Series,
    line,
)
from hopscale_reproduction.design import BEST_RATE, CHAINS
from hopscale_reproduction.experiment import Experiment, Find, Part
from hopscale_reproduction.formatting import number
from hopscale_reproduction.places import Run
from hopscale_reproduction.report.blocks import Block, Grid, Head, Picture, Text
from hopscale_reproduction.snapshot import Snapshot

NAME = "near-fair"
BETAS = (0.0, 0.1, 0.2, 0.3)
BEST = BEST_RATE["rwm"]
STEPS = range(-4, 5)  # of rates around the best one
RATES = tuple(round(BEST + 0.035 * step, 3) for step in STEPS)
EVERY = {"quick": 2, "paper": 1}
SIZES = {"quick": (100, 400), "paper": (100, 400, 1600, 6400)}
LENGTHS = {"quick": 1_500, "paper": 20_000}
HUES = ("blue", "sky", "green", "orange", "red", "pink")


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """RWM tuned for rates around 0.234."""
    for size in SIZES[profile]:
        for beta in BETAS:
            for step, rate in list(zip(STEPS, RATES, strict=True))[:: EVERY[profile]]:
                yield Cell(
                    "nearly_fair",
                    size,
                    "",
                    "rwm",
                    rate=rate,
                    options=(("beta", beta),),
                    warmup=LENGTHS[profile],
                    draws=LENGTHS[profile],
                    chains=CHAINS[profile],
                    role=TUNED if step == 0 else GRID,
                )


# Numbers


class NearFair(NamedTuple):
    """The random walk at one N and beta, over rates."""

    size: int
    beta: float
    runs: list[Run]
    best: float | None  # rate; None if it is at an end, or if changing all N sites moves furthest
    scale: float | None  # tuned for 0.234


def curves(snapshot: Snapshot) -> list[NearFair]:
    """All curves, by N and beta."""
    groups: dict[tuple[int, float], list[Run]] = {}
    for cell, results in snapshot.found(NAME):
        groups.setdefault((cell.size, dict(cell.options)["beta"]), []).append((cell, results))
    return [_curve(*where, runs) for where, runs in groups.items()]


def _curve(size: int, beta: float, runs: list[Run]) -> NearFair:
    rates = np.array([results["acceptance"] for _, results in runs])
    distance = np.array([results["ejd"] for _, results in runs])
    scales = [results["scale"] for cell, results in runs if cell.role == TUNED]
    return NearFair(
        size=size,
        beta=beta,
        runs=runs,
        best=_inside(rates, distance, np.array([r["scale"] < size for _, r in runs])),
        scale=scales[0] if scales else None,
    )


def _inside(rates: np.ndarray, distance: np.ndarray, free: np.ndarray) -> float | None:
    """The best rate, if the rates that were run enclose it; None otherwise.

    Scales that stopped at N are off the curve (`free` is false); the best must not be one of them.
    """
    if not free[np.argmax(distance)]:
        return None
    rates, distance = rates[free], distance[free]
    if len(np.unique(rates)) < 4:
        return None
    best = best_rate(rates, distance)
    return best if rates.min() < best < rates.max() else None


def best_rate(rates: np.ndarray, ejd: np.ndarray) -> float:
    """The maximum of a cubic through (rate, log EJD); a cubic, as the curves are asymmetric."""
    fine = np.linspace(np.min(rates), np.max(rates), 2_001)
    return float(fine[np.argmax(np.polyval(np.polyfit(rates, np.log(ejd), 3), fine))])


# Figure


def chart(snapshot: Snapshot) -> Chart:
    """The random walk's curves near fair coins, each divided by its best."""
    groups: dict[int, list[NearFair]] = {}
    for found in snapshot.once(curves):
        groups.setdefault(found.size, []).append(found)
    panels = []
    for size, members in groups.items():
        series = [_limit()]
        for i, member in enumerate(members):
            top = max(results["ejd"] for _, results in member.runs)
            points = [
                Point(r["acceptance"], r["ejd"] / top, r["ejd_error"] / top, cell)
                for cell, r in member.runs
            ]
            series.append(Series(f"β = {member.beta:g}", points, HUES[i], MARKERS[i]))
        mark = Mark("x", BEST, f"{BEST}")
        title = f"N = {size:,}"
        panels.append(Panel(title, RATE_LABEL, "EJD / its best", series, (mark,), zero=False))
    return Chart(NAME, "The random walk near fair coins", panels, 2)


def _limit() -> Series:
    """The limit for every beta: a s(a)^2 with a = 2 Phi(-s/2), divided by its best."""
    rates = np.linspace(0.07, 0.42, 60)
    curve = rates * ndtri(rates / 2) ** 2
    return line("limit", rates, curve / curve.max(), "grey")


# Report


def blocks(snapshot: Snapshot) -> list[Block]:
    found = snapshot.once(curves)
    betas = sorted({curve.beta for curve in found})
    rows = []
    for size in dict.fromkeys(curve.size for curve in found):
        by_beta = {curve.beta: curve for curve in found if curve.size == size}
        rows.append([f"N = {size:,}", *(_best(by_beta.get(beta)) for beta in betas)])
    heads = ["sites", *(f"β = {beta:g}" for beta in betas)]
    return [
        Head(NAME, "The random walk near fair coins"),
        Text(
            "Theorem 2 is about targets whose p approach 1/2 as N^(-β). There the random walk's "
            "best scale grows as N^(2β), and its best acceptance rate is 0.234 for every β. The "
            "grey line is the limit. If changing all N sites at once moves furthest, there is no "
            "best rate, and the table has a dash."
        ),
        Picture(chart(snapshot), "Jump distance of RWM, relative to its best, against acceptance."),
        Grid(
            "Best acceptance rate (from a cubic through all rates), and R when tuned for 0.234.",
            heads,
            rows,
        ),
    ]


def _best(found: NearFair | None) -> str:
    if found is None:
        return "not run"
    scale = "–" if found.scale is None else f"{found.scale:.1f}"
    return f"{number(found.best)} (R = {scale})"


EXPERIMENT = Experiment(
    name=NAME, title="RWM near fair coins", cells=cells, parts=(Part("theory", NAME, blocks),)
)
