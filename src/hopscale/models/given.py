"""Checks of what users pass to a model: columns, a response, sizes, priors and names."""

from typing import Any

import jax
import numpy as np
import scipy.special

from hopscale.validate import count, number

MOST_VARIABLES = 50  # in a model, by default


def standardised(columns: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Columns and response centred and of length 1, in the widest floats JAX allows."""
    dtype = jax.dtypes.canonicalize_dtype(float)
    try:
        columns, y = np.asarray(columns, np.float64), np.asarray(y, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError("X and y must be arrays of real numbers.") from error
    if columns.ndim != 2 or y.shape != columns.shape[:1] or min(columns.shape) < 1:
        raise ValueError(
            "X must have a row for each observation and a column for each variable, (n, p), and y "
            f"be of shape (n,); got {columns.shape} and {y.shape}."
        )
    if len(y) < 4:
        raise ValueError(f"at least 4 observations are needed; got {len(y)}.")
    if not (np.all(np.isfinite(columns)) and np.all(np.isfinite(y))):
        raise ValueError("X and y must be finite; they hold NaN or infinity.")
    columns, y = columns - columns.mean(axis=0), y - y.mean()
    lengths, length = np.linalg.norm(columns, axis=0), np.linalg.norm(y)
    if length == 0 or np.any(lengths == 0):
        which = "y" if length == 0 else f"column {int(np.argmin(lengths))} of X"
        raise ValueError(f"{which} is constant: leave it out; there is always an intercept.")
    return (columns / lengths).astype(dtype), (y / length).astype(dtype)


def largest_size(max_size: int | None, n: int, p: int) -> int:
    """How many columns a model of n observations may have."""
    allowed = min(p, n - 2)
    if max_size is None:
        return min(MOST_VARIABLES, allowed)
    count("max_size", max_size, 1)
    if max_size > allowed:
        raise ValueError(
            f"max_size can be at most {allowed} with {n} observations of {p} columns; got "
            f"{max_size}."
        )
    return int(max_size)


def log_prior(inclusion: Any, p: int, most: int) -> np.ndarray:
    """The log-probability of one model of each size, and -inf for sizes beyond."""
    k = np.arange(most + 1)
    if np.ndim(inclusion) == 0:
        number("inclusion", inclusion, 0.0, 1.0, "()")
        found = k * np.log(inclusion) + (p - k) * np.log1p(-inclusion)
    else:
        a, b = inclusion
        number("a of inclusion", a, 0.0, np.inf, "()")
        number("b of inclusion", b, 0.0, np.inf, "()")
        found = scipy.special.betaln(a + k, b + p - k) - scipy.special.betaln(a, b)
    return np.append(found, -np.inf)


def names_of(names: Any, p: int) -> tuple[str, ...]:
    """The names given, or x0, x1, ..."""
    if names is None:
        return tuple(f"x{j}" for j in range(p))
    found = tuple(str(name) for name in names)
    if len(found) != p:
        raise ValueError(f"names must be one for each of {p} columns; got {len(found)}.")
    return found


def ridge_effect(
    rows: np.ndarray, y: np.ndarray, ridge: float, shrinkage: float, size: int, seeds: int = 32
) -> float:
    """The most that a ridge changes the log-probability of some models of correlated columns.

    Each model has a column and those most correlated with it. Without a ridge, columns that
    repeat each other exactly are no problem, so that least squares decides.

    Args:
        rows: the columns of X as rows, of length 1.
        y: the response, of length 1.
        ridge: what is added to the diagonal of the Gram matrix.
        shrinkage: g / (1 + g).
        size: the number of columns of a model.
        seeds: the number of models.
    """
    worst, p = 0.0, len(rows)
    rounding = max(1e-10, 10 * float(np.finfo(rows.dtype).eps))
    rows, y = rows.astype(np.float64), y.astype(np.float64)
    for first in np.unique(np.linspace(0, p - 1, min(seeds, p)).astype(int)):
        order = np.argsort(-np.abs(rows @ rows[first]), kind="stable")
        for columns in range(2, size + 1):
            used = rows[order[:columns]]
            gram, product = used @ used.T, used @ y
            plain = np.sum((y - np.linalg.lstsq(used.T, y, rcond=rounding)[0] @ used) ** 2)
            ridged = 1.0 - product @ np.linalg.solve(gram + ridge * np.eye(columns), product)
            left = [1.0 - shrinkage * (1.0 - rss) for rss in (plain, ridged)]
            if min(left) > 0:
                worst = max(worst, 0.5 * (y.size - 1) * abs(np.log(left[0] / left[1])))
    return float(worst)
