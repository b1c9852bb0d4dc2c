"""The restricted Boltzmann machine against enumeration."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import native
from hopscale.check import _chi_square
from hopscale.results.run import describe
from runs import errors_away, most_errors
from small import FALSE_ALARM

RNG = np.random.default_rng(23)
W, B, C = RNG.normal(size=(3, 4)), RNG.normal(size=4), RNG.normal(size=3)
X = np.array(list(itertools.product((0, 1), repeat=4)), np.int8)
Z = np.array(list(itertools.product((0, 1), repeat=3)), np.int8)

KERNELS = [
    hs.LBP(),
    hs.LBP("sqrt", "same"),
    hs.GWG(),
    hs.GWG("sqrt", "parity"),
    hs.RWM(),
]


def rbm(ratios="gradient"):
    return hs.RBM(W, B, C, ratios=ratios)


def twin(broken: Any):
    return broken(W, B, C)


def joint():
    """pi(x, z) by enumeration, normalised."""
    weights = np.exp(X @ B + (Z @ C)[:, None] + Z @ W @ X.T)
    return weights.T / weights.sum()


def gap(target, kernel, scale):
    """How far one step moves the enumerated distribution, which the target does not supply."""
    pi = joint().sum(axis=1)
    return np.abs(pi @ hs.check.transition_matrix(target, kernel, scale) - pi).max()


def test_log_prob_sums_over_the_hidden_units(x64):
    target = rbm()
    ours = np.array([float(target.log_prob(x)) for x in X])
    theirs = np.log(np.exp(X @ B + (Z @ C)[:, None] + Z @ W @ X.T).sum(axis=0))
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
    np.testing.assert_allclose(target.free_energy(X), -theirs, atol=1e-10)


def test_exact_ratios_are_differences_of_log_prob(x64):
    target = rbm("exact")
    for x in X:
        log_prob, ratios = target.evaluate(x).log_prob, target.log_ratios(x)
        np.testing.assert_allclose(log_prob, target.log_prob(x), atol=1e-10)
        for site in range(4):
            y = x.copy()
            y[site] = 1 - y[site]
            np.testing.assert_allclose(ratios[site], target.log_prob(y) - log_prob, atol=1e-10)  # pyright: ignore


def test_gradient_ratios_are_the_gradient(x64):
    def log_density(x):
        return B @ x + jnp.sum(jax.nn.softplus(W @ x + C))

    generic = hs.LogDensity(log_density, (4,), ratios="gradient")
    for x in X:
        np.testing.assert_allclose(rbm().log_prob(x), generic.log_prob(x), atol=1e-10)
        np.testing.assert_allclose(rbm().log_ratios(x), generic.log_ratios(x), atol=1e-10)
    assert np.abs(np.asarray(rbm().log_ratios(X[5]) - rbm("exact").log_ratios(X[5]))).max() > 1e-2


def test_ratios_stay_finite_where_units_saturate():
    for ratios in ("gradient", "exact"):
        target = hs.RBM(300.0 * W, B, C, ratios=ratios)
        assert np.isfinite(np.asarray(jax.vmap(target.log_ratios)(jnp.asarray(X)))).all()


@pytest.mark.parametrize("ratios", ["gradient", "exact"])
@pytest.mark.parametrize("kernel", KERNELS, ids=describe)
def test_target_is_invariant(x64, kernel, ratios):
    for scale in (1, 2, 4):
        assert gap(rbm(ratios), kernel, scale) < 1e-10


class ForgetsAUnit(hs.RBM):
    """Leaves the first hidden unit out of the log-density, not out of the ratios."""

    def _given(self, x, inputs, ratios):
        found = super()._given(x, inputs, ratios)
        return found._replace(log_prob=found.log_prob - jax.nn.softplus(inputs[0]))


@pytest.mark.parametrize("kernel", [hs.LBP(), hs.GWG()], ids=describe)
def test_broken_twin_fails(x64, kernel):
    assert gap(twin(ForgetsAUnit), kernel, 2) > 1e-4


def test_conditionals_are_those_of_the_joint(x64):
    pi = joint()
    hidden = np.array([pi[:, Z[:, j] == 1].sum(axis=1) for j in range(3)]).T
    visible = np.array([pi[X[:, i] == 1].sum(axis=0) for i in range(4)]).T
    np.testing.assert_allclose(rbm().hidden_prob(X), hidden / pi.sum(1)[:, None], atol=1e-10)
    np.testing.assert_allclose(rbm().visible_prob(Z), visible / pi.sum(0)[:, None], atol=1e-10)


def independent(p, bits):
    """The probability of each row of bits under each row of p."""
    return np.prod(np.where(bits[None], p[:, None], 1.0 - p[:, None]), axis=-1)


def gibbs_gap(target):
    """How far z given x, then x given z, moves the enumerated joint distribution."""
    hidden = independent(np.asarray(target.hidden_prob(X)), Z)
    visible = independent(np.asarray(target.visible_prob(Z)), X)
    after_hidden = joint().sum(axis=1)[:, None] * hidden
    after_both = visible.T * after_hidden.sum(axis=0)[None, :]
    return max(np.abs(after_hidden - joint()).max(), np.abs(after_both - joint()).max())


class NoBiasBack(hs.RBM):
    """Forgets the visible bias on the way back."""

    def visible_prob(self, z):
        return hs.RBM(self.weights, 0.0 * self.visible_bias, self.hidden_bias).visible_prob(z)


def test_gibbs_leaves_the_enumerated_joint_invariant(x64):
    assert gibbs_gap(rbm()) < 1e-10
    assert gibbs_gap(twin(NoBiasBack)) > 1e-3


def gibbs_verdict(target):
    """From exact draws, two steps as they run: are the states still distributed as before?"""
    draws, pi = 100_000, joint().sum(axis=1)
    start = X[np.random.default_rng(3).choice(len(X), draws, p=pi)]
    after = np.asarray(jax.jit(lambda x: target.gibbs(5, x, steps=2))(start))
    observed = np.bincount(after @ (8, 4, 2, 1), minlength=len(X))
    return _chi_square(observed, draws * pi, FALSE_ALARM)


def test_gibbs_keeps_exact_draws_exact():
    assert gibbs_verdict(rbm())
    assert not gibbs_verdict(twin(NoBiasBack))


def test_gibbs_takes_one_state_or_many():
    target = rbm()
    one = target.gibbs(0, X[3], steps=3)
    assert (one.shape, one.dtype) == ((4,), jnp.int8)
    assert target.gibbs(0, X.reshape(2, 8, 4)).shape == (2, 8, 4)
    np.testing.assert_array_equal(target.gibbs(0, X[3], steps=0), X[3])


def test_images_are_rows_of_the_weights(x64):
    flat = rbm("exact")
    for weights in (W, W.reshape(3, 2, 2)):
        image = hs.RBM(weights, B.reshape(2, 2), C, ratios="exact")
        assert image.shape == (2, 2)
        x = X[6].reshape(2, 2)
        assert float(image.log_prob(x)) == pytest.approx(float(flat.log_prob(X[6])), abs=1e-12)
        np.testing.assert_allclose(image.log_ratios(x).ravel(), flat.log_ratios(X[6]), atol=1e-12)
        assert image.gibbs(0, x).shape == (2, 2)
        assert image.visible_prob(Z).shape == (8, 2, 2)


def test_parameters_can_be_learnt():
    """As training needs it: built inside a program, differentiated."""
    slope = jax.jit(jax.grad(lambda w: hs.RBM(w, B, C).log_prob(X[9])))(jnp.asarray(W))
    np.testing.assert_allclose(slope, np.outer(rbm().hidden_prob(X[9]), X[9]), rtol=1e-5)


@pytest.mark.parametrize("ratios", ["gradient", "exact"])
def test_a_run_on_an_rbm(ratios):
    def ones(state, info):
        return jnp.sum(state.x)

    settings = {"chains": 300, "warmup": 50, "draws": 300, "key": 1, "progress": False}
    by_chain = hs.sample(rbm(ratios), record=ones, **settings).statistics["ones"].mean_by_chain
    expected = joint().sum(axis=1) @ X.sum(axis=1)
    assert errors_away(by_chain, expected) < most_errors(1, 300)
    assert errors_away(by_chain, expected + 0.1) > most_errors(1, 300)


@pytest.mark.parametrize("shared", [True, False], ids=["one model", "two models"])
def test_kernel_of_the_inputs_agrees_with_plain_jax(shared):
    rng = np.random.default_rng(11)
    inputs = jnp.asarray(rng.normal(size=(2, 5, 33)), jnp.float32)
    x = jnp.asarray(rng.integers(0, 2, (2, 5, 20)), jnp.int8)
    moved = jnp.asarray(rng.random((2, 5, 20)) < 0.3)
    by_visible = jnp.asarray(rng.normal(size=(2, 20, 33)), jnp.float32)

    def all_chains(implementation):
        def one(*arrays):
            return native.call("rbm_inputs", *arrays, implementation=implementation)

        chains = jax.vmap(one, (0, 0, 0, None))
        if shared:
            return jax.vmap(chains, (0, 0, 0, None))(inputs, x, moved, by_visible[0])
        return jax.vmap(chains)(inputs, x, moved, by_visible)

    np.testing.assert_allclose(all_chains("auto"), all_chains("reference"), atol=1e-5)
    assert np.abs(np.asarray(all_chains("auto") - inputs)).max() > 0.1
