"""Measured numbers with their errors."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hopscale_reproduction.cells import Cell


class Value(NamedTuple):
    """A measured number.

    `error` is its standard error: the Monte Carlo error and, over several targets, their spread.
    `spread` is the relative standard deviation over targets; NaN for a single target.
    """

    mean: float
    error: float
    spread: float = math.nan
    count: int = 1

    def over(self, other: "Value") -> "Value":
        """The ratio of two independent values."""
        ratio = self.mean / other.mean
        relative = math.hypot(self.error / self.mean, other.error / other.mean)
        return Value(ratio, abs(ratio) * relative, self.spread, self.count)


def mean(measured: Iterable[tuple[float, float]]) -> Value | None:
    """The mean over targets of (value, standard error) pairs; None if there are none."""
    pairs = np.array(list(measured), dtype=float).reshape(-1, 2)
    if not len(pairs):
        return None
    values, errors = pairs.T
    n, centre = len(values), float(values.mean())
    chance = float(np.sqrt(np.sum(errors**2)) / n)
    if n == 1:
        return Value(centre, chance)
    deviation = float(values.std(ddof=1))
    error = math.hypot(chance, deviation / math.sqrt(n))
    return Value(centre, error, deviation / abs(centre) if centre else math.nan, n)


def metric(cell: Cell, results: dict[str, Any], name: str) -> tuple[float, float]:
    """A result and its standard error: "ejd", "ess" (per draw), "acceptance" or "seconds"."""
    if name == "ess":
        return results["ess"] / cell.draws, results["ess_error"] / cell.draws
    if name == "seconds":
        return results["seconds"], 0.0
    return results[name], results[f"{name}_error"]
