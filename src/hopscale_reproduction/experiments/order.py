r"""How the best scale and its gain grow with the number of sites (Figure 5).

The theory says $R \propto N^{2/3}$ for LBP and $O(1)$ for RWM, so the ratio of their jump
distances grows as $N^{2/3}$ too.

It is about independent sites. Where sites are coupled, those that change together add to the log
acceptance ratio what no weight of a single site could foresee. Of R sites out of N, some $R^2 / N$
pairs are coupled, so its variance is

$$s^2 = a \frac{R^3}{N^2} + b \frac{R^2}{N},$$

and R grows as $N^{1/2}$ in the end. For g = sqrt(t) and couplings of pairs b is 0: with
$\Delta_i$ the log-ratio of changing site i alone, $\log \pi(y) - \log \pi(x) = \frac12
\sum_i (\Delta_i(x) - \Delta_i(y))$, which is what the weights of both ways add up to.
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, nnls
from scipy.special import ndtri

from hopscale_reproduction.cells import Cell, table_cell
from hopscale_reproduction.chart import Chart, Panel, Point, Series, line
from hopscale_reproduction.design import BEST_RATE, CHAINS, MAIN, tuned
from hopscale_reproduction.experiment import Experiment, Find, Part
from hopscale_reproduction.fits import Slope, slope
from hopscale_reproduction.formatting import TITLES, percent, plus_minus, significant
from hopscale_reproduction.report.blocks import Block, Claim, Grid, Picture, Text
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.values import Value, mean

NAME = "order"
CONFIG = "C2"
SIZES = {
    "quick": {
        "bernoulli": (100, 200, 400, 800),
        "ising": (10, 14, 20, 28),
        "fhmm": (20, 40, 80, 160),
    },
    "paper": {
        "bernoulli": (50, 100, 200, 400, 800, 1600, 3200, 6400),
        "ising": (7, 10, 14, 20, 28, 40, 56, 80, 100),
        "fhmm": (10, 20, 40, 80, 160, 320, 640, 1280),
    },
}
INSTANCES = {"quick": 1, "paper": 3}
DRAWS = {"quick": 1_000, "paper": 4_000}
FEWEST_SIZES = 3  # for a slope with an error
FEW_SIZES = 4  # up to this number, the error of a slope is pooled over all models
NEAR = 0.05  # a slope this close to the theory's counts as the same
LBP_SCALE, RWM_SCALE, RATIO = "R of LBP", "R of RWM", "EJD of LBP / RWM"
LOOKS = {"bernoulli": ("blue", "o"), "ising": ("red", "s"), "fhmm": ("green", "^")}


def sites(model: str, size: int) -> int:
    """N: the number of bits of a target of this size."""
    return {"bernoulli": size, "ising": size * size, "fhmm": 5 * size}[model]


def warmup(n: int, sampler: str) -> int:
    """Warm-up long enough for equilibrium: some changes of every site, and of the scale."""
    return max(2_000, 3 * n // 2 if sampler == "rwm" else 10 * round(n ** (2 / 3)))


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """Tuned LBP and RWM over sizes."""
    for model, sizes in SIZES[profile].items():
        for size in sizes:
            for sampler, balance in MAIN:
                for instance in range(1 if model == "bernoulli" else INSTANCES[profile]):
                    yield tuned(
                        table_cell(
                            model,
                            size,
                            CONFIG,
                            sampler,
                            balance,
                            instance=instance,
                            warmup=warmup(sites(model, size), sampler),
                            draws=DRAWS[profile],
                            chains=CHAINS[profile],
                        )
                    )


# Numbers


class Growth(NamedTuple):
    """One quantity of one model as a function of size."""

    model: str
    quantity: str
    sites: list[int]
    values: list[Value]
    fit: Slope | None
    upper: Slope | None  # through the larger half of the sizes, at least three


def growths(snapshot: Snapshot) -> list[Growth]:
    """Scales and ratios of every model that was run."""
    scales: dict[tuple[str, int, str], list] = {}
    distances: dict[tuple[str, int, str], list] = {}
    for cell, results in snapshot.found(NAME):
        where = (cell.model, cell.size, cell.sampler)
        scales.setdefault(where, []).append((results["scale"], 0.0))
        distances.setdefault(where, []).append((results["ejd"], results["ejd_error"]))
    found = []
    for model in dict.fromkeys(where[0] for where in scales):
        sizes = sorted({size for name, size, _ in scales if name == model})
        for quantity in (LBP_SCALE, RWM_SCALE, RATIO):
            pairs = [(size, _value(scales, distances, model, size, quantity)) for size in sizes]
            measured = [(sites(model, size), v) for size, v in pairs if v is not None]
            found.append(_growth(model, quantity, measured))
    return [_pooled(growth, found) for growth in found if growth.sites]


def _value(scales, distances, model: str, size: int, quantity: str) -> Value | None:
    if quantity != RATIO:
        return mean(scales.get((model, size, "lbp" if quantity == LBP_SCALE else "rwm"), ()))
    pair = [mean(distances.get((model, size, sampler), ())) for sampler in ("lbp", "rwm")]
    return None if pair[0] is None or pair[1] is None else pair[0].over(pair[1])


def _growth(model: str, quantity: str, measured: list[tuple[int, Value]]) -> Growth:
    numbers = [n for n, _ in measured]
    values = [value for _, value in measured]
    larger = max(FEWEST_SIZES, -(-len(measured) // 2))
    return Growth(
        model=model,
        quantity=quantity,
        sites=numbers,
        values=values,
        fit=slope(numbers, [v.mean for v in values]),
        upper=slope(numbers[-larger:], [v.mean for v in values[-larger:]]),
    )


def _pooled(growth: Growth, every: list[Growth]) -> Growth:
    """With few sizes, take the error of the larger half's slope from the scatter of all models.

    The scatter around one line says little then.
    """
    mine, alike = growth.upper, [g for g in every if g.quantity == growth.quantity]
    slopes = [g.upper for g in alike if g.upper is not None]
    if mine is None or len(growth.sites) > FEW_SIZES:
        return growth
    error = float(np.sqrt(np.mean([slope.error**2 for slope in slopes])))
    return growth._replace(upper=mine._replace(error=max(error, mine.error)))


class Coupled(NamedTuple):
    """The variance $s^2 = a R^3 / N^2 + b R^2 / N$ fitted to the scales of LBP.

    `misfit` is how far its R are off at most, as a share; `misfit_of_power` is that of one power.
    """

    a: float
    b: float
    misfit: float
    misfit_of_power: float


def coupled(growth: Growth) -> Coupled:
    """Least squares for a and b of at least 0; s is that of the acceptance rate held."""
    n, scale = np.array(growth.sites, float), np.array([v.mean for v in growth.values])
    square = 4 * ndtri(BEST_RATE["lbp"] / 2) ** 2
    terms = np.stack([scale**3 / n**2, scale**2 / n], axis=1)
    (a, b), _ = nnls(terms, np.full(len(n), square))
    fitted = [brentq(lambda r, m=m: a * r**3 / m**2 + b * r**2 / m - square, 0, 100 * m) for m in n]
    power = growth.fit.factor * n**growth.fit.slope if growth.fit else np.full(len(n), math.nan)
    return Coupled(a, b, *(float(np.max(np.abs(scale / r - 1))) for r in (fitted, power)))


# Figure


def chart(snapshot: Snapshot) -> Chart:
    """Figure 5: the best scale and the gain, against N."""
    found = snapshot.once(growths)
    scales = [_series(g) for g in found if g.quantity == LBP_SCALE]
    walks = [_series(g, hollow=True) for g in found if g.quantity == RWM_SCALE]
    ratios = [_series(g) for g in found if g.quantity == RATIO]
    panels = [
        Panel("best scale (open: RWM)", "sites N", "R", _flat(scales + walks) + _guide(scales),
              log="xy"),
        Panel("gain", "sites N", "EJD of ALBP / ARWM", _flat(ratios) + _guide(ratios), log="xy"),
    ]  # fmt: skip
    return Chart(NAME, "Best scale and gain against the number of sites", panels, 2, height=2.9)


def _flat(groups: list[list[Series]]) -> list[Series]:
    return [series for group in groups for series in group]


def _series(growth: Growth, hollow: bool = False) -> list[Series]:
    color, marker = LOOKS[growth.model]
    points = [
        Point(n, v.mean, v.error, note=f"{TITLES[growth.model]}, N = {n:,}")
        for n, v in zip(growth.sites, growth.values, strict=True)
    ]
    drawn = [Series(TITLES[growth.model], points, color, marker, hollow)]
    if growth.fit is not None:
        ends = np.array([growth.sites[0], growth.sites[-1]], float)
        drawn.append(line("", ends, growth.fit.factor * ends**growth.fit.slope, color))
    return drawn


def _guide(groups: list[list[Series]]) -> list[Series]:
    """A line of slope 2/3, above the data."""
    points = [point for series in _flat(groups) for point in series.points]
    if not points:
        return []
    x = np.array([min(p.x for p in points), max(p.x for p in points)])
    height = 1.5 * max(p.y / p.x ** (2 / 3) for p in points)
    return [line("slope 2/3", x, height * x ** (2 / 3), "grey", "--")]


# Report


def claim(quantity: str, name: str, text: str, snapshot: Snapshot) -> Claim:
    found = [g for g in snapshot.once(growths) if g.quantity == quantity]
    slopes = [(g.model, g.upper) for g in found if g.upper is not None]
    if not slopes:
        why = "Too few sizes were run for a slope."
        return Claim.unanswered(name, text, bool(found), why)
    said = ", ".join(f"{TITLES[m]} {s.slope:.3f} ± {s.error:.3f}" for m, s in slopes)
    close = [abs(s.slope - 2 / 3) <= NEAR for _, s in slopes]
    status = "yes" if all(close) else "partly" if any(close) else "no"
    if not all(close) and any(s.error > NEAR for _, s in slopes):
        status = "too short"  # the errors exceed the difference to be detected
    return Claim(name, text, f"Slopes over the larger half of the sizes: {said}.", status)


def blocks(snapshot: Snapshot) -> list[Block]:
    rows = [
        [
            f"{TITLES[g.model]}: {g.quantity}",
            f"{g.sites[0]:,} to {g.sites[-1]:,}",
            "0" if g.quantity == RWM_SCALE else "2/3",
            *(plus_minus(Value(s.slope, s.error), 3) if s else "–" for s in (g.fit, g.upper)),
        ]
        for g in snapshot.once(growths)
    ]
    heads = ["quantity", "sites", "theory", "slope", "slope, larger half"]
    return [
        Text(
            "Adaptive LBP and RWM in configuration C2, on targets of increasing size. Lines are "
            "least-squares fits to logarithms; their errors come from the scatter around them. "
            "Small targets have not reached the limit, so the slope through the larger half of the "
            "sizes is given beside that through all." + _first_step(snapshot)
        ),
        *_pairs(snapshot),
        Picture(chart(snapshot), "Figure 5. Best scale, and gain over the random walk, against N."),
        Grid("Slopes on log-log axes.", heads, rows),
    ]


def _first_step(snapshot: Snapshot) -> str:
    """The reason why the random walk's R grows with the size of small FHMMs, if it does."""
    for g in snapshot.once(growths):
        if (g.model, g.quantity) == ("fhmm", RWM_SCALE) and g.fit and g.fit.slope > 0.05:
            return (
                " On the FHMM, the R of RWM grows with size. In the model behind the tables, the "
                "first time step favours 1 by nine to one. It makes up one in "
                f"{g.sites[0] // 5} sites of the smallest target, and one in "
                f"{g.sites[-1] // 5:,} of the largest. So it lowers R most on the small targets, "
                "which shows in the gain too."
            )
    return ""


def _pairs(snapshot: Snapshot) -> list[Block]:
    """The reason why the slope falls with the size of Ising models, if pairs explain it."""
    for g in snapshot.once(growths):
        if (g.model, g.quantity) == ("ising", LBP_SCALE) and g.fit and len(g.sites) > FEW_SIZES:
            found = coupled(g)
            if found.b > 0 and found.misfit < found.misfit_of_power:
                return [
                    Text(
                        "On Ising models and FHMMs the slope falls below 2/3 as N grows, because "
                        "sites are coupled. Of the sites that a step changes, some R^2/N pairs "
                        "are neighbours, and each adds to the log acceptance ratio. With a "
                        "variance of a R^3/N^2 + b R^2/N, which is the theory's but for the "
                        "second term, the fitted R of Ising models are off by at most "
                        f"{percent(found.misfit)}; those of a power of N, by "
                        f"{percent(found.misfit_of_power)} (b = {significant(found.b, 2)}). In "
                        "the end R then grows as N^(1/2), and the best rate falls from 0.574 to "
                        "0.452. With √t the pairs cancel, so N^(2/3) and 0.574 remain."
                    )
                ]
    return []


EXPERIMENT = Experiment(
    name=NAME,
    title="Order of the scale",
    cells=cells,
    parts=(Part("order", NAME, blocks),),
    claims=(
        functools.partial(
            claim, LBP_SCALE, "scale-order", "The best scale of LBP grows as N^(2/3)"
        ),
        functools.partial(claim, RATIO, "gain-order", "LBP's gain over RWM grows as N^(2/3)"),
    ),
)
