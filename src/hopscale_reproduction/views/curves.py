"""Performance curves: jump distance and effective sample size against acceptance."""

import math
from typing import NamedTuple

import numpy as np

from hopscale_reproduction.cells import Cell
from hopscale_reproduction.views.book import Book, Results, Value, metric
from hopscale_reproduction.views.names import Column, column_of

NEAR_TOP = 0.8  # a parabola is fitted to what is at least this much of the best


class Point(NamedTuple):
    cell: Cell
    results: Results

    @property
    def rate(self) -> float:
        return self.results["acceptance"]

    def metric(self, name: str) -> tuple[float, float]:
        return metric(self.cell, self.results, name)


Curves = dict[tuple[Column, str, str], list[Point]]


def curves(book: Book, model: str) -> Curves:
    """All points of a model's first target, by (column, sampler, balance), by acceptance."""
    found: Curves = {}
    for cell, results in book.found(model):
        if cell.instance == 0:
            where = (column_of(cell), cell.sampler, cell.balance)
            found.setdefault(where, []).append(Point(cell, results))
    return {where: sorted(points, key=lambda p: p.rate) for where, points in found.items()}


def peak(points: list[Point], name: str = "ejd") -> Value | None:
    """The acceptance rate at which a curve has its top; None with too few points.

    Where a cubic through (rate, log of the metric) near the top has its maximum; the error is
    that of the fit, by the scatter of the points around it.
    """
    rates = np.array([point.rate for point in points])
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


def share_of_best(points: list[Point], rate: float) -> float | None:
    """The jump distance at the theory's rate over the best of the curve."""
    values = [point.results["ejd"] for point in points]
    at = [point.results["ejd"] for point in points if point.cell.rate == rate]
    return at[0] / max(values) if at and len(values) >= 6 else None
