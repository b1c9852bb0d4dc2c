"""Training restricted Boltzmann machines."""

import dataclasses
import signal
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.learn import DivergedError, RBMRecipe
from hopscale.learn import rbm as learning
from hopscale.runs import host
from small_rbms import DIGITS, SMALL, parameters, same, train


def test_training_starts_at_the_means_of_the_data():
    start = learning.begin(SMALL, DIGITS).rbm
    mean = np.clip(DIGITS.train.mean(axis=0), 0.01, 0.99)
    np.testing.assert_allclose(jax.nn.sigmoid(start.visible_bias), mean, rtol=1e-5)
    assert start.shape == (8, 8)
    assert np.asarray(start.weights).std() == pytest.approx(0.02, rel=0.1)


def test_an_iteration_climbs_the_likelihood():
    """Adam's first step goes by the sign of the slope, here known by enumeration."""
    rng = np.random.default_rng(2)
    images = (rng.random((4000, 1, 4)) < [0.2, 0.5, 0.9, 0.4]).astype(np.int8)
    data = hs.data.DataSet("four bits", images, images, images)
    recipe = RBMRecipe(hidden=2, cd=50, batch=4000)
    start = learning.begin(recipe, data)
    w, b, c = rng.normal(size=(2, 4)), rng.normal(size=(1, 4)), rng.normal(size=2)
    rbm = hs.RBM(0.5 * w, b, c)
    job = learning.RBMTraining(recipe, data, start._replace(rbm=rbm), epochs=1)
    assert host.drive(job, progress=False) == "done"
    after = job.learner.rbm
    states = jnp.asarray(hs.check.states(rbm))

    def likelihood(rbm):
        log_z = jax.scipy.special.logsumexp(-rbm.free_energy(states))
        return jnp.mean(-rbm.free_energy(images)) - log_z

    slopes = parameters(jax.grad(likelihood)(rbm))
    clear = 0
    for slope, old, new in zip(slopes, parameters(rbm), parameters(after), strict=True):
        large = np.abs(slope) > 6 * 0.5 / np.sqrt(4000)  # standard errors of the chains' mean
        np.testing.assert_allclose((new - old)[large], 1e-3 * np.sign(slope[large]), rtol=1e-2)
        clear += large.sum()
    assert clear >= 6


@pytest.mark.parametrize("persistent", [False, True])
def test_training_learns_the_digits(persistent):
    recipe = dataclasses.replace(SMALL, hidden=48, persistent=persistent)
    trained = train(recipe, epochs=20)
    errors = trained.history["reconstruction"]
    assert len(errors) == trained.epochs == 20
    assert errors[-1] < 0.7 * errors[0]
    assert 0 < trained.history["free_energy_gap"][-1] < 5
    # Better than the independent bits of its start, on images it has not seen.
    start = learning.begin(recipe, DIGITS).rbm
    x = jnp.asarray(DIGITS.test)
    noise = jax.random.bernoulli(jax.random.key(3), 0.3, x.shape).astype(jnp.int8)

    def tells_apart(rbm):
        return float(jnp.mean(rbm.free_energy(noise)) - jnp.mean(rbm.free_energy(x)))

    assert tells_apart(trained.rbm) > tells_apart(start) + 5


def test_the_same_seed_is_the_same_model():
    assert same(train().rbm, train().rbm)
    assert not same(train().rbm, train(dataclasses.replace(SMALL, seed=1)).rbm)


def test_chunks_do_not_show(monkeypatch):
    usual = train().rbm
    monkeypatch.setattr(host, "drive", partial(host.drive, chunk=5))
    assert same(usual, train().rbm)


def test_grey_levels_are_drawn_again_in_each_epoch():
    grey = hs.data.DataSet("grey", *[DIGITS.train.astype(np.uint8) * 120] * 3)
    assert grey.grey
    trained = train(data=grey, epochs=1)
    mean = np.clip(DIGITS.train.mean(axis=0) * 120 / 255, 0.01, 0.99)
    start = learning.begin(SMALL, grey).rbm
    np.testing.assert_allclose(jax.nn.sigmoid(start.visible_bias), mean, rtol=1e-5)
    assert np.isfinite(trained.history["reconstruction"]).all()


def test_nan_stops_with_a_clear_error(tmp_path):
    file = tmp_path / "a.npz"
    with pytest.raises(DivergedError, match=r"epoch 1, iteration \d+.*rate is 1e\+38"):
        train(dataclasses.replace(SMALL, rate=1e38), epochs=3, file=file)
    assert not file.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("epoch", [0, 1])
def test_ctrl_c_carries_the_model_so_far(tmp_path, monkeypatch, epoch):
    advance, file = learning.RBMTraining.advance, tmp_path / "a.npz"

    def interrupted(job, steps):
        advance(job, steps)
        if job.learner.epoch == epoch:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(learning.RBMTraining, "advance", interrupted)
        with pytest.raises(hs.Interrupted, match=f"stopped after epoch {epoch} of 2") as stopped:
            train(file=file, epochs=2)
    partial_result = stopped.value.partial
    assert (partial_result.interrupted, partial_result.epochs) == (True, epoch)
    assert len(partial_result.history["reconstruction"]) == epoch
    assert file.exists() == bool(epoch)  # epochs are saved when they are finished
    if epoch:
        assert same(train(file=file, epochs=2, resume=True).rbm, train(epochs=2).rbm)


def test_a_trained_rbm_prints_as_a_short_table():
    trained = train(epochs=2)
    assert str(trained) == repr(trained)
    assert "RBM (8 x 8 visible, 16 hidden)" in str(trained)
    assert f"{trained.history['reconstruction'][-1]:.4f}" in str(trained)
    assert len(str(trained).splitlines()) < 12


def test_uint8_that_holds_bits_holds_bits():
    splits = [DIGITS.images(split).astype(np.uint8) for split in ("train", "valid", "test")]
    bytes_of_bits = hs.data.DataSet("digits", *splits)
    assert not bytes_of_bits.grey
    assert bytes_of_bits.digest == DIGITS.digest


def test_gibbs_sampling_takes_bits_of_any_type_and_nothing_else():
    rbm, x = learning.begin(SMALL, DIGITS).rbm, DIGITS.train[:3]
    drawn = [rbm.gibbs(0, x.astype(kind), 2) for kind in (np.int8, np.uint8, bool, np.float32)]
    assert all(np.array_equal(drawn[0], other) for other in drawn)
    for wrong in (0.7 * x, 5 * x, np.nan * x, 2 * x - 1, 255 * x.astype(np.uint8)):
        with pytest.raises(ValueError, match="x must hold bits 0 and 1; got values from"):
            rbm.gibbs(0, wrong)
    with pytest.raises(ValueError, match=r"have shape \(8, 8\)"):
        rbm.gibbs(0, x[:, 0])
    with pytest.raises(TypeError, match="x must be an array of numbers"):
        rbm.gibbs(0, "digits")  # type: ignore[arg-type]
