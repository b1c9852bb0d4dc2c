"""Targets that can be enumerated, and how often a statistical test may fail by chance."""

import numpy as np

import hopscale as hs

# Every statistical test fails a correct program with at most this probability.
FALSE_ALARM = 1e-5


def small_targets() -> dict[str, hs.Target]:
    """Targets that can be enumerated. Built inside a test, so that they take its precision."""
    rng = np.random.default_rng(7)
    j = 0.5 * rng.normal(size=(4, 4))
    h = rng.normal(size=4)
    return {
        "one site": hs.Bernoulli(np.array([0.3])),
        "bernoulli": hs.Bernoulli(np.array([0.1, 0.5, 0.6, 0.95])),
        "flat": hs.Bernoulli(np.full(4, 0.52)),
        "ising": hs.Ising(rng.normal(size=(2, 2)), 0.4),
        "symmetric ising": hs.Ising(np.zeros((2, 2)), 0.7),
        "fhmm": hs.FHMM(np.array([0.4, -1.2]), np.array([0.8, -0.5]), 0.1, 0.9),
        "quadratic": hs.LogDensity(lambda x: x @ (j @ x) + h @ x, (4,), ratios="gradient"),
    }


def small_rbm(ratios: str = "gradient") -> hs.RBM:
    """Four visible units and three hidden ones."""
    rng = np.random.default_rng(23)
    weights, visible, hidden = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=3)
    return hs.RBM(weights, visible, hidden, ratios=ratios)


def gap(target, kernel, scale):
    """How far one step moves the target distribution."""
    pi = hs.check.probabilities(target)
    matrix = hs.check.transition_matrix(target, kernel, scale)
    assert matrix.min() > -1e-12
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    return np.abs(pi @ matrix - pi).max()
