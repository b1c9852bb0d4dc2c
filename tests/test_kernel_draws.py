"""Draws with replacement, uniform choices and odd counts, by the kernels."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from choices import (
    BALANCES,
    KINDS,
    NEEDS_KERNELS,
    SIZES,
    TIE,
    check_choice,
    keys,
    lengths,
    log_weights,
    ratios,
    words,
)
from hopscale.native import cpu, reference

pytestmark = NEEDS_KERNELS
SIZES_OF_THE_REFERENCE = [1, 2, 127, 129, 1000]  # a program each


def check_levels(key, p, drawn):
    """Each draw's first word falls on its column, laid end to end, and its second on its row."""
    width = reference.columns(p.size)
    table = np.pad(p, (0, -p.size % width)).reshape(-1, width)
    row, column = np.divmod(drawn, width)
    level = (words(key, 2 * drawn.size) + 0.5) * 2.0**-32
    sums = np.pad(np.cumsum(table.sum(axis=0)), (1, 0))
    assert (level[::2] >= sums[column] - TIE).all()
    assert (level[::2] <= sums[column + 1] + TIE).all()
    sums = np.pad(np.cumsum(table, axis=0), ((1, 0), (0, 0)))[:, column]
    sums, each = sums / sums[-1], np.arange(drawn.size)
    assert (level[1::2] >= sums[row, each] - TIE).all()
    assert (level[1::2] <= sums[row + 1, each] + TIE).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("balance", BALANCES)
def test_repeated_matches_double_precision(n, kind, balance):
    s = ratios(n, kind)
    lw = log_weights(s, balance)
    for length in lengths(n):
        key = keys(1, seed=n + length)[0]
        sites, chosen, log_prob = map(
            np.asarray, cpu.repeated(key, s, jnp.int32(length), balance=balance)
        )
        check_choice(sites, chosen, length, n, repeats=True)
        drawn = sites[:length]
        if (lw == -np.inf).all():
            assert log_prob == -np.inf
            continue
        check_levels(key, np.exp(lw - logsumexp(lw)), drawn)
        assert np.isfinite(lw[drawn]).all()
        expected = np.sum(lw[drawn] - logsumexp(lw))
        np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)
        first = np.arange(n, dtype=np.int32)
        log_prob = cpu.repeated_log_prob(s, first, jnp.int32(length), balance=balance)
        expected = np.sum(lw[:length] - logsumexp(lw))
        np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", SIZES_OF_THE_REFERENCE)
def test_uniform_matches_reference(n):
    plain = jax.jit(partial(reference.uniform, n=n))
    for length in lengths(n):
        key = keys(1, seed=length)[0]
        sites, chosen = map(np.asarray, cpu.uniform(key, jnp.int32(length), n=n))
        check_choice(sites, chosen, length, n)
        theirs = plain(key, jnp.int32(length))
        np.testing.assert_array_equal(sites[:length], theirs[0][:length])
        np.testing.assert_array_equal(chosen, theirs[1])


@pytest.mark.parametrize("n", SIZES_OF_THE_REFERENCE)
def test_odd_matches_reference(n):
    rng = np.random.default_rng(n)
    plain = jax.jit(reference.odd)
    for length in lengths(n):
        sites = rng.integers(0, max(1, n // 3), n).astype(np.int32)
        theirs = plain(jnp.asarray(sites), jnp.int32(length))
        np.testing.assert_array_equal(cpu.odd(sites, jnp.int32(length)), theirs)
