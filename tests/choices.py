"""Weights to choose by, and what a choice of sites has to be."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_expit, logsumexp

from hopscale.native import cpu

# Where there is a compiler the package's build makes the kernels, and a failure to is a failure.
HAS_COMPILER = shutil.which("c++") is not None or shutil.which("g++") is not None
NEEDS_KERNELS = pytest.mark.skipif(
    not cpu.ready()[0] and not HAS_COMPILER, reason="there is no compiler to build the kernels"
)

TIE = 1e-5  # a level this close to a sum, relatively, may fall on either side
BALANCES = [None, "barker", "sqrt"]
SIZES = [1, 2, 7, 100, 127, 128, 129, 1000, 10007]
KINDS = ["equal", "tame", "lognormal", "wide", "two levels", "one giant", "far down", "far up",
         "some impossible", "few possible", "none possible"]  # fmt: skip


def keys(chains, seed=0):
    return jax.random.split(jax.random.key(seed), chains)


def words(key, n):
    return np.asarray(jax.random.bits(key, (n,), jnp.uint32))


def log_weights(s, balance):
    s = np.asarray(s, np.float64)
    return {None: s, "barker": log_expit(s), "sqrt": s / 2}[balance]


def order_log_prob(lw, sites, chosen, backwards=False):
    along = lw[sites] if backwards else lw[sites][::-1]
    rest = logsumexp(lw[~chosen]) if (~chosen).any() else -np.inf
    left = np.logaddexp(np.logaddexp.accumulate(along), rest)
    return -np.inf if (along == -np.inf).any() else np.sum(along - left)


def check_choice(sites, chosen, length, n, repeats=False):
    assert sites.dtype == np.int32
    assert chosen.dtype == np.bool_
    assert ((sites >= 0) & (sites < n)).all()
    assert (sites[length:] == 0).all()
    assert set(np.flatnonzero(chosen)) == set(sites[:length])
    assert repeats or chosen.sum() == length


def check_race(s, length, out, balance=None):
    sites, chosen, log_prob = map(np.asarray, out)
    check_choice(sites, chosen, length, s.size)
    lw = log_weights(s, balance)
    expected = order_log_prob(lw, sites[:length], chosen)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)
    for backwards in (False, True):
        log_prob = cpu.order_log_prob(
            s, sites, chosen, jnp.int32(length), balance=balance, backwards=backwards
        )
        expected = order_log_prob(lw, sites[:length], chosen, backwards)
        np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)


def lengths(n):
    return sorted({1, min(2, n), max(1, round(n ** (2 / 3))), max(1, n // 2), max(1, n - 1), n})


def ratios(n, kind, seed=3):
    rng = np.random.default_rng(seed)
    return {
        "equal": np.zeros(n),
        "tame": rng.uniform(-2, 2, n),
        "lognormal": rng.normal(0, 3, n),
        "wide": rng.uniform(-150, 150, n),
        "two levels": np.where(rng.random(n) < 0.1, 0.0, np.log(1e-30)),
        "one giant": np.where(np.arange(n) == n // 2, 60.0, rng.normal(size=n)),
        "far down": rng.uniform(-2, 2, n) - 500,
        "far up": rng.uniform(-2, 2, n) + 500,
        "some impossible": np.where(rng.random(n) < 0.5, -np.inf, rng.normal(size=n)),
        "few possible": np.where(np.arange(n) < 3, 0.0, -np.inf),
        "none possible": np.full(n, -np.inf),
    }[kind].astype(np.float32)
