"""How the best scale and the gain over the random walk grow with the number of sites."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hopscale_reproduction.experiments import order
from hopscale_reproduction.views.book import Book, Value, mean

LBP_SCALE, RWM_SCALE, RATIO = "R of LBP", "R of RWM", "EJD of LBP / RWM"


class Slope(NamedTuple):
    """A straight line through (log N, log y): y = factor N^slope."""

    slope: float
    error: float
    factor: float


class Growth(NamedTuple):
    """One quantity of one model over sizes."""

    model: str
    quantity: str
    sites: list[int]
    values: list[Value]
    fit: Slope | None
    upper: Slope | None  # through the larger half of the sizes


def growths(book: Book) -> list[Growth]:
    """Scales and ratios of every model that was run."""
    scales: dict[tuple[str, int, str], list] = {}
    distances: dict[tuple[str, int, str], list] = {}
    for cell, results in book.found("order"):
        where = (cell.model, cell.size, cell.sampler)
        scales.setdefault(where, []).append((results["scale"], 0.0))
        distances.setdefault(where, []).append((results["ejd"], results["ejd_error"]))
    found = []
    for model in dict.fromkeys(where[0] for where in scales):
        sizes = sorted({size for name, size, _ in scales if name == model})
        for quantity in (LBP_SCALE, RWM_SCALE, RATIO):
            pairs = [(size, _value(scales, distances, model, size, quantity)) for size in sizes]
            kept = [(order.sites(model, size), v) for size, v in pairs if v is not None]
            found.append(_growth(model, quantity, kept))
    return [growth for growth in found if growth.sites]


def _value(scales, distances, model: str, size: int, quantity: str) -> Value | None:
    if quantity != RATIO:
        return mean(scales.get((model, size, "lbp" if quantity == LBP_SCALE else "rwm"), ()))
    pair = [mean(distances.get((model, size, sampler), ())) for sampler in ("lbp", "rwm")]
    return None if pair[0] is None or pair[1] is None else pair[0].over(pair[1])


def _growth(model: str, quantity: str, kept: list[tuple[int, Value]]) -> Growth:
    sites = [n for n, _ in kept]
    values = [value for _, value in kept]
    half = len(kept) // 2
    return Growth(
        model=model,
        quantity=quantity,
        sites=sites,
        values=values,
        fit=slope(sites, [v.mean for v in values]),
        upper=slope(sites[half:], [v.mean for v in values[half:]]),
    )


def slope(sites: Sequence[float], values: Sequence[float]) -> Slope | None:
    """Least squares on logarithms; the error is by the scatter around the line."""
    if len(sites) < 3:
        return None
    x, y = np.log(sites), np.log(values)
    centred = x - x.mean()
    gradient = float(centred @ y / (centred @ centred))
    start = float(y.mean() - gradient * x.mean())
    left = y - start - gradient * x
    error = math.sqrt(float(left @ left) / (len(x) - 2) / float(centred @ centred))
    return Slope(gradient, error, math.exp(start))
