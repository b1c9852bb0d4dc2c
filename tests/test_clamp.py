"""Clamped targets are the conditional distributions, for every kernel."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.move import apply
from hopscale.runs.choose import choose
from hopscale.select import listed
from hopscale.targets.powered import Powered
from small import small_rbm, small_targets

SITES, VALUES = [3, 1], [1, 0]


def categories():
    rng = np.random.default_rng(5)
    field, bond = rng.normal(size=(3, 3)), 0.5 * rng.normal(size=(3, 3))

    def log_density(code):
        return jnp.sum(field * code) + code[0] @ bond @ code[1] + code[1] @ bond @ code[2]

    return hs.LogDensity(log_density, (3,), num_states=3)


def ebm():
    weights = jnp.linspace(-1.0, 1.0, 4)
    return hs.learn.EBM(lambda x: jnp.tanh(weights @ x), np.linspace(0.2, 0.7, 4))


def targets():
    found = small_targets()
    tempered = hs.Tempered(found["bernoulli"], found["quadratic"], 0.6)
    names = ("bernoulli", "ising", "fhmm", "quadratic")
    return {**{n: found[n] for n in names}, "rbm": small_rbm(), "ebm": ebm(), "tempered": tempered}


PAIRS = [(0, 1, 0.5), (1, 2, -0.4), (2, 3, 0.7), (0, 3, 0.3)]


def with_smaller():
    """Targets whose free sites are a model of their own."""
    field = np.random.default_rng(2).normal(size=(4, 3))
    return {
        "ising": targets()["ising"],
        "pairwise": hs.Pairwise(PAIRS, np.linspace(-0.5, 0.6, 4)),
        "no pairs left": hs.Pairwise([(1, 0, 0.8), (1, 2, -0.6), (1, 3, 0.5)]),
        "potts": hs.Potts(PAIRS, 3, field),
        "rbm": small_rbm(),
    }


def conditional(target, sites, values):
    """The probabilities of the free sites by enumerating all states."""
    states = hs.check.states(target).reshape(-1, target.num_sites)
    fits = np.all(states[:, sites] == values, axis=1)
    kept = hs.check.probabilities(target)[fits]
    return states[fits], kept / kept.sum()


@pytest.mark.parametrize("name", targets())
def test_it_is_the_conditional_distribution(x64, name):
    target = targets()[name]
    given = hs.clamp(target, SITES, VALUES)
    states, expected = conditional(target, SITES, VALUES)
    np.testing.assert_allclose(hs.check.probabilities(given), expected, atol=1e-12)
    full = given.full(hs.check.states(given))
    np.testing.assert_array_equal(full.reshape(4, -1), states)
    np.testing.assert_array_equal(given.restrict(full), hs.check.states(given))


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        *((kernel, "ising") for kernel in (hs.LBP(), hs.GWG(), hs.DMALA(), hs.RWM())),
        (hs.LBP(), "rbm"),
        (hs.LBP(), "categories"),
        (hs.GWG(), "categories"),
        (hs.DMALA(), "categories"),
    ],
    ids=lambda case: case if isinstance(case, str) else case.name,
)
def test_kernels_leave_it_invariant(x64, kernel, name):
    target = categories() if name == "categories" else targets()[name]
    sites, values = ([1], [2]) if name == "categories" else ([2], [1])
    given = hs.clamp(target, sites, values)
    _, expected = conditional(target, sites, values)
    for scale in (1, 1.6, given.num_sites):
        matrix = hs.check.transition_matrix(given, kernel, scale)
        np.testing.assert_allclose(expected @ matrix, expected, atol=1e-12)
        assert hs.check.irreducible(given, kernel, scale)


@pytest.mark.parametrize("name", with_smaller())
def test_free_sites_are_swept_and_drawn_in_blocks(x64, name):
    """Clamped sites are absorbed into fields; the wrong value of one is noticed."""
    target = with_smaller()[name]
    given = hs.clamp(target, [1], [1])
    _, expected = conditional(target, [1], [1])
    assert given.smaller is not None
    np.testing.assert_allclose(hs.check.probabilities(given), expected, atol=1e-12)
    states = jnp.asarray(hs.check.states(given))
    full = jnp.asarray(given.full(states))
    log_probs = jax.vmap(given.log_prob)(states), jax.vmap(target.log_prob)(full)
    np.testing.assert_allclose(*log_probs, atol=1e-10)
    chosen = choose(given)
    assert isinstance(chosen.kernel, hs.Gibbs) or name == "no pairs left"
    rules = ("gibbs",) if name == "rbm" else ("gibbs", "metropolis")
    for kernel in (hs.Gibbs(rule=rule) for rule in rules):
        matrix = hs.check.transition_matrix(given, kernel, 1.0)
        np.testing.assert_allclose(expected @ matrix, expected, atol=1e-12)
        assert hs.check.irreducible(given, kernel, 1.0)
    free, wrong = np.asarray(given.free_sites), np.zeros(target.num_sites, int)
    twin = eqx.tree_at(lambda t: t.smaller, given, target.given(free, wrong))
    matrix = hs.check.transition_matrix(twin, hs.Gibbs(), 1.0)
    assert np.abs(expected @ matrix - expected).max() > 1e-3


def test_tempered_and_powered_clamped_models_are_swept(x64):
    given = hs.clamp(with_smaller()["pairwise"], [1], [1])
    for target in (Powered(given, 0.7), hs.Tempered(hs.Bernoulli(np.full(3, 0.4)), given, 0.6)):
        assert target.sweep() is not None
        expected = hs.check.probabilities(target)
        matrix = hs.check.transition_matrix(target, hs.Gibbs(), 1.0)
        np.testing.assert_allclose(expected @ matrix, expected, atol=1e-12)


class Forgets(hs.Clamped):
    """A broken twin: gives the ratios of the first sites, not of the free ones."""

    def _of(self, found):
        assert found.log_ratios is not None
        ratios = found.log_ratios.reshape(-1)[: self.num_sites]
        return hs.Evaluation(found.log_prob, ratios, found)


def test_broken_twin_has_other_ratios(x64):
    given = hs.clamp(small_rbm("exact"), [0], [1])
    parts = (given.target, given.free_sites, given.clamped_sites, given.template)
    twin = Forgets(*parts)  # pyright: ignore[reportCallIssue]
    assert hs.check.ratios(given).error < 1e-10
    assert hs.check.ratios(twin).error > 0.1


@pytest.mark.parametrize("name", ["bernoulli", "rbm", "tempered", "categories"])
def test_updates_are_evaluations(x64, name):
    """Moves of free sites reach the target's own update."""
    target = categories() if name == "categories" else targets()[name]
    given = hs.clamp(target, [0], [1])
    n = given.num_sites
    x = jnp.asarray(np.arange(n) % target.num_states, given.state_dtype)
    choice = listed(jnp.asarray([*range(n)][::-1]), jnp.asarray(2))
    values = None if target.num_states == 2 else (x.astype(jnp.int32) + 1) % target.num_states
    move = hs.Move(choice=choice, moved=choice.chosen, values=values)
    updated = given.update(x, given.evaluate(x), move)
    scratch = given.evaluate(apply(x, move))
    same = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12)  # noqa: E731
    jax.tree.map(same, updated, scratch)
    assert given.updates(True) == target.updates(True)


def test_a_run_in_paints(tmp_path):
    """The shape and file of a run; clamped sites stay."""
    rng = np.random.default_rng(1)
    rbm = hs.RBM(rng.normal(size=(3, 3, 4)), np.zeros((3, 4)), np.zeros(3))
    mask = np.zeros((3, 4), bool)
    mask[0] = True
    given = hs.clamp(rbm, mask, np.ones((3, 4), int))
    settings = {"chains": 4, "warmup": 50, "draws": 40, "keep": "all", "progress": False}
    with pytest.warns(hs.ConvergenceWarning):
        run = hs.sample(given, record={"mean": hs.record.SiteMeans()}, **settings)
    assert run.draws is not None
    assert run.draws.shape == (4, 40, 8)
    images = given.full(run.draws)
    assert images.shape == (4, 40, 3, 4)
    assert images[:, :, 0].min() == 1
    assert given.full(run.recorded["mean"].mean).shape == (3, 4)
    run.save(tmp_path / "run")
    loaded = hs.load(tmp_path / "run")
    assert isinstance(loaded.target, hs.Clamped)
    np.testing.assert_array_equal(loaded.target.full(run.last), given.full(run.last))


def test_an_open_choice_of_ratios_passes_through():
    density = hs.LogDensity(lambda x: jnp.sum(x), (40,))
    fair = hs.Bernoulli(np.full(40, 0.5))
    derived = (hs.clamp(density, [0], 1), hs.Tempered(fair, density, 0.5), Powered(density, 0.5))
    for given in derived:
        assert given.ratios == "auto"
        assert given.decided("exact").target.ratios == "exact"
        assert given.decided("exact").ratios == "exact"


BAD: dict[str, Any] = {
    "no target": (
        lambda: hs.clamp("ising", [0], 1),  # pyright: ignore
        TypeError,
        "hopscale target",
    ),
    "all": (lambda: hs.clamp(small_rbm(), range(4), 1), ValueError, "some to leave free; got 4"),
    "none": (lambda: hs.clamp(small_rbm(), [], 1), ValueError, "got 0 of 4"),
    "beyond": (lambda: hs.clamp(small_rbm(), [4], 1), ValueError, r"numbers 0 \.\.\. 3"),
    "twice": (lambda: hs.clamp(small_rbm(), [1, 1], 1), ValueError, "named twice"),
    "halves": (lambda: hs.clamp(small_rbm(), [0.5], 1), TypeError, "numbers of sites"),
    "mask": (lambda: hs.clamp(small_rbm(), [True], 1), ValueError, r"of shape \(4,\)"),
    "value": (lambda: hs.clamp(small_rbm(), [1], -1), ValueError, "Spins"),
    "floats": (lambda: hs.clamp(small_rbm(), [1], 0.5), TypeError, "astype"),
    "count": (lambda: hs.clamp(small_rbm(), [1], [1, 0]), ValueError, "one for each of 1"),
    "full": (lambda: hs.clamp(small_rbm(), [1], 0).full(np.ones(4)), ValueError, "3 free sites"),
    "restrict": (lambda: hs.clamp(small_rbm(), [1], 0).restrict(np.ones(3)), ValueError, "all"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_clamped_is_refused(name):
    make, error, message = BAD[name]
    with pytest.raises(error, match=message):
        make()
