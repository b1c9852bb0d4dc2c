"""Recorders: right, bounded, and blind to how the steps arrived."""

import numpy as np

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
