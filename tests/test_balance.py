"""Balancing functions satisfy g(t) = t g(1/t); others are refused."""

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import balance


@pytest.mark.parametrize("name", balance.NAMED)
def test_named_functions_are_balanced(x64, name):
    s = jnp.linspace(-30, 30, 121)
    log_g = balance.resolve(name)
    np.testing.assert_allclose(log_g(s), s + log_g(-s), atol=1e-12)


def test_values(x64):
    t = jnp.array([0.2, 1.0, 7.0])
    for name, g in {
        "sqrt": np.sqrt(t),
        "barker": t / (1 + t),
        "min": np.minimum(1, t),
        "max": np.maximum(1, t),
    }.items():
        np.testing.assert_allclose(jnp.exp(balance.NAMED[name](jnp.log(t))), g, rtol=1e-12)


def test_barker_keeps_its_tail():
    assert balance.barker(jnp.float32(-200.0)) == pytest.approx(-200.0)


def test_a_users_own_function_works(x64):
    def log_g(s):
        return jnp.logaddexp(0.3 * s, 0.7 * s)

    target = hs.Bernoulli(np.array([0.2, 0.6, 0.9]))
    pi = hs.check.probabilities(target)
    matrix = hs.check.transition_matrix(target, hs.LBP(log_g), 2)
    np.testing.assert_allclose(pi @ matrix, pi, atol=1e-12)


@pytest.mark.parametrize("log_g", [lambda s: s, lambda s: 0.4 * s, lambda s: jnp.log(s)])
def test_unbalanced_functions_are_refused(log_g):
    with pytest.raises(ValueError, match=r"g\(t\) = t g\(1/t\)"):
        hs.LBP(log_g)


def test_functions_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="shape"):
        hs.LBP(lambda s: jnp.sum(s))


def test_unhashable_functions_are_refused():
    class Tilted:
        __hash__ = None  # pyright: ignore

        def __call__(self, s):
            return 0.5 * s

    with pytest.raises(TypeError, match="hashable"):
        hs.LBP(Tilted())


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"'barker'.*got 'baker'"):
        hs.LBP("baker")
    with pytest.raises(TypeError, match="got 3"):
        hs.GWG(3)  # pyright: ignore
    with pytest.raises(ValueError, match="'reversed' or 'same'"):
        hs.LBP(path="back")
    with pytest.raises(ValueError, match="'once' or 'parity'"):
        hs.GWG(repeats="twice")
