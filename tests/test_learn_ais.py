"""Annealed importance sampling against enumeration."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.learn import EBM, MLP, LogZ, annealing, log_likelihood, log_z, reliable
from hopscale.learn.ais import log_mean
from hopscale.learn.annealing import AtBeta

SHAPE = (3, 4)
# A correct estimate is further off than that with probability 6e-7, if its error is.
ERRORS = 5.0


def model():
    """Twelve bits with energies that differ by several units."""
    rng = np.random.default_rng(0)
    network = MLP(SHAPE, 16, key=2)
    louder = jax.tree.map(lambda a: 4.0 * a if eqx.is_inexact_array(a) else a, network)
    return EBM(louder, rng.uniform(0.2, 0.8, SHAPE))


def truth(target):
    return float(jax.nn.logsumexp(jax.vmap(target.log_prob)(jnp.asarray(hs.check.states(target)))))


def off(estimate: LogZ, target) -> float:
    """How many of its own errors an estimate is from the truth."""
    return abs(estimate.value - truth(target)) / estimate.error


@pytest.mark.parametrize(
    ("sampler", "scale"),
    [(hs.LBP("sqrt"), hs.Adaptive()), (hs.RWM(), hs.Fixed(2)), (hs.GWG(), hs.Adaptive())],
)
def test_log_z_agrees_with_enumeration(sampler, scale):
    target = model()
    estimate = log_z(target, sampler=sampler, scale=scale, chains=300, betas=12, repeats=3)
    assert off(estimate, target) < ERRORS
    assert estimate.error < 0.1
    assert estimate.log_weights.shape == (3, 300)
    assert estimate.effective > 100
    assert estimate.samples.shape == (900, *SHAPE)


def test_weights_taken_after_the_step_fail_that_test(monkeypatch):
    weigh, move = annealing._weigh, annealing._move

    def late(program, k, pilot, carry):
        rise = program.betas[k] - program.betas[k - 1]
        return weigh(program, rise, move(program, k, pilot, carry))

    monkeypatch.setattr(annealing, "_weigh", lambda program, rise, carry: carry)
    monkeypatch.setattr(annealing, "_move", late)
    # Another number of chains: another program, compiled with the broken order.
    estimate = log_z(model(), chains=301, betas=12, repeats=3)
    assert off(estimate, model()) > ERRORS


@pytest.mark.parametrize("sampler", [hs.LBP("sqrt"), hs.LBP("barker"), hs.RWM()])
def test_the_step_at_a_beta_leaves_the_distribution_at_that_beta_alone(x64, sampler):
    target = EBM(MLP((2, 2), 6, key=1), np.array([[0.2, 0.5], [0.6, 0.9]]))
    louder = eqx.tree_at(lambda m: m.network, target, lambda x: 6.0 * target.network(x))
    base, full = hs.check.probabilities(louder.base), hs.check.probabilities(louder)

    def missed(at, claimed):
        pi = base ** (1 - claimed) * full**claimed
        pi /= pi.sum()
        kernel = AtBeta(sampler, louder.base, jnp.asarray(at))
        return np.abs(pi @ hs.check.transition_matrix(louder, kernel, 2) - pi).max()

    for beta in (0.0, 0.3, 1.0):
        assert missed(beta, beta) < 1e-10
    assert missed(0.3, 0.4) > 1e-4  # the broken twin


def test_few_effective_chains_are_not_a_measurement():
    assert reliable(10, 100)
    assert not reliable(9.9, 50)
    assert not reliable(59, 600)
    target = model()
    good = log_z(target, chains=300, betas=12, repeats=3)
    assert good.reliable
    assert log_likelihood(target, hs.check.states(target)[:3], good).reliable
    louder = EBM(lambda x: 8.0 * target.network(x), target.base)
    bad = log_z(louder, chains=300, betas=1, repeats=3)
    assert not bad.reliable
    assert not log_likelihood(louder, hs.check.states(target)[:3], bad).reliable


def test_betas_can_be_given():
    target = model()
    betas = np.linspace(0, 1, 13) ** 2
    assert off(log_z(target, chains=300, betas=betas, repeats=3), target) < ERRORS


def test_an_rbm_works_from_fair_bits_or_a_base():
    rng = np.random.default_rng(3)
    rbm = hs.RBM(rng.normal(size=(3, 8)), rng.normal(size=8), rng.normal(size=3))
    near = hs.Bernoulli(np.asarray(jax.nn.sigmoid(rbm.visible_bias)))
    for base in (None, near):
        assert off(log_z(rbm, base, chains=300, betas=50, repeats=2), rbm) < ERRORS


def test_the_base_itself_has_no_error():
    estimate = log_z(EBM(lambda x: 0.0 * jnp.sum(x), np.full(5, 0.3)), chains=10, betas=3)
    assert abs(estimate.value) < 1e-5
    assert estimate.error < 1e-6
    assert np.isclose(estimate.effective, 50)


def test_log_likelihood_is_the_mean_of_normalised_log_probabilities():
    target = model()
    estimate = log_z(target, chains=300, betas=12, repeats=3)
    x = hs.check.states(target)[::50]
    exact = np.mean(np.log(hs.check.probabilities(target)[::50]))
    found = log_likelihood(target, x, estimate, batch=7)
    assert abs(found.value - exact) < ERRORS * found.error
    assert found.error == estimate.error
    assert found.spread > found.error


def test_error_of_a_mean_of_weights():
    log_weights = np.random.default_rng(1).normal(50.0, 0.5, 4_000)
    value, error, effective = log_mean(log_weights)
    weights = np.exp(log_weights - 50)
    assert np.isclose(value, 50 + np.log(weights.mean()))
    assert np.isclose(error, weights.std() / weights.mean() / np.sqrt(4_000), rtol=0.15)
    assert np.isclose(effective, 4_000 / (1 + (weights.std() / weights.mean()) ** 2))


def test_the_same_key_gives_the_same_estimate():
    a, b, c = (log_z(model(), chains=30, betas=10, repeats=1, key=key).value for key in (1, 1, 2))
    assert a == b != c


def test_kept_repeats_are_not_made_again(tmp_path, monkeypatch):
    file = tmp_path / "kept.npz"
    options: dict[str, Any] = {"chains": 6, "betas": 8, "key": 3}
    whole = log_z(model(), repeats=3, **options)
    log_z(model(), repeats=1, keep=file, **options)
    started = []
    start = annealing.start
    monkeypatch.setattr(annealing, "start", lambda *a: started.append(1) or start(*a))
    resumed = log_z(model(), repeats=3, keep=file, **options)
    assert len(started) == 2
    np.testing.assert_array_equal(resumed.log_weights, whole.log_weights)
    assert (resumed.value, resumed.scale) == (whole.value, whole.scale)
    for other in ({"key": 4}, {"chains": 7}, {"betas": 9}):
        with pytest.raises(ValueError, match="another estimate"):
            log_z(model(), keep=file, **{**options, **other})
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ValueError, match="damaged"):
        log_z(model(), keep=file, **options)


BAD = {
    "target over bits": lambda: log_z("model"),  # type: ignore[arg-type]
    "rise from 0 to 1": lambda: log_z(model(), betas=[0.0, 0.5, 0.4, 1.0]),
    "numbers that rise": lambda: log_z(model(), betas=[0.5, 1.0]),
    "chains must be at least 2": lambda: log_z(model(), chains=1),
    "the target's shape": lambda: log_z(model(), hs.Bernoulli(np.full(4, 0.5))),
    "R = 13 for 12 sites": lambda: log_z(model(), scale=hs.Fixed(13)),
    "one scale for all chains": lambda: log_z(model(), scale=hs.Adaptive(per_chain=True)),
}


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_work_says_so(words):
    with pytest.raises((ValueError, TypeError), match=words):
        BAD[words]()
