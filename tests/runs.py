"""Runs to compare: a small target, short settings, and equality bit for bit."""

from functools import partial
from typing import Any

import jax
import numpy as np
import scipy.stats

import hopscale as hs
from small import FALSE_ALARM

TARGET = hs.Ising(np.random.default_rng(0).uniform(-0.3, 0.3, size=(6, 6)), 0.15)
SETTINGS: dict[str, Any] = {"chains": 5, "warmup": 40, "draws": 60, "key": 3, "progress": False}

ARRAYS = ("scale", "accept_prob_by_chain", "distance_by_chain", "last", "draws", "offender")


def same(a: hs.Run, b: hs.Run) -> None:
    """Raise unless everything that was drawn and remembered is the same, bit for bit."""
    for name in ("chains", "warmup", "num_draws", "invalid", "evaluations", "interrupted"):
        assert getattr(a, name) == getattr(b, name), name
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert list(a.statistics) == list(b.statistics)
    for name, ours in a.statistics.items():
        theirs = b.statistics[name]
        assert ours.block == theirs.block
        for part in ("trace", "mean_by_chain", "variance_by_chain"):
            np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part), name)
    for name in ("warmup_history", "history", "recorded"):
        jax.tree.map(np.testing.assert_array_equal, dict(getattr(a, name)), dict(getattr(b, name)))


def alike(a: hs.Run, b: hs.Run) -> None:
    """Raise unless two runs went the same way; another program may round otherwise."""
    assert (a.chains, a.warmup, a.num_draws) == (b.chains, b.warmup, b.num_draws)
    np.testing.assert_array_equal(a.last, b.last)
    assert (a.scale is None) == (b.scale is None)
    if a.scale is not None:
        np.testing.assert_allclose(a.scale, b.scale, rtol=1e-5)
    np.testing.assert_allclose(a.distance_by_chain, b.distance_by_chain, rtol=1e-5)
    for name, ours in a.statistics.items():
        np.testing.assert_allclose(ours.trace, b.statistics[name].trace, rtol=1e-4, atol=1e-4)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), dict(a.recorded), dict(b.recorded))


def errors_away(by_chain: np.ndarray, truth: np.ndarray) -> float:
    """By how many standard errors the worst mean over chains misses the truth."""
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain))
    return float(np.max(np.abs(by_chain.mean(axis=0) - truth) / error))


def most_errors(numbers: int, chains: int) -> float:
    """What `errors_away` of so many numbers exceeds with probability FALSE_ALARM."""
    return float(scipy.stats.t.isf(FALSE_ALARM / (2 * numbers), chains - 1))
