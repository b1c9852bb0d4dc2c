"""Sweeps: exact by enumeration, the same by C++ and by plain JAX, and runs as any others."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.results.run import describe
from hopscale.targets.powered import Powered
from hopscale.targets.sweep import Rule, SpinSweep
from runs import SETTINGS, same
from small import FALSE_ALARM, small_rbm, small_targets

RNG = np.random.default_rng(11)
COUPLINGS = np.triu(RNG.normal(size=(5, 5)) * [0, 1, 1, 0, 1], 1) + np.diag([0.8] * 4, 1)
FIELD, POTTS_FIELD = RNG.normal(size=5), RNG.normal(size=(4, 3))
KERNELS = [hs.Gibbs(), hs.Gibbs(rule="metropolis"), hs.Gibbs("systematic", "metropolis", sweeps=2)]


def pairwise():
    return hs.Pairwise(COUPLINGS, FIELD)


def potts():
    return hs.Potts(np.triu(COUPLINGS[:4, :4], 1), 3, POTTS_FIELD)


def targets():
    """Every way to sweep: by pairs, by evaluation, tempered."""
    found = small_targets()
    del found["one site"], found["bernoulli"], found["fhmm"]
    base = hs.Bernoulli(np.array([0.3, 0.6, 0.2, 0.7, 0.5]))
    return {
        **found,
        "pairwise": pairwise(),
        "tempered": hs.Tempered(base, pairwise(), 0.4),
        "potts": potts(),
        "powered": Powered(potts(), 1.7),
    }


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
    monkeypatch.setattr("hopscale.targets.sweep.KEEP", 1.0)
    flat, kernel = hs.Pairwise([], np.zeros(6)), hs.Gibbs(rule="metropolis")
    assert gap(flat, kernel) < 1e-10
    assert not hs.check.irreducible(flat, kernel, 1)


@pytest.mark.parametrize("kernel", KERNELS, ids=describe)
def test_one_step_keeps_exact_draws_exact(kernel):
    assert hs.check.invariance(pairwise(), kernel, false_alarm=FALSE_ALARM)


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=describe)
def test_one_step_of_a_potts_model_keeps_exact_draws_exact(kernel):
    assert hs.check.invariance(potts(), kernel, false_alarm=FALSE_ALARM)


def test_evaluated_sweeps_keep_exact_draws_exact():
    target = small_targets()["quadratic"]
    for kernel in KERNELS[:2]:
        assert hs.check.invariance(target, kernel, draws=20_000, false_alarm=FALSE_ALARM)


def test_log_prob_of_a_potts_model_is_the_formula(x64):
    target = potts()
    for x in RNG.integers(0, 3, (4, 4)):
        pairs = sum(COUPLINGS[i, j] * (x[i] == x[j]) for i in range(4) for j in range(i + 1, 4))
        expected = pairs + POTTS_FIELD[np.arange(4), x].sum()
        np.testing.assert_allclose(target.log_prob(x), expected, atol=1e-12)
        there = target.log_prob(np.array([2, *x[1:]])) - target.log_prob(x)
        np.testing.assert_allclose(target.log_ratios(x)[0, 2], there, atol=1e-12)


def lattice_of_three_values():
    return hs.Potts.lattice((9, 11), 3, 0.5, RNG.choice([-0.25, 0.25], (9, 11, 3)))


def frustrated(n=300):
    chosen = np.triu(RNG.random((n, n)) < 0.01, 1)
    return hs.Pairwise(chosen * RNG.choice([-1.0, 1.0], (n, n)), RNG.choice([-0.5, 0.5], n))


CASES = [
    ("chains as lanes", frustrated, 37, "gibbs"),
    ("sites as lanes", frustrated, 2, "metropolis"),
    ("potts", lattice_of_three_values, 20, "gibbs"),
    ("potts", lattice_of_three_values, 20, "metropolis"),
]


@pytest.mark.parametrize(("name", "make", "chains", "rule"), CASES)
def test_kernel_and_reference_draw_the_same(name, make, chains, rule):
    """Couplings are such that sums are exact; what is left to rounding is one draw in 10^7."""
    target = make()
    x = RNG.integers(0, target.num_states, (chains, *target.shape)).astype(np.int8)
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
        np.testing.assert_array_equal(
            info.distance, np.sum((found[-1] != x).reshape(chains, -1), axis=1)
        )
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
    (lambda: hs.Gibbs("random"), ValueError, "order must be one of auto, coloured"),
    (lambda: hs.Gibbs(rule="heat"), ValueError, "rule must be"),
    (lambda: hs.Gibbs(sweeps=0), ValueError, "at least 1"),
    (lambda: hs.Gibbs(implementation="gpu"), ValueError, "implementation must be"),
    (lambda: hs.sample(small_targets()["fhmm"], hs.Gibbs("coloured")), TypeError, "got FHMM"),
    (lambda: hs.Potts([(0, 1, 1.0)], 1), ValueError, "num_states"),
    (lambda: hs.Potts([(0, 1, 1.0)], 3, np.zeros((2, 4))), ValueError, "num_states = 3"),
    (lambda: hs.Potts(np.eye(2), 3), ValueError, "coupled to itself"),
    (lambda: hs.sample(small_rbm(), hs.Gibbs("systematic")), TypeError, "two blocks"),
]


@pytest.mark.parametrize(("make", "error", "words"), BAD)
def test_settings_that_cannot_work_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def swept(target, beta, key, x):
    """Two sweeps in plain JAX, at another temperature."""
    sweep, rule = target.sweep(), Rule(metropolis=True, sweeps=2, implementation="reference")
    return sweep.at(beta).moved(key, x, sweep.blocks, rule)


@pytest.mark.parametrize("values", [2, 3, 20])
@pytest.mark.parametrize("pairs", [COUPLINGS, np.zeros((5, 5))], ids=["pairs", "no pairs"])
def test_chains_side_by_side_go_the_way_they_go_alone(values, pairs):
    """With temperatures of their own, for levels within chains, and with graphs of their own."""
    target = hs.Pairwise(pairs) if values == 2 else hs.Potts(np.triu(pairs, 1), values)
    levels, chains = 3, 5  # as many chains as sites, and levels as values
    keys = jax.random.split(jax.random.key(0), (chains, levels))
    x = jnp.asarray(RNG.integers(0, values, (chains, levels, 5)), jnp.int8)
    betas = jnp.linspace(0.2, 1.0, levels)
    one = jax.jit(swept)
    alone = [
        [one(target, betas[j], keys[i, j], x[i, j]) for j in range(levels)] for i in range(chains)
    ]
    within = jax.vmap(swept, (None, 0, 0, 0))
    together = jax.jit(jax.vmap(within, (None, None, 0, 0)))(target, betas, keys, x)
    others = [
        jax.tree.map(lambda a, by=by: a * by if a.dtype == jnp.float32 else a, target)
        for by in range(1, chains + 1)
    ]
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *others)
    apart = jax.jit(jax.vmap(swept, (0, None, 0, 0)))(stacked, betas[2], keys[:, 2], x[:, 2])
    for i in range(chains):
        for j in range(levels):
            np.testing.assert_array_equal(together[0][i, j], alone[i][j][0])
            np.testing.assert_allclose(together[1][i, j], alone[i][j][1], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(apart[0][i], one(others[i], betas[2], keys[i, 2], x[i, 2])[0])


@pytest.mark.parametrize("target", [pairwise(), potts()], ids=["spins", "values"])
def test_on_a_gpu_chains_lie_behind_sites(monkeypatch, target):
    """What would run there: plain JAX, with an axis of 16 chains last."""
    monkeypatch.setattr("hopscale.native._has_accelerator", lambda: True)
    n, beta = target.num_sites, jnp.ones(())

    def swept(key, x):
        sweep = target.sweep()
        return sweep.at(beta).moved(key, x, sweep.blocks, Rule())

    arguments = jax.random.split(jax.random.key(0), 16), jnp.zeros((16, n), jnp.int8)
    program = jax.jit(jax.vmap(swept)).trace(*arguments).lower(lowering_platforms=("cuda",))
    assert f"tensor<{n}x16xi8>" in program.as_text()
