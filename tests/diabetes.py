"""The diabetes data, and variable selection as one would write it down."""

import jax.numpy as jnp
import numpy as np

import hopscale as hs

NAMES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")


def diabetes(interactions: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The columns, standardised, and the response."""
    return hs.data.diabetes(interactions)[:2]


def masked(x: np.ndarray, y: np.ndarray, **settings) -> hs.LogDensity:
    """Which columns of x explain y: mask x Gram x mask, which bends in every bit."""
    n, p = x.shape
    gram, moments = jnp.asarray(x.T @ x / n), jnp.asarray(x.T @ y / n)

    def log_density(mask):
        inner = mask[:, None] * gram * mask[None, :] + jnp.eye(p) / n
        explained = mask * moments @ jnp.linalg.solve(inner, mask * moments)
        return -0.5 * n * jnp.log(1.0 - explained) - 0.5 * jnp.sum(mask) * np.log(n)

    return hs.LogDensity(log_density, (p,), **settings)
