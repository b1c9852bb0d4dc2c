"""Jump distance as the measure to tune by (Appendix B.1).

The paper argues that, in the limit, each site is a jump process and the scale changes only its
speed. Then, across scales, the inverse autocorrelation time of every test function is
proportional to the expected jump distance.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hopscale import theory
from hopscale_reproduction.cells import Cell
from hopscale_reproduction.chart import Chart, Panel, Point, Series, line
from hopscale_reproduction.design import CHAINS
from hopscale_reproduction.experiment import Experiment, Find, Part
from hopscale_reproduction.formatting import STATISTIC_LABELS, number, percent, significant, span
from hopscale_reproduction.places import Run
from hopscale_reproduction.report.blocks import Block, Claim, Grid, Head, Picture, Text
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.values import metric

NAME = "jumps"
STATISTICS = ("hamming", "sum", "site", "pair", "log_prob")
P = 0.25
SIZES = {"quick": 100, "paper": 800}
DRAWS = {"quick": 2_000, "paper": 20_000}
SCALES = {"quick": 6, "paper": 12}


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """LBP at scales around the best one, once for each test function."""
    n, draws = SIZES[profile], DRAWS[profile]
    best = theory.optimal_scale(np.full(n, P), "lbp", balance="barker")
    for statistic in STATISTICS:
        for factor in np.geomspace(0.1, 2.2, SCALES[profile]):
            yield Cell(
                "identical",
                n,
                "",
                "lbp",
                "barker",
                detail="reversed",
                scale=round(float(np.clip(factor * best, 1, n)), 2),
                options=(("p", P),),
                statistic=statistic,
                warmup=min(draws // 2, 2_000),
                draws=draws,
                chains=CHAINS[profile],
            )


# Numbers


class Jump(NamedTuple):
    """One test function over scales: 1 / autocorrelation time against jump distance."""

    statistic: str
    runs: list[Run]
    distance: np.ndarray
    inverse_time: np.ndarray
    errors: np.ndarray
    correlation: float
    below: float  # the correlation over scales up to the best
    factor: float  # of the line through the origin
    misfit: float  # root mean square of its relative residuals
    best_rate: float  # acceptance at the scale with the shortest autocorrelation time


def jumps(snapshot: Snapshot) -> list[Jump]:
    """All test functions with at least three scales."""
    groups: dict[str, list[Run]] = {}
    for cell, results in snapshot.found(NAME):
        groups.setdefault(cell.statistic, []).append((cell, results))
    return [_jump(name, runs) for name, runs in groups.items() if len(runs) >= 3]


def _jump(statistic: str, runs: list[Run]) -> Jump:
    x = np.array([results["ejd"] for _, results in runs])
    y, errors = np.array([metric(cell, results, "ess") for cell, results in runs]).T
    factor = float(x @ y / (x @ x))
    top = int(np.argmax(x)) + 1
    return Jump(
        statistic=statistic,
        runs=runs,
        distance=x,
        inverse_time=y,
        errors=errors,
        correlation=_correlation(x, y),
        below=_correlation(x[:top], y[:top]),
        factor=factor,
        misfit=float(np.sqrt(np.mean((y / (factor * x) - 1.0) ** 2))),
        best_rate=runs[int(np.argmax(y))][1]["acceptance"],
    )


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's; NaN where there are too few points, or one of the two does not vary."""
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


# Figure


def chart(snapshot: Snapshot) -> Chart:
    """1 / autocorrelation time against jump distance, one panel per test function."""
    panels = []
    for jump in snapshot.once(jumps):
        best = int(np.argmax(jump.distance))
        points = [
            Point(x, y, e, cell)
            for x, y, e, (cell, _) in zip(
                jump.distance, jump.inverse_time, jump.errors, jump.runs, strict=True
            )
        ]
        ends = np.array([0.0, jump.distance.max()])
        panels.append(
            Panel(
                f"{STATISTIC_LABELS[jump.statistic]} (r = {jump.correlation:.3f})",
                "expected jump distance",
                "1 / autocorrelation time",
                [
                    line("proportional", ends, jump.factor * ends, "grey"),
                    Series("up to the best R", points[: best + 1], "blue", "o"),
                    Series("beyond the best R", points[best + 1 :], "red", "^", hollow=True),
                ],
            )
        )
    return Chart(NAME, "Autocorrelation and jump distance across scales", panels, 3)


# Report


def claim(snapshot: Snapshot) -> Claim:
    text = "Across scales, 1 / autocorrelation time is proportional to the jump distance"
    found = snapshot.once(jumps)
    everywhere = [jump.correlation for jump in found if not math.isnan(jump.correlation)]
    below = [jump.below for jump in found if not math.isnan(jump.below)]
    if not everywhere:
        why = "Too few scales were run for a correlation."
        return Claim.unanswered(NAME, text, bool(snapshot.found(NAME)), why)
    said = f"The correlation is {span(everywhere, 2)} over {len(everywhere)} test functions"
    if below:
        said += f", and {span(below, 3)} up to the best scale"
    status = "yes" if min(everywhere) > 0.95 else "partly" if max(everywhere) > 0.5 else "no"
    return Claim(NAME, text, f"{said}.", status)


def blocks(snapshot: Snapshot) -> list[Block]:
    found = snapshot.once(jumps)
    rows = [
        [
            STATISTIC_LABELS[jump.statistic],
            f"{jump.correlation:.3f}",
            number(jump.below),
            significant(jump.factor),
            percent(jump.misfit),
            f"{jump.best_rate:.3f}",
        ]
        for jump in found
    ]
    heads = ["test function", "r", "r up to the best R", "factor", "misfit", "shortest at"]
    size = f"N = {found[0].runs[0][0].size}" if found else "the profile's N"
    return [
        Head(NAME, "Jump distance as the measure"),
        Text(
            "The paper argues (Appendix B.1) that, in the limit, a site is a jump process and the "
            "scale changes only its speed. Then, across scales, the inverse autocorrelation time "
            "of every test function is proportional to the jump distance. These runs have "
            f"independent bits with p = 1/4, {size}, and LBP with scales from a tenth of the best "
            "to twice the best. "
            + _beyond_the_best(found)
            + "With all p equal, the log-probability is a linear function of the number of ones, "
            "so these two coincide."
        ),
        Picture(
            chart(snapshot),
            "Inverse autocorrelation time against jump distance. The line through the origin is "
            "fitted to all scales.",
        ),
        Grid(
            "Proportionality across scales: the correlation r, the fitted factor, the misfit (root "
            "mean square of relative residuals), and the acceptance rate at which the "
            "autocorrelation time is shortest.",
            heads,
            rows,
        ),
    ]


def _beyond_the_best(found: list[Jump]) -> str:
    below = [jump.below for jump in found]
    if not found or not min(below) > 0.95 or min(j.correlation for j in found) > 0.95:
        return ""
    return (
        "Up to the best scale the proportionality holds. Beyond it, chains stay in a state for a "
        "long time, and the same jump distance comes with a longer autocorrelation time. "
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="Jump process",
    cells=cells,
    parts=(Part("theory", NAME, blocks),),
    claims=(claim,),
)
