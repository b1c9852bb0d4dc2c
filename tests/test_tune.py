"""The tuning rule, step by step, and what a kernel tells a tuner of its scale."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.kernels.metropolis import SHORT_STEPS, round_randomly
from hopscale.tune import TunerState, fitted
from runs import SETTINGS, TARGET, most_errors
from small import small_rbm

P = hs.Bernoulli(np.linspace(0.2, 0.8, 10))


def info(*accept_prob):
    """What chains with these acceptance probabilities did."""
    a = jnp.asarray(accept_prob)
    return hs.Info(accept_prob=a, accepted=a > 0.5, distance=a, invalid=a < 0, proposal=a)


def moved(tuner, kernel, scale, *accept_prob, target=P):
    scales = kernel.scale_range(target)
    return fitted(tuner, scales).update(TunerState(jnp.float32(scale)), info(*accept_prob), scales)


def test_rounding_keeps_the_mean():
    uniform = jax.random.uniform(jax.random.key(0), (100_000,))
    rounded = np.asarray(round_randomly(uniform, jnp.float32(3.3)))
    assert set(np.unique(rounded)) == {3, 4}
    error = np.sqrt(0.21 / 100_000)
    assert rounded.mean() == pytest.approx(3.3, abs=most_errors(1, 100_000) * error)


def test_whole_scales_are_not_rounded():
    uniform = jax.random.uniform(jax.random.key(0), (1000,))
    assert set(np.asarray(round_randomly(uniform, jnp.float32(4.0)))) == {4}


@pytest.mark.parametrize("scale", [1.0, 2.0, 3.3, 10.0])
def test_lengths_have_their_probabilities(scale):
    kernel, draws = hs.LBP(), 400_000
    uniform = jax.random.uniform(jax.random.key(3), (draws,))
    lengths = jax.vmap(lambda u: kernel._length(u, jnp.float32(scale), 10))(uniform)
    expected = np.asarray(kernel.length_probabilities(scale, 10))
    assert expected.sum() == pytest.approx(1.0)
    assert min(expected[:2]) >= SHORT_STEPS / 2 - 1e-7
    found = np.bincount(np.asarray(lengths), minlength=11)[1:] / draws
    error = np.sqrt(expected * (1 - expected) / draws) + 1e-9
    assert np.max(np.abs(found - expected) / error) < most_errors(10, draws)


def test_scale_moves_by_mean_acceptance_minus_rate():
    assert moved(hs.Adaptive(), hs.LBP(), 4.5, 0.2, 0.4).scale == pytest.approx(4.5 + 0.3 - 0.574)
    assert moved(hs.Adaptive(), hs.RWM(), 4.5, 0.2, 0.4).scale == pytest.approx(4.5 + 0.3 - 0.234)
    assert moved(hs.Adaptive(0.5), hs.RWM(), 4.5, 0.2, 0.4).scale == pytest.approx(4.3)


def test_tuners_stop_at_one_site_and_at_half_of_all_bits():
    for kernel in (hs.LBP(), hs.GWG(), hs.RWM()):
        assert float(moved(hs.Adaptive(0.5), kernel, 1.1, 0.0).scale) == 1.0
        assert float(moved(hs.Adaptive(0.5), kernel, 4.9, 1.0).scale) == 5.0
    literal = hs.LBP(lengths="paper")
    assert float(moved(hs.Adaptive(0.5), literal, 9.9, 1.0).scale) == 10.0


def test_tuners_stop_where_a_fresh_draw_would_be():
    """Of four equally likely values, three in four sites change."""
    target = hs.LogDensity(lambda code: jnp.sum(code) * 0.0, (8,), num_states=4)
    assert hs.LBP().scale_range(target).tuned_high == 6.0
    assert hs.LBP().scale_range(hs.Bernoulli(np.array([0.5]))).tuned_high == 1.0


def test_each_chain_can_have_its_own_scale():
    scales = hs.LBP().scale_range(P)
    tuner = fitted(hs.Adaptive(0.5, per_chain=True), scales)
    state = tuner.update(tuner.init(scales, 2, jnp.float32), info(0.4, 0.9), scales)
    np.testing.assert_allclose(state.scale, [1.0, 1.4], rtol=1e-6)


def test_fixed_scales_do_not_move():
    assert moved(hs.Fixed(3), hs.LBP(), 3.0, 0.0, 0.0).scale == 3.0


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_rates_outside_the_unit_interval_are_refused(rate):
    with pytest.raises(ValueError, match="inside \\(0, 1\\)"):
        hs.Adaptive(rate)


@pytest.mark.parametrize("scale", ["x", None, [[1.0]], []])
def test_scales_that_are_not_numbers_are_refused(scale):
    with pytest.raises((TypeError, ValueError), match="the scale R"):
        hs.Fixed(scale)


def test_rates_that_are_not_numbers_are_refused():
    for rate in ("0.5", np.array([0.5])):
        with pytest.raises(TypeError, match="rate must be a number"):
            hs.Adaptive(rate)  # pyright: ignore


@pytest.mark.parametrize("scale", [0, 0.5, -3, float("nan")])
def test_scales_below_one_are_refused(scale):
    with pytest.raises(ValueError, match="at least 1"):
        hs.sample(TARGET, scale=hs.Fixed(scale), **SETTINGS)


def test_scales_of_each_chain_can_be_fixed_again():
    settings = {**SETTINGS, "chains": 3}
    tuned = hs.sample(TARGET, scale=hs.Adaptive(per_chain=True), **settings)
    again = hs.sample(TARGET, scale=hs.Fixed(tuned.scale), **settings)
    assert isinstance(again.scale, np.ndarray)
    assert isinstance(tuned.scale, np.ndarray)
    np.testing.assert_allclose(again.scale, tuned.scale)
    with pytest.raises(ValueError, match="each of 4 chains"):
        hs.sample(TARGET, scale=hs.Fixed(tuned.scale), **{**settings, "chains": 4})


# -- Kernels without a scale. --------------------------------------------------------------------


def test_a_kernel_without_a_scale_reports_none():
    run = hs.sample(small_rbm(), hs.BlockGibbs(), **SETTINGS)
    assert run.scale is None
    assert run.acceptance == 1.0
    assert run.summary()["scale"] is None
    assert "scale R" not in str(run)


@pytest.mark.parametrize("scale", [hs.Fixed(1), hs.Adaptive()])
def test_a_scale_for_a_kernel_without_is_refused(scale):
    with pytest.raises(ValueError, match="no scale to tune or fix"):
        hs.sample(small_rbm(), hs.BlockGibbs(), scale=scale, **SETTINGS)
