"""Block Gibbs sampling is a kernel as any other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from runs import SETTINGS, errors_away, most_errors, same
from small import FALSE_ALARM, small_rbm

X = np.array(list(itertools.product((0, 1), repeat=4)), np.int8)


def exact(target):
    """The distribution of x by enumeration of the energy, without the target's own methods."""
    z = np.array(list(itertools.product((0, 1), repeat=3)))
    w, b, c = (
        np.asarray(a, float) for a in (target.weights, target.visible_bias, target.hidden_bias)
    )
    weights = np.exp(X @ b + (z @ c)[:, None] + z @ w @ X.T).sum(axis=0)
    return weights / weights.sum()


class NoBiasBack(hs.RBM):
    """Forgets the visible bias on the way back."""

    def visible_prob(self, z):
        return hs.RBM(self.weights, 0.0 * self.visible_bias, self.hidden_bias).visible_prob(z)


def broken():
    right = small_rbm()
    return NoBiasBack(right.weights, right.visible_bias, right.hidden_bias)  # pyright: ignore


@pytest.mark.parametrize("pairs", [1, 3])
def test_enumerated_target_is_invariant(x64, pairs):
    pi = exact(small_rbm())
    matrix = hs.check.transition_matrix(small_rbm(), hs.BlockGibbs(pairs), 1)
    np.testing.assert_allclose(pi @ matrix, pi, atol=1e-12)
    wrong = hs.check.transition_matrix(broken(), hs.BlockGibbs(pairs), 1)
    assert np.abs(pi @ wrong - pi).max() > 1e-3


def test_pairs_are_powers_of_one_pair(x64):
    one, three = (hs.check.transition_matrix(small_rbm(), hs.BlockGibbs(n), 1) for n in (1, 3))
    np.testing.assert_allclose(three, np.linalg.matrix_power(one, 3), atol=1e-12)


def test_one_step_keeps_exact_draws_exact():
    assert hs.check.invariance(small_rbm(), hs.BlockGibbs(), false_alarm=FALSE_ALARM)
    assert not hs.check.invariance(broken(), hs.BlockGibbs(), false_alarm=FALSE_ALARM)


def misses(target):
    run = hs.sample(
        target,
        hs.BlockGibbs(),
        chains=200,
        warmup=50,
        draws=300,
        record={"x": lambda state, info: state.x.astype(jnp.float32)},
        progress=False,
    )
    by_chain = np.stack([run.statistics[f"x[{i}]"].mean_by_chain for i in range(4)], axis=1)
    return errors_away(by_chain, exact(small_rbm()) @ X)


def test_a_run_agrees_with_enumeration():
    assert misses(small_rbm()) < most_errors(4, 200)
    assert misses(broken()) > most_errors(4, 200)


def test_a_step_is_target_gibbs():
    target, key = small_rbm(), jax.random.key(3)
    start = hs.BlockGibbs().init(target, jnp.asarray(X[5]))
    state, info = hs.BlockGibbs(2).step(key, target, start, jnp.ones(()))
    np.testing.assert_array_equal(state.x, target.gibbs(key, X[5], steps=2))
    assert float(state.log_prob) == pytest.approx(float(target.log_prob(state.x)), rel=1e-6)
    assert (float(info.accept_prob), bool(info.accepted)) == (1.0, True)
    assert int(info.distance) == int((np.asarray(state.x) != X[5]).sum())


def test_chunks_do_not_matter():
    runs = [hs.sample(small_rbm(), hs.BlockGibbs(), chunk=c, **SETTINGS) for c in (None, 1, 7)]
    same(runs[0], runs[1])
    same(runs[0], runs[2])


def test_images_are_drawn_too():
    rng = np.random.default_rng(1)
    target = hs.RBM(rng.normal(size=(3, 4)), rng.normal(size=(2, 2)), rng.normal(size=3))
    run = hs.sample(target, hs.BlockGibbs(), keep="all", **SETTINGS)
    assert run.draws is not None
    assert run.draws.shape == (5, 60, 2, 2)
