"""Exchanges leave targets invariant, whatever their ratios, and go where single changes do not."""

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.kernels import exchange
from hopscale.models import Slab, VariableSelection
from hopscale.runs.choose import choose
from small import small_targets


def stand_ins(n=40, p=4):
    """Columns of which two are nearly the same, and one of the two counts."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, p))
    x[:, 1] = x[:, 0] + 0.2 * rng.normal(size=n)
    return VariableSelection(x, x[:, 0] + 0.5 * rng.normal(size=n), Slab(1.0), inclusion=0.2)


def targets():
    """Also one whose ratios are wrong, so that moves have to be refused."""
    bent = hs.LogDensity(lambda x: jnp.sum(jnp.sin(2 * x) * jnp.arange(3.0)), (3,), 2, "gradient")
    return {"ising": small_targets()["ising"], "selection": stand_ins(), "bent": bent}


def off(target):
    pi = hs.check.probabilities(target)
    matrix = hs.check.transition_matrix(target, hs.Exchange(), 1.4)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    return np.abs(pi @ matrix - pi).max()


@pytest.mark.parametrize("name", ["ising", "selection", "bent"])
def test_exchanges_leave_targets_invariant(x64, name):
    target = targets()[name]
    assert off(target) < 1e-10
    assert hs.check.irreducible(target, hs.Exchange(), 1.4)


def test_broken_twin_is_found(x64, monkeypatch):
    """One that accepts exchanges of wrong weights."""
    monkeypatch.setattr(exchange, "_acceptance", lambda *states: jnp.ones(()))
    assert off(targets()["bent"]) > 1e-3


def test_it_steps_as_enumerated():
    assert hs.check.invariance(targets()["bent"], hs.Exchange(), scale=1.4).passed


def test_stand_ins_are_exchanged(x64):
    """From a model with the one column to that with the other, in a step."""
    target = stand_ins()
    assert choose(target).kernel == hs.Exchange()
    states = hs.check.states(target)
    one, other = (
        np.flatnonzero((states == row).all(axis=1))[0] for row in np.eye(4, dtype=int)[:2]
    )
    ours, plain = (
        hs.check.transition_matrix(target, kernel, 1.0)[one, other]
        for kernel in (hs.Exchange(), hs.LBP())
    )
    assert ours > 0.1
    assert plain < 0.02


def test_wrong_uses_are_refused():
    with pytest.raises(TypeError, match="looks at log-ratios"):
        hs.Exchange(hs.RWM())
    with pytest.raises(TypeError, match="3 values"):
        hs.sample(hs.Potts.lattice((2, 2), 3), hs.Exchange(), progress=False)
