"""Recorders: right, bounded, and blind to how the steps arrived."""

import numpy as np
import pytest

from hopscale import diagnostics
from hopscale.observe import Moments, Trace

RNG = np.random.default_rng(2)


def in_pieces(recorder, values, cuts):
    for piece in np.split(values, cuts):
        recorder.add(piece)
    return recorder


CUTS = ([], [1], [3, 700], list(range(0, 3000, 7)))


def test_moments_do_not_depend_on_the_pieces():
    values = RNG.normal(1e4, 1.0, size=(3000, 4)).astype(np.float32)
    whole = in_pieces(Moments(4), values, [])
    np.testing.assert_allclose(whole.mean, values.astype(float).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(whole.variance, values.astype(float).var(axis=0), rtol=1e-9)
    for cuts in CUTS:
        pieces = in_pieces(Moments(4), values, cuts)
        np.testing.assert_array_equal(pieces.mean, whole.mean)
        np.testing.assert_array_equal(pieces.variance, whole.variance)


def test_short_traces_are_kept_as_they_are():
    values = RNG.normal(size=(50, 3))
    trace = in_pieces(Trace(3, capacity=64), values, [20])
    assert trace.block == 1
    np.testing.assert_array_equal(trace.values, values.T)


def test_long_traces_are_blocks_of_bounded_number():
    values = RNG.normal(size=(3000, 2))
    whole = in_pieces(Trace(2, capacity=64), values, [])
    assert whole.block == 64
    assert whole.values.shape == (2, 3000 // 64)
    np.testing.assert_allclose(whole.values[:, 0], values[:64].mean(axis=0), atol=1e-12)
    for cuts in CUTS:
        pieces = in_pieces(Trace(2, capacity=64), values, cuts)
        np.testing.assert_array_equal(pieces.values, whole.values)


def autoregressive(rho, chains, n):
    noise = RNG.normal(size=(chains, n + 200))
    x = np.zeros_like(noise)
    for t in range(1, n + 200):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    return x[:, 200:]


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_ess_of_an_autoregression(rho):
    n = 20_000
    trace = autoregressive(rho, 20, n)
    expected = n * (1 - rho) / (1 + rho)
    # Cutting at the first negative lag leaves a little positive noise in the sum.
    assert diagnostics.effective_sample_size(trace).mean() == pytest.approx(expected, rel=0.06)


def test_ess_survives_averaging_into_blocks():
    trace = autoregressive(0.9, 20, 20_000)
    recorder = in_pieces(Trace(20, capacity=2048), trace.T, [])
    moments = in_pieces(Moments(20), trace.T, [])
    assert recorder.block > 4
    blocks = diagnostics.effective_sample_size(recorder.values, recorder.block, moments.variance)
    assert blocks.mean() == pytest.approx(diagnostics.effective_sample_size(trace).mean(), rel=0.1)


def test_r_hat_survives_averaging_into_blocks():
    trace = RNG.normal(size=(8, 16_384)) + 0.1 * np.arange(8)[:, None]
    moments = in_pieces(Moments(8), trace.T, [])
    single = diagnostics.r_hat(trace)
    for capacity in (4096, 256):
        recorder = in_pieces(Trace(8, capacity=capacity), trace.T, [])
        blocks = diagnostics.r_hat(recorder.values, recorder.block, moments.variance)
        assert blocks == pytest.approx(single, abs=2e-3)


def test_many_chains_are_taken_in_parts():
    trace = autoregressive(0.5, 130, 500)
    whole = diagnostics.effective_sample_size(trace)
    each = [diagnostics.effective_sample_size(row[None])[0] for row in trace]
    np.testing.assert_allclose(whole, each)


def test_ess_of_a_stuck_chain_is_one():
    assert diagnostics.effective_sample_size(np.full((1, 100), 0.1)).tolist() == [1.0]


def test_r_hat_tells_chains_that_disagree():
    agree = RNG.normal(size=(4, 1000))
    assert diagnostics.r_hat(agree) == pytest.approx(1.0, abs=0.01)
    assert diagnostics.r_hat(agree + np.arange(4)[:, None]) > 1.3
    drifting = agree + np.linspace(0, 3, 1000)
    assert diagnostics.r_hat(drifting) > 1.1
