"""Chains that are drawn again by weight while they anneal, and the families they come from."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from annealed import ERRORS, model, off, truth
from hopscale.learn import annealing, log_z
from hopscale.learn.log_weights import families, log_mean


@pytest.mark.parametrize("resample", [0.3, 0.5, 1.0])
def test_log_z_with_resampling_agrees_with_enumeration(resample):
    louder = model(3.0)
    estimate = log_z(louder, chains=400, betas=25, repeats=3, resample=resample)
    assert np.isinf(estimate.log_weights).any()  # some families died out: chains were resampled
    assert off(estimate, louder) < ERRORS
    assert estimate.error < 0.2
    assert estimate.effective > 50
    assert estimate.resample == resample


def bias(chains: int, resample: float) -> float:
    """How many standard errors the mean of many small estimates of Z is from Z."""
    target = model()
    estimate = log_z(target, chains=chains, betas=5, repeats=400, resample=resample)
    ratios = np.exp(estimate.by_repeat - truth(target))
    return abs(ratios.mean() - 1) / (ratios.std(ddof=1) / np.sqrt(len(ratios)))


def test_resampling_leaves_the_estimate_of_z_without_bias():
    assert bias(8, 0.5) < ERRORS


def test_resampling_that_forgets_to_even_the_weights_fails_that_test(monkeypatch):
    resample = annealing._resample

    def forgetful(share, key, states, weights):
        alone = weights._replace(ancestors=jnp.arange(len(weights.ancestors)))
        chosen = resample(share, key, states, alone)[1].ancestors
        states, weights_after = resample(share, key, states, weights)
        return states, weights_after._replace(log_weights=weights.log_weights[chosen])

    monkeypatch.setattr(annealing, "_resample", forgetful)
    assert bias(9, 0.5) > ERRORS


def test_resampling_regardless_of_weights_fails_that_test(monkeypatch):
    def uniform(key, weights):
        return jax.random.randint(key, weights.shape, 0, len(weights))

    monkeypatch.setattr(annealing, "systematic", uniform)
    assert bias(10, 0.5) > ERRORS


def test_systematic_resampling_rounds_the_expected_copies():
    rng, systematic = np.random.default_rng(4), jax.jit(annealing.systematic)
    for trial in range(50):
        weights = rng.exponential(size=40) ** 3 * (rng.uniform(size=40) < 0.7)
        chosen = systematic(jax.random.key(trial), jnp.asarray(weights, jnp.float32))
        copies = np.bincount(np.asarray(chosen), minlength=40)
        assert np.all(np.abs(copies - 40 * weights / weights.sum()) < 1 + 1e-4)
        assert not copies[weights == 0].any()
        assert copies.sum() == 40
    even = systematic(jax.random.key(0), jnp.full(8, 0.125))
    np.testing.assert_array_equal(even, np.arange(8))


def test_systematic_resampling_has_the_expected_copies_on_average():
    weights = jnp.asarray([0.05, 0.0, 0.3, 0.45, 0.2])
    keys = jax.random.split(jax.random.key(1), 4_000)
    chosen = np.asarray(jax.jit(jax.vmap(annealing.systematic, (0, None)))(keys, weights))
    copies = np.stack([np.bincount(row, minlength=5) for row in chosen])
    # A share p of the rounds rounds up: the standard error is at most 0.5 / sqrt(4,000).
    assert np.abs(copies.mean(axis=0) - 5 * np.asarray(weights)).max() < 0.04


def test_without_resampling_nothing_of_it_runs(monkeypatch):
    options: dict[str, Any] = {"betas": 12, "repeats": 2, "chains": 100}
    never = log_z(model(), resample=1e-6, **options)  # computed in each step, and never needed
    monkeypatch.setattr(annealing, "_resample", None)
    plain = log_z(model(), resample=0, **options)
    np.testing.assert_array_equal(plain.samples, never.samples)
    np.testing.assert_allclose(plain.log_weights, never.log_weights, rtol=1e-5, atol=1e-5)
    assert not np.isinf(plain.log_weights).any()


def test_chains_where_the_density_is_zero_are_not_drawn_again():
    """Half of the states are impossible; Z is the probability of the others."""
    fair = hs.Bernoulli(np.full(6, 0.5))
    halved = hs.LogDensity(lambda x: jnp.where(x[0] > 0, 0.0, -jnp.inf) - 6 * jnp.log(2.0), (6,))
    estimate = log_z(halved, fair, chains=200, betas=4, repeats=2, kernel=hs.RWM(), resample=0.9)
    assert abs(estimate.value - np.log(0.5)) < ERRORS * estimate.error
    assert np.all(estimate.samples[:, 0] == 1)


def test_families_add_up():
    log_weights = np.log([1.0, 2.0, 3.0, 4.0]).astype(np.float32)
    summed = families(log_weights, np.array([2, 0, 2, 2]))
    np.testing.assert_allclose(np.exp(summed), [2, 0, 8, 0], rtol=1e-6)
    assert np.isclose(log_mean(summed)[0], np.log(2.5))
    assert np.isclose(log_mean(summed)[2], 100 / 68)
    np.testing.assert_array_equal(families(log_weights, np.arange(4)), log_weights)


def test_one_family_has_an_error_and_is_one():
    value, error, effective = log_mean(np.array([-np.inf, 3.0, -np.inf, -np.inf]))
    assert np.isclose(value, 3 - np.log(4))
    assert np.isfinite(error)
    assert effective == 1


def test_families_tell_the_error_of_a_repeat():
    estimate = log_z(model(), chains=100, betas=12, repeats=100, resample=0.5)
    errors = [log_mean(one)[1] for one in estimate.log_weights]
    actual = estimate.by_repeat.std(ddof=1)
    assert 0.7 < np.sqrt(np.mean(np.square(errors))) / actual < 1.5


def test_ten_families_alone_are_not_a_measurement():
    """More than ten are effective here, less than a tenth, and the estimate is too low."""
    louder = model(4.0)
    rule = hs.Adaptive()  # slow on a path of twelve steps
    low = log_z(louder, chains=100, betas=12, repeats=4, resample=0.5, scale=rule)
    assert low.effective > 10
    assert low.value + 2 * low.error < truth(louder)
    assert not low.reliable
