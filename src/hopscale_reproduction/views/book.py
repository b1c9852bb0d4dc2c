"""A store, read once, as one profile's experiments see it."""

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hopscale_reproduction.cells import Cell, digest
from hopscale_reproduction.experiments import EXPERIMENTS
from hopscale_reproduction.store import Row, Store

Results = dict[str, Any]
_BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}


class Value(NamedTuple):
    """A measured number.

    `error` is its standard error: Monte Carlo's and, over several targets, their spread.
    `spread` is the relative standard deviation over targets, NaN with one.
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


class Book:
    """The cells of a store.

    Args:
        store: read here and not again.
        profile: whose cells the experiments list.
    """

    def __init__(self, store: Store, profile: str):
        self.profile = profile
        self.rows = store.rows()
        self._rows = {digest(row["settings"]): row for row in self.rows}
        self._cells = functools.cache(self._list)

    def get(self, settings: dict[str, Any]) -> Results | None:
        """The results that are stored for these settings; None if there are none."""
        row = self._rows.get(digest(settings))
        return None if row is None else row["results"]

    def find(self, cell: Cell) -> Results | None:
        """The results of a cell; None if it was not run."""
        return self.get(cell.settings())

    def cells(self, experiment: str) -> tuple[Cell, ...]:
        """The cells that this profile has of an experiment, run or not."""
        return self._cells(experiment)

    def found(self, experiment: str) -> list[tuple[Cell, Results]]:
        """Those of them that were run, with their results."""
        pairs = ((cell, self.find(cell)) for cell in self.cells(experiment))
        return [(cell, results) for cell, results in pairs if results is not None]

    def shown(self) -> list[Row]:
        """The runs that are cells of this profile."""
        cells = dict.fromkeys(cell for name in _BY_NAME for cell in self.cells(name))
        rows = (self._rows.get(digest(cell.settings())) for cell in cells)
        return [row for row in rows if row is not None]

    def _list(self, experiment: str) -> tuple[Cell, ...]:
        if experiment not in _BY_NAME:
            return ()
        return tuple(dict.fromkeys(_BY_NAME[experiment].cells(self.profile, self.find)))


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


def metric(cell: Cell, results: Results, name: str) -> tuple[float, float]:
    """A result and its standard error: "ejd", "ess" (a kept draw), "acceptance" or "seconds"."""
    if name == "ess":
        return results["ess"] / cell.draws, results["ess_error"] / cell.draws
    if name == "seconds":
        return results["seconds"], 0.0
    return results[name], results[f"{name}_error"]
