"""The diabetes data, and variable selection as one would write it down."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

import hopscale as hs

FILE = Path(__file__).parent / "data" / "diabetes.csv"
NAMES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    """Ten standardised measurements of 442 patients, and how the disease went on."""
    data = np.loadtxt(FILE, delimiter=",", skiprows=2)
    data = (data - data.mean(axis=0)) / data.std(axis=0)
    return data[:, :-1], data[:, -1]


def with_interactions(x: np.ndarray) -> np.ndarray:
    """The measurements, their products and squares (that of a variable of two values is none)."""
    p = x.shape[1]
    products = [x[:, i] * x[:, j] for i in range(p) for j in range(i, p) if (i, j) != (1, 1)]
    found = np.concatenate([x, np.stack(products, axis=1)], axis=1)
    return (found - found.mean(axis=0)) / found.std(axis=0)


def masked(x: np.ndarray, y: np.ndarray, **settings) -> hs.LogDensity:
    """Which columns of x explain y: mask x Gram x mask, which bends in every bit."""
    n, p = x.shape
    gram, moments = jnp.asarray(x.T @ x / n), jnp.asarray(x.T @ y / n)

    def log_density(mask):
        inner = mask[:, None] * gram * mask[None, :] + jnp.eye(p) / n
        explained = mask * moments @ jnp.linalg.solve(inner, mask * moments)
        return -0.5 * n * jnp.log(1.0 - explained) - 0.5 * jnp.sum(mask) * np.log(n)

    return hs.LogDensity(log_density, (p,), **settings)
