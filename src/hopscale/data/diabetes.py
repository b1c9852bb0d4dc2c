"""A regression problem that comes with the package."""

from importlib import resources
from typing import NamedTuple

import numpy as np


class Regression(NamedTuple):
    """Columns that might explain a response.

    Args:
        X: (n, p), each column of mean 0 and variance 1.
        y: the response, (n,), scaled likewise.
        names: the names of the columns.
    """

    X: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]

    def __repr__(self) -> str:
        n, p = self.X.shape
        return f"Regression({n:,} observations of {p} columns)"


def diabetes(interactions: bool = False) -> Regression:
    """Ten measurements of 442 patients, and how far diabetes had gone a year later.

    B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, *Least Angle Regression*, 2004.

    Args:
        interactions: add products and squares, 64 columns in all. Sex has two values and no square.
    """
    file = resources.files("hopscale.data").joinpath("diabetes.csv")
    _, heads, *lines = file.read_text(encoding="utf-8").splitlines()
    data, names = _scaled(np.loadtxt(lines, delimiter=",")), heads.split(",")[:-1]
    X, y = data[:, :-1], data[:, -1]
    if not interactions:
        return Regression(X, y, tuple(names))
    p = len(names)
    pairs = [(i, j) for i in range(p) for j in range(i, p) if names[i] + names[j] != "sexsex"]
    products = np.stack([X[:, i] * X[:, j] for i, j in pairs], axis=1)
    named = [f"{names[i]}*{names[j]}" if i != j else f"{names[i]}^2" for i, j in pairs]
    return Regression(_scaled(np.concatenate([X, products], axis=1)), y, (*names, *named))


def _scaled(columns: np.ndarray) -> np.ndarray:
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)
