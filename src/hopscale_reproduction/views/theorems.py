"""What bears on the theory alone: jump process, fair coins, sites needed."""

import math
from typing import Any, NamedTuple

import numpy as np

from hopscale_reproduction import tables
from hopscale_reproduction.cells import Cell
from hopscale_reproduction.experiments import fair, finite
from hopscale_reproduction.store import Store
from hopscale_reproduction.views.book import Book, Results, metric

PATHS = ("reversed", "same")
KIND = "finite"


class Jump(NamedTuple):
    """One test function over scales: 1 / autocorrelation time against jump distance."""

    statistic: str
    cells: list[tuple[Cell, Results]]
    distance: np.ndarray
    inverse_time: np.ndarray
    errors: np.ndarray
    correlation: float
    below: float  # the correlation over scales up to the best
    factor: float  # of the line through the origin
    misfit: float  # root mean square of its relative residuals
    best_rate: float  # acceptance at the scale with the shortest autocorrelation time


def jumps(book: Book) -> list[Jump]:
    """All test functions with three scales or more."""
    groups: dict[str, list[tuple[Cell, Results]]] = {}
    for cell, results in book.found("jumps"):
        groups.setdefault(cell.statistic, []).append((cell, results))
    return [_jump(name, cells) for name, cells in groups.items() if len(cells) >= 3]


def _jump(statistic: str, cells: list[tuple[Cell, Results]]) -> Jump:
    x = np.array([results["ejd"] for _, results in cells])
    y, errors = np.array([metric(cell, results, "ess") for cell, results in cells]).T
    factor = float(x @ y / (x @ x))
    top = int(np.argmax(x)) + 1
    return Jump(
        statistic=statistic,
        cells=cells,
        distance=x,
        inverse_time=y,
        errors=errors,
        correlation=_correlation(x, y),
        below=_correlation(x[:top], y[:top]),
        factor=factor,
        misfit=float(np.sqrt(np.mean((y / (factor * x) - 1.0) ** 2))),
        best_rate=cells[int(np.argmax(y))][1]["acceptance"],
    )


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's; NaN where there are too few points, or one of the two does not vary."""
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


class Fair(NamedTuple):
    """The random walk at one N and beta, over rates."""

    size: int
    beta: float
    cells: list[tuple[Cell, Results]]
    best: float | None  # rate; None where all N sites at once move furthest, or at an end
    scale: float | None  # tuned for 0.234


def fairs(book: Book) -> list[Fair]:
    """Near fair coins, by N and beta."""
    groups: dict[tuple[int, float], list[tuple[Cell, Results]]] = {}
    for cell, results in book.found("fair"):
        groups.setdefault((cell.size, dict(cell.options)["beta"]), []).append((cell, results))
    return [_fair(*where, cells) for where, cells in groups.items()]


def _fair(size: int, beta: float, cells: list[tuple[Cell, Results]]) -> Fair:
    rates = np.array([results["acceptance"] for _, results in cells])
    distance = np.array([results["ejd"] for _, results in cells])
    scales = [results["scale"] for cell, results in cells if cell.rate == 0.234]
    return Fair(
        size=size,
        beta=beta,
        cells=cells,
        best=_inside(rates, distance, np.array([r["scale"] < size for _, r in cells])),
        scale=scales[0] if scales else None,
    )


def _inside(rates: np.ndarray, distance: np.ndarray, free: np.ndarray) -> float | None:
    """The best rate, where the rates that were run enclose it.

    Scales that stopped at N are off the curve (`free` is false); the best must not be one of them.
    """
    if not free[np.argmax(distance)]:
        return None
    rates, distance = rates[free], distance[free]
    if len(np.unique(rates)) < 4:
        return None
    best = fair.best_rate(rates, distance)
    return best if rates.min() < best < rates.max() else None


class Needed(NamedTuple):
    """Sites needed for 0.574: the paper's number, ours for both ways back, and what is best.

    `best_rate` is the acceptance rate of the scale with the largest jump distance at the paper's
    number of sites, with the way back as in Eq. (4); None where all scales up to N are not needed.
    """

    case: str
    epsilon: float
    paper: int
    ours: dict[str, int]
    best_rate: float | None
    best_share: float | None  # of all sites, at that scale


CASES = {"half": finite.NEAR_HALF, "zero": finite.NEAR_ZERO}


def fill_needed(store: Store) -> None:
    """Compute the sites needed, unless the store has them."""
    for case, epsilons in CASES.items():
        for epsilon in epsilons:
            settings = _settings(case, epsilon)
            if store.get(settings) is None:
                store.put(settings, _compute(case, epsilon), kind=KIND)


def needed(book: Book) -> list[Needed]:
    """Both of the paper's tables, as far as computed."""
    rows = [row for row in book.rows if row["kind"] == KIND]
    kept = {(row["settings"]["case"], row["settings"]["epsilon"]): row["results"] for row in rows}
    return [
        Needed(
            case=case,
            epsilon=epsilon,
            paper=tables.sites(case, epsilon),
            **kept[case, epsilon],
        )
        for case, epsilons in CASES.items()
        for epsilon in epsilons
        if (case, epsilon) in kept
    ]


def _settings(case: str, epsilon: float) -> dict[str, Any]:
    return {"experiment": KIND, "case": case, "epsilon": epsilon, "rate": finite.RATE}


def _compute(case: str, epsilon: float) -> dict[str, Any]:
    p = 0.5 - epsilon if case == "half" else epsilon
    ours = {path: int(finite.needed(p, path)) for path in PATHS}
    best = best_scale(tables.sites(case, epsilon), p) if case == "half" else (None, None)
    return {"ours": ours, "best_rate": best[0], "best_share": best[1]}


def best_scale(n: int, p: float, samples: int = 10_000) -> tuple[float, float]:
    """Acceptance rate and R / N where R a(R) is largest, from cubics over scales near the top."""
    scales = np.unique(np.linspace(0.7 * n, n, 9).astype(int))
    rates = np.array([finite.rate(n, p, int(r), "reversed", samples) for r in scales])
    shares = scales / n
    fine = np.arange(scales[0], n + 1) / n
    distance = np.polyval(np.polyfit(shares, np.log(scales * rates), 3), fine)
    share = float(fine[np.argmax(distance)])
    return float(np.polyval(np.polyfit(shares, rates, 3), share)), share
