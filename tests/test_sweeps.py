"""Sweeps: exact by enumeration, the same by C++ and by plain JAX, and runs as any others."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.results import describe
from hopscale.sweep import SpinSweep
from runs import SETTINGS, same
from small import FALSE_ALARM, small_rbm, small_targets

RNG = np.random.default_rng(11)
COUPLINGS = np.triu(RNG.normal(size=(5, 5)) * [0, 1, 1, 0, 1], 1) + np.diag([0.8] * 4, 1)
FIELD = RNG.normal(size=5)
KERNELS = [hs.Gibbs(), hs.Gibbs(rule="metropolis"), hs.Gibbs("systematic", "metropolis", sweeps=2)]


def pairwise():
    return hs.Pairwise(COUPLINGS, FIELD)


def targets():
    """Every way to sweep: by pairs, by evaluation, tempered."""
    found = small_targets()
    del found["one site"], found["bernoulli"], found["fhmm"]
    base = hs.Bernoulli(np.array([0.3, 0.6, 0.2, 0.7, 0.5]))
    return {**found, "pairwise": pairwise(), "tempered": hs.Tempered(base, pairwise(), 0.4)}


def gap(target, kernel):
    pi = hs.check.probabilities(target)
    matrix = hs.check.transition_matrix(target, kernel, 1)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    return np.abs(pi @ matrix - pi).max()


@pytest.mark.parametrize("kernel", KERNELS, ids=describe)
def test_target_is_invariant_and_all_of_it_is_reached(x64, kernel):
    for target in targets().values():
        assert gap(target, kernel) < 1e-10
        assert hs.check.irreducible(target, kernel, 1)


def test_blocks_of_an_rbm_are_drawn_at_once(x64):
    ours, theirs = (
        hs.check.transition_matrix(small_rbm(), kernel, 1)
        for kernel in (hs.Gibbs(), hs.BlockGibbs())
    )
    np.testing.assert_array_equal(ours, theirs)


class OneColour(hs.Pairwise):
    """Draws neighbours at once."""

    def sweep(self):
        together = jnp.arange(self.num_sites, dtype=jnp.int32)[None, :]
        return eqx.tree_at(lambda sweep: sweep.blocks, super().sweep(), together)


class NoField(hs.Pairwise):
    """Forgets the field."""

    def sweep(self):
        return SpinSweep(self, self.graph, 0.0 * self.field)


@pytest.mark.parametrize("twin", [OneColour, NoField])
def test_broken_twin_fails(x64, twin):
    assert gap(twin(COUPLINGS, FIELD), hs.Gibbs()) > 1e-3
    assert not hs.check.invariance(twin(COUPLINGS, FIELD), hs.Gibbs(), false_alarm=FALSE_ALARM)


def test_broken_twin_without_the_factor_goes_back_and_forth(x64, monkeypatch):
    """Metropolis sweeps that accept whatever they can: a flat target has two states then."""
    monkeypatch.setattr("hopscale.sweep.KEEP", 1.0)
    flat, kernel = hs.Pairwise([], np.zeros(6)), hs.Gibbs(rule="metropolis")
    assert gap(flat, kernel) < 1e-10
    assert not hs.check.irreducible(flat, kernel, 1)


@pytest.mark.parametrize("kernel", KERNELS, ids=describe)
def test_one_step_keeps_exact_draws_exact(kernel):
    assert hs.check.invariance(pairwise(), kernel, false_alarm=FALSE_ALARM)


def test_evaluated_sweeps_keep_exact_draws_exact():
    target = small_targets()["quadratic"]
    for kernel in KERNELS[:2]:
        assert hs.check.invariance(target, kernel, draws=20_000, false_alarm=FALSE_ALARM)


def frustrated(n=300):
    chosen = np.triu(RNG.random((n, n)) < 0.01, 1)
    return hs.Pairwise(chosen * RNG.choice([-1.0, 1.0], (n, n)), RNG.choice([-0.5, 0.5], n))


@pytest.mark.parametrize("chains", [37, 2], ids=["chains as lanes", "sites as lanes"])
@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
def test_kernel_and_reference_draw_the_same(chains, rule):
    """Couplings are such that sums are exact; what is left to rounding is one draw in 10^7."""
    target = frustrated()
    x = jnp.asarray(RNG.integers(0, 2, (chains, 300)), jnp.int8)
    keys = jax.random.split(jax.random.key(1), chains)
    found = []
    for implementation in ("auto", "reference"):
        kernel = hs.Gibbs("auto", rule, 3, implementation=implementation)
        step = jax.vmap(
            lambda k, x, kernel=kernel: kernel.step(k, target, kernel.init(target, x), jnp.ones(()))
        )
        state, info = jax.jit(step)(keys, x)
        found.append(np.asarray(state.x))
        scratch = jax.vmap(target.log_prob)(state.x)
        np.testing.assert_allclose(state.log_prob, scratch, atol=1e-2)
        np.testing.assert_array_equal(info.distance, np.sum(found[-1] != x, axis=1))
    np.testing.assert_array_equal(*found)


def test_order_of_sites_does_not_matter_to_a_product():
    """Independent bits: their means, from a run with the defaults."""
    p = np.array([0.1, 0.5, 0.9])
    run = hs.sample(
        hs.Bernoulli(p), hs.Gibbs(), draws=500, record=hs.record.SiteMeans(), progress=False
    )
    np.testing.assert_allclose(run.recorded["SiteMeans"][0], p, atol=0.01)
    assert run.scale is None
    assert run.acceptance == 1


def test_a_run_goes_on_bit_for_bit(tmp_path):
    settings: dict[str, Any] = SETTINGS | {"warmup": 10}
    complete = hs.sample(pairwise(), hs.Gibbs(), **settings)
    settings["draws"] = 25
    part = hs.sample(pairwise(), hs.Gibbs(), **settings)
    part.save(tmp_path / "run")
    same(hs.load(tmp_path / "run").extend(35, progress=False), complete)


BAD = [
    (lambda: hs.Gibbs("random"), ValueError, "order must be 'auto' or 'coloured'"),
    (lambda: hs.Gibbs(rule="heat"), ValueError, "rule must be"),
    (lambda: hs.Gibbs(sweeps=0), ValueError, "at least 1"),
    (lambda: hs.Gibbs(sweeps=True), ValueError, "at least 1"),
    (lambda: hs.Gibbs(implementation="gpu"), ValueError, "implementation must be"),
    (lambda: hs.sample(small_targets()["fhmm"], hs.Gibbs("coloured")), TypeError, "got FHMM"),
    (lambda: hs.sample(small_rbm(), hs.Gibbs("systematic")), TypeError, "two blocks"),
]


@pytest.mark.parametrize(("make", "error", "words"), BAD)
def test_settings_that_cannot_work_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
