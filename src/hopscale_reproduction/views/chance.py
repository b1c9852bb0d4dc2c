r"""The luck of the draw: how far a printed number would move had p been drawn again.

The best jump distance of RWM goes as $1 / \sum_i (2 p_i - 1) \log \frac{p_i}{1 - p_i}$, that of
LBP as $\lambda_1^{-2/3}$. Both are functions of averages over sites, so their relative standard
deviation over draws of p falls as $N^{-1/2}$.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from hopscale.paper.instances import INTERVAL
from hopscale_reproduction import tables
from hopscale_reproduction.cells import Cell
from hopscale_reproduction.views.book import Book, Results, Value, mean, metric
from hopscale_reproduction.views.names import Column, Method, column_of, method_of

ROUNDING = 0.01 / math.sqrt(12.0)  # standard deviation of what two decimals leave out
_SITES, _DRAWS = 400, 2_000  # of the draws that measure the spread at one size


class Luck(NamedTuple):
    """One printed number among draws of p, or of the field.

    Args:
        column, method: where it stands.
        printed: the paper's jump distance.
        ours: mean over draws of the target's parameters.
        runs: ours, a cell a draw.
        predicted: the relative standard deviation over draws that the theory gives.
    """

    column: Column
    method: Method
    printed: float
    ours: Value
    runs: list[tuple[Cell, Results]]
    predicted: float

    @property
    def z(self) -> float:
        """The printed number's distance from ours, in standard deviations of one draw.

        Printed numbers are rounded to two decimals, which counts too.
        """
        draw = self.ours.spread * math.sqrt(1.0 + 1.0 / self.ours.count)
        spread = math.hypot(draw, ROUNDING / self.ours.mean)
        return (self.printed / self.ours.mean - 1.0) / spread


def table(book: Book) -> list[Luck]:
    """All columns that were run over several draws."""
    runs: dict[tuple[Column, Method], list[tuple[Cell, Results]]] = {}
    for cell, results in book.found("luck"):
        runs.setdefault((column_of(cell), method_of(cell)), []).append((cell, results))
    found = []
    for (column, method), mine in runs.items():
        printed = tables.value(*column, *method, "ejd")
        ours = mean(metric(*run, "ejd") for run in mine)
        if printed is not None and ours is not None and ours.count > 1:
            spread = predicted(*column, method)
            found.append(Luck(column, method, printed, ours, mine, spread))
    return found


def spread_at(found: list[Luck], column: Column, method: Method) -> float:
    """The relative standard deviation over draws; NaN where neither theory nor runs give it.

    For Ising fields it is that of the size that was drawn many times, and falls as one over the
    lattice's side. A grid moves as the tuned scale does.
    """
    if column.model == "bernoulli":
        return predicted(*column, method)
    drawn = method._replace(variant="adaptive") if method.variant == "grid" else method
    for item in found:
        if (item.column.model, item.column.config, item.method) == (
            column.model, column.config, drawn,
        ):  # fmt: skip
            return item.ours.spread * item.column.size / column.size
    return math.nan


def predicted(model: str, size: int, config: str, method: Method) -> float:
    """The relative standard deviation of the jump distance over draws of p, by the theory.

    GWG has no theory; its spread is taken to be that of LBP. With R = 1, GWG and LBP accept
    almost always and have none. There is none for other models than Bernoulli: NaN.
    """
    if model != "bernoulli":
        return math.nan
    if method.variant == "fixed-1":
        return _spread("single", "", config, size) if method.sampler == "rwm" else 0.0
    kind = "walk" if method.sampler == "rwm" else "balanced"
    return _spread(kind, method.balance, config, size)


def _spread(kind: str, balance: str, config: str, size: int) -> float:
    return _at_reference(kind, balance, config) * math.sqrt(_SITES / size)


@functools.cache
def _at_reference(kind: str, balance: str, config: str) -> float:
    """At N = 400, over 2,000 draws."""
    low, high = INTERVAL[config]
    p = np.random.default_rng(0).uniform(low, high, (_DRAWS, _SITES))
    distance = {"single": _single, "walk": _walk, "balanced": _balanced}[kind](p, balance)
    return float(distance.std(ddof=1) / distance.mean())


def _single(p: np.ndarray, balance: str) -> np.ndarray:
    return np.mean(2.0 * np.minimum(p, 1.0 - p), axis=1)


def _walk(p: np.ndarray, balance: str) -> np.ndarray:
    return 1.0 / np.mean((2.0 * p - 1.0) * np.log(p / (1.0 - p)), axis=1)


def _balanced(p: np.ndarray, balance: str) -> np.ndarray:
    """lambda_1^(-2/3), up to a constant."""
    w_0, w_1 = (p, 1.0 - p) if balance == "barker" else (np.sqrt(p / (1 - p)), np.sqrt((1 - p) / p))
    flow = p * w_1
    square = np.sum(flow * (w_0 - w_1) ** 2, axis=1) / np.sum(flow, axis=1)
    return (np.sqrt(square) / np.mean(flow, axis=1)) ** (-2.0 / 3.0)
