"""Annealed importance sampling against enumeration."""

import os
import signal
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from annealed import ERRORS, SHAPE, model, off
from hopscale.learn import LogZ, annealing, log_likelihood, log_z, reliable
from hopscale.learn.log_weights import log_mean
from hopscale.runs import host


class OneSite(hs.Kernel):
    """A kernel without a scale: propose to flip one site, all equally likely."""

    name: ClassVar[str] = "one site"
    informed: ClassVar[bool] = False

    def step(self, key, target, state, scale):
        key_site, key_accept = jax.random.split(key)
        site = jax.random.randint(key_site, (), 0, target.num_sites)
        y = (state.x.reshape(-1) ^ (jnp.arange(target.num_sites) == site)).reshape(target.shape)
        there = self.init(target, y)
        accept_prob = jnp.exp(jnp.minimum(there.log_prob - state.log_prob, 0.0))
        accepted = jax.random.uniform(key_accept, dtype=target.dtype) < accept_prob
        info = hs.Info(
            accept_prob=accept_prob,
            accepted=accepted,
            distance=accepted.astype(jnp.int32),
            invalid=jnp.asarray(False),
            proposal=y,
        )
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), there, state), info


@pytest.mark.parametrize(
    ("kernel", "scale"),
    [
        (hs.LBP("sqrt"), hs.Adaptive()),
        (hs.RWM(), hs.Fixed(2)),
        (OneSite(), None),
    ],
)
def test_log_z_agrees_with_enumeration(kernel, scale):
    target = model()
    estimate = log_z(target, kernel=kernel, scale=scale, chains=100, betas=12, repeats=9)
    assert (estimate.scale is None) == (scale is None)
    assert off(estimate, target) < ERRORS
    assert estimate.error < 0.1
    assert estimate.log_weights.shape == (9, 100)
    assert estimate.effective > 100
    assert estimate.samples.shape == (900, *SHAPE)


def test_weights_taken_after_the_step_fail_that_test(monkeypatch):
    scan = annealing.loop.scan

    def late(program, chains, weights, *, visit, prepare, **options):
        def prepared(step, chains, weights):
            target, chains, weighed = prepare(step, chains, weights)
            return target, chains, weighed._replace(log_weights=weights.log_weights)

        def visited(row, active, chains, info, weights):
            weights = visit(row, active, chains, info, weights)
            return annealing._weigh(jnp.asarray(1 / 12), chains.states, weights)

        return scan(program, chains, weights, visit=visited, prepare=prepared, **options)

    monkeypatch.setattr(annealing.loop, "scan", late)
    # Another number of chains: another program, compiled with the broken order.
    estimate = log_z(model(), chains=101, betas=12, repeats=20, resample=0)
    assert off(estimate, model()) > ERRORS


def test_chunks_do_not_show(monkeypatch):
    options: dict[str, Any] = {"chains": 22, "betas": 40, "repeats": 2, "resample": 0.5}
    drive, estimates = host.drive, []
    for chunk in (7, 40):
        monkeypatch.setattr(host, "drive", partial(drive, chunk=chunk))
        estimates.append(log_z(model(), **options))
    np.testing.assert_array_equal(estimates[0].log_weights, estimates[1].log_weights)
    np.testing.assert_array_equal(estimates[0].samples, estimates[1].samples)
    assert estimates[0].scale == estimates[1].scale


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("calls", [1, 3])
def test_ctrl_c_carries_the_estimate_of_the_finished_repeats(monkeypatch, calls):
    anneal, called = annealing.anneal, []
    options: dict[str, Any] = {"chains": 22, "betas": 40, "resample": 0.5}

    def interrupted(*arguments):
        called.append(1)
        if len(called) == calls:
            os.kill(os.getpid(), signal.SIGINT)
        return anneal(*arguments)

    monkeypatch.setattr(host, "drive", partial(host.drive, chunk=40))
    with monkeypatch.context() as patch:
        patch.setattr(annealing, "anneal", interrupted)
        with pytest.raises(hs.Interrupted, match="of 5 repeats") as stopped:
            log_z(model(), repeats=5, **options)
    partial_estimate = stopped.value.partial
    if calls == 1:  # the pilot alone
        assert partial_estimate is None
        return
    finished = log_z(model(), repeats=2, **options)
    np.testing.assert_array_equal(partial_estimate.log_weights, finished.log_weights)


def test_few_effective_chains_are_not_a_measurement():
    assert reliable(10, 100)
    assert not reliable(9.9, 50)
    assert not reliable(59, 600)
    target = model()
    good = log_z(target, chains=100, betas=12, repeats=9)
    assert good.reliable
    assert log_likelihood(target, hs.check.states(target)[:3], good).reliable
    louder = model(50.0)
    bad = log_z(louder, chains=100, betas=12, repeats=9)
    assert not bad.reliable
    assert not log_likelihood(louder, hs.check.states(target)[:3], bad).reliable


def test_betas_can_be_given():
    target = model()
    betas = np.linspace(0, 1, 13) ** 2
    assert off(log_z(target, chains=100, betas=betas, repeats=9), target) < ERRORS


def test_an_rbm_works_from_fair_bits_or_a_base():
    rng = np.random.default_rng(3)
    rbm = hs.RBM(rng.normal(size=(3, 8)), rng.normal(size=8), rng.normal(size=3))
    near = hs.Bernoulli(np.asarray(jax.nn.sigmoid(rbm.visible_bias)))
    for base in (None, near):
        assert off(log_z(rbm, base, chains=300, betas=50, repeats=2), rbm) < ERRORS


def test_the_base_itself_has_no_error():
    estimate = log_z(model(0.0), chains=100, betas=12)
    assert abs(estimate.value) < 1e-5
    assert estimate.error < 1e-6
    assert np.isclose(estimate.effective, 500)


def test_log_likelihood_is_the_mean_of_normalised_log_probabilities():
    target = model()
    estimate = log_z(target, chains=100, betas=12, repeats=9)
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
    a, b, c = (log_z(model(), chains=100, betas=12, repeats=1, key=key).value for key in (1, 1, 2))
    assert a == b != c


def test_finished_repeats_are_not_computed_again(tmp_path, monkeypatch):
    file = tmp_path / "repeats"
    options: dict[str, Any] = {"chains": 100, "betas": 12, "key": 3}
    at_once = log_z(model(), repeats=3, **options)
    log_z(model(), repeats=1, keep=file, **options)
    started = []
    start = annealing.start
    monkeypatch.setattr(annealing, "start", lambda *a: started.append(1) or start(*a))
    resumed = log_z(model(), repeats=3, keep=file, **options)
    assert len(started) == 2
    np.testing.assert_array_equal(resumed.log_weights, at_once.log_weights)
    assert (resumed.value, resumed.scale) == (at_once.value, at_once.scale)
    for other in ({"key": 4}, {"chains": 7}, {"betas": 9}, {"resample": 0.3}):
        with pytest.raises(ValueError, match="another estimate"):
            log_z(model(), keep=file, **{**options, **other})
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ValueError, match="damaged"):
        log_z(model(), keep=file, **options)


def test_an_estimate_prints_as_a_short_table():
    good = log_z(model(), chains=100, betas=12, repeats=1)
    bad = good._replace(effective=2.0)
    assert str(good) == repr(good)
    assert len(str(good).splitlines()) < 12
    assert f"{good.value:.3f}" in str(good)
    assert "NOT MEASURED" not in str(good)
    assert "NOT MEASURED" in str(bad)
    assert "2.0 of 100 chains are effective" in " ".join(str(bad).split())
    score = log_likelihood(model(), hs.check.states(model())[:3], bad)
    assert f"{score.value:.3f}  NOT MEASURED" in str(score)


GOOD = LogZ(0.0, 0.1, 50.0, np.zeros(1), np.zeros((1, 50)), 0.5, 1.0, np.zeros((50, 3, 4)), 1.0)


BITS = np.zeros((5, *SHAPE), np.int8)


BITS_AND_ONE = np.arange(60).reshape(5, *SHAPE) == 7


def score(data, normalizer: Any = GOOD):
    return log_likelihood(model(), data, normalizer)


def test_bits_of_any_type_are_bits():
    kinds = (np.int8, np.uint8, bool, np.float32)
    values = {score(BITS_AND_ONE.astype(kind)).value for kind in kinds}
    assert len(values) == 1
