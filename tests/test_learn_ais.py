"""Annealed importance sampling against enumeration."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.learn import EBM, MLP, LogZ, ais, annealing, log_likelihood, log_z, reliable
from hopscale.learn.ais import families, log_mean
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


@pytest.mark.parametrize("resample", [0.1, 0.5, 1.0])
def test_log_z_with_resampling_agrees_with_enumeration(resample):
    target = model()
    louder = EBM(lambda x: 3.0 * target.network(x), target.base)
    estimate = log_z(louder, chains=400, betas=25, repeats=3, resample=resample)
    assert np.isinf(estimate.log_weights).any()  # some families died out: chains were drawn anew
    assert off(estimate, louder) < ERRORS
    assert estimate.error < 0.2
    assert estimate.effective > 50
    assert estimate.resample == resample


def bias(chains: int, resample: float) -> float:
    """How many standard errors the mean of many small estimates of Z is from Z."""
    target = model()
    estimate = log_z(target, chains=chains, betas=5, repeats=600, resample=resample)
    ratios = np.exp(estimate.by_repeat - truth(target))
    return abs(ratios.mean() - 1) / (ratios.std(ddof=1) / np.sqrt(len(ratios)))


@pytest.mark.parametrize("resample", [0.5, 1.0])
def test_resampling_leaves_the_estimate_of_z_without_bias(resample):
    assert bias(8, resample) < ERRORS


def test_resampling_that_forgets_to_even_the_weights_fails_that_test(monkeypatch):
    resample = annealing._resample

    def forgetful(share, k, carry):
        alone = carry._replace(ancestors=jnp.arange(len(carry.ancestors)))
        chosen = resample(share, k, alone).ancestors
        return resample(share, k, carry)._replace(log_weights=carry.log_weights[chosen])

    monkeypatch.setattr(annealing, "_resample", forgetful)
    assert bias(9, 0.5) > ERRORS


def test_resampling_regardless_of_weights_fails_that_test(monkeypatch):
    def uniform(key, weights):
        return jax.random.randint(key, weights.shape, 0, len(weights))

    monkeypatch.setattr(annealing, "systematic", uniform)
    assert bias(10, 0.5) > ERRORS


def test_systematic_resampling_rounds_the_expected_copies():
    rng = np.random.default_rng(4)
    for trial in range(50):
        weights = rng.exponential(size=40) ** 3 * (rng.uniform(size=40) < 0.7)
        chosen = annealing.systematic(jax.random.key(trial), jnp.asarray(weights, jnp.float32))
        copies = np.bincount(np.asarray(chosen), minlength=40)
        assert np.all(np.abs(copies - 40 * weights / weights.sum()) < 1 + 1e-4)
        assert not copies[weights == 0].any()
        assert copies.sum() == 40
    even = annealing.systematic(jax.random.key(0), jnp.full(8, 0.125))
    np.testing.assert_array_equal(even, np.arange(8))


def test_systematic_resampling_has_the_expected_copies_on_average():
    weights = jnp.asarray([0.05, 0.0, 0.3, 0.45, 0.2])
    keys = jax.random.split(jax.random.key(1), 4_000)
    chosen = np.asarray(jax.vmap(lambda key: annealing.systematic(key, weights))(keys))
    copies = np.stack([np.bincount(row, minlength=5) for row in chosen])
    # A share p of the rounds rounds up: the standard error is at most 0.5 / sqrt(4,000).
    assert np.abs(copies.mean(axis=0) - 5 * np.asarray(weights)).max() < 0.04


def test_without_resampling_nothing_of_it_runs(monkeypatch):
    options: dict[str, Any] = {"betas": 12, "repeats": 2, "chains": 21}
    never = log_z(model(), resample=1e-6, **options)  # computed in each step, and never needed
    monkeypatch.setattr(annealing, "_resample", None)
    plain = log_z(model(), resample=0, **options)
    np.testing.assert_array_equal(plain.samples, never.samples)
    np.testing.assert_allclose(plain.log_weights, never.log_weights, rtol=1e-5, atol=1e-5)
    assert not np.isinf(plain.log_weights).any()


@pytest.mark.parametrize("resample", [0.0, 0.5])
def test_chunks_do_not_show(monkeypatch, resample):
    options: dict[str, Any] = {"chains": 22, "betas": 30, "repeats": 2, "resample": resample}
    estimates = []
    for seconds in (0.0, 1e9):  # one step at a time after the first eight; as many as can be
        monkeypatch.setattr(ais, "CHUNK_SECONDS", seconds)
        estimates.append(log_z(model(), **options))
    np.testing.assert_array_equal(estimates[0].log_weights, estimates[1].log_weights)
    np.testing.assert_array_equal(estimates[0].samples, estimates[1].samples)
    assert estimates[0].scale == estimates[1].scale


def test_chains_where_the_density_is_zero_are_not_drawn_again():
    """Half of the states are impossible; Z is the probability of the others."""
    fair = hs.Bernoulli(np.full(6, 0.5))
    halved = hs.LogDensity(lambda x: jnp.where(x[0] > 0, 0.0, -jnp.inf) - 6 * jnp.log(2.0), (6,))
    estimate = log_z(halved, fair, chains=200, betas=4, repeats=2, sampler=hs.RWM(), resample=0.9)
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
    estimate = log_z(model(), chains=60, betas=12, repeats=100, resample=0.5)
    errors = [log_mean(one)[1] for one in estimate.log_weights]
    actual = estimate.by_repeat.std(ddof=1)
    assert 0.7 < np.sqrt(np.mean(np.square(errors))) / actual < 1.5


def test_ten_families_alone_are_not_a_measurement():
    """More than ten are effective here, less than a tenth, and the estimate is too low."""
    target = model()
    louder = EBM(lambda x: 4.0 * target.network(x), target.base)
    low = log_z(louder, chains=100, betas=12, repeats=3, resample=0.5)
    assert low.effective > 10
    assert low.value + 2 * low.error < truth(louder)
    assert not low.reliable


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
    for other in ({"key": 4}, {"chains": 7}, {"betas": 9}, {"resample": 0.3}):
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
    "resample must be a share": lambda: log_z(model(), resample=1.5),
    "0 to 1; got True": lambda: log_z(model(), resample=True),
    "0 to 1; got nan": lambda: log_z(model(), resample=float("nan")),
    "the target's shape": lambda: log_z(model(), hs.Bernoulli(np.full(4, 0.5))),
    "R = 13 for 12 sites": lambda: log_z(model(), scale=hs.Fixed(13)),
    "one scale for all chains": lambda: log_z(model(), scale=hs.Adaptive(per_chain=True)),
}


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_work_says_so(words):
    with pytest.raises((ValueError, TypeError), match=words):
        BAD[words]()
