"""Performance curves, Figures 1 to 4 and the appendix's: efficiency against acceptance."""

import math
from typing import NamedTuple

import numpy as np

from hopscale_reproduction.cells import TUNED, Cell
from hopscale_reproduction.experiment import Results
from hopscale_reproduction.experiments.sampling.comparison import tables
from hopscale_reproduction.places import Column, column_of
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.values import Value, metric

NEAR_TOP = 0.8  # a curve's peak is fitted to points with at least this share of the best


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
    """The points of a model's first target by (column, sampler, balance), sorted by acceptance."""
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
    """The acceptance rate at which a curve peaks; None with too few points.

    It is the maximum of a cubic fitted to (rate, log of the metric) near the top. The error is that
    of the fit, from the scatter of the points around it.
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
    """The jump distance when tuned for the theory's rate, as a share of the curve's best."""
    values = [point.results["ejd"] for point in points]
    tuned = [point.results["ejd"] for point in points if point.cell.role == TUNED]
    return tuned[0] / max(values) if tuned and len(values) >= 6 else None
