"""The tuning rule, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.scale import TunerState, round_randomly


def test_rounding_keeps_the_mean():
    uniform = jax.random.uniform(jax.random.key(0), (100_000,))
    rounded = np.asarray(round_randomly(uniform, jnp.float32(3.3)))
    assert set(np.unique(rounded)) == {3, 4}
    assert rounded.mean() == pytest.approx(3.3, abs=5 * np.sqrt(0.21 / 100_000))


def test_whole_scales_are_not_rounded():
    uniform = jax.random.uniform(jax.random.key(0), (1000,))
    rounded = np.asarray(round_randomly(uniform, jnp.float32(4.0)))
    assert set(np.unique(rounded)) == {4}


def test_scale_moves_by_mean_acceptance_minus_rate():
    tuner = hs.Adaptive().ready(hs.LBP())
    state = tuner.update(TunerState(jnp.float32(5.0)), jnp.array([0.2, 0.4]), 100)
    assert state.scale == pytest.approx(5.0 + 0.3 - 0.574)
    tuner = hs.Adaptive().ready(hs.RWM())
    state = tuner.update(TunerState(jnp.float32(5.0)), jnp.array([0.2, 0.4]), 100)
    assert state.scale == pytest.approx(5.0 + 0.3 - 0.234)


def test_scale_stays_within_one_and_the_number_of_sites():
    tuner = hs.Adaptive(0.5)
    low = tuner.update(TunerState(jnp.float32(1.1)), jnp.array([0.0]), 10)
    high = tuner.update(TunerState(jnp.float32(9.9)), jnp.array([1.0]), 10)
    assert (float(low.scale), float(high.scale)) == (1.0, 10.0)


def test_each_chain_can_have_its_own_scale():
    tuner = hs.Adaptive(0.5, per_chain=True)
    state = tuner.init(10, 2, jnp.float32)
    state = tuner.update(state, jnp.array([0.4, 0.9]), 10)
    np.testing.assert_allclose(state.scale, [1.0, 1.4], rtol=1e-6)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_rates_outside_the_unit_interval_are_refused(rate):
    with pytest.raises(ValueError, match="inside \\(0, 1\\)"):
        hs.Adaptive(rate)


@pytest.mark.parametrize("make", [lambda: hs.Fixed("x"), lambda: hs.Fixed(None)])
def test_scales_that_are_not_numbers_are_refused(make):
    with pytest.raises((TypeError, ValueError), match="the scale R must be"):
        make()


def test_rates_that_are_not_numbers_are_refused():
    with pytest.raises(TypeError, match="rate must be a number"):
        hs.Adaptive("0.5")  # pyright: ignore


def test_scales_of_each_chain_can_be_fixed_again():
    target = hs.paper.bernoulli(30, "C2")
    settings = {"chains": 3, "warmup": 20, "draws": 20, "progress": False}
    tuned = hs.sample(target, scale=hs.Adaptive(per_chain=True), **settings)
    again = hs.sample(target, scale=hs.Fixed(tuned.scale), **settings)
    np.testing.assert_allclose(again.scale, tuned.scale)
    with pytest.raises(ValueError, match="each of 4 chains"):
        hs.sample(target, scale=hs.Fixed(tuned.scale), **{**settings, "chains": 4})


@pytest.mark.parametrize("scale", [0, 0.5, -3, float("nan")])
def test_scales_below_one_are_refused(scale):
    with pytest.raises(ValueError, match="at least 1"):
        hs.Fixed(scale)
