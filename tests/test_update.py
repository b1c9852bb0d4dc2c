"""Updating an evaluation after a move, against evaluating from scratch."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import select
from hopscale.engine import loop
from hopscale.move import Move, apply
from small import small_targets

RNG = np.random.default_rng(31)
FIELD, CUBE = RNG.normal(size=(5, 7)), RNG.normal(size=(3, 4, 3))
BONDS = RNG.normal(size=(4, 7)), RNG.normal(size=(5, 6))
Y, W = RNG.normal(size=6), RNG.normal(size=5)
RBM = RNG.normal(size=(9, 16)), RNG.normal(size=16), RNG.normal(size=9)
PAIRS = 0.3 * RNG.normal(size=(12, 12))
CODE = RNG.normal(size=(8, 4))
ENERGY = 0.3 * RNG.normal(size=(16, 6))


def quadratic(x):
    return x @ (jnp.asarray(PAIRS, x.dtype) @ x)


def categorical(code):
    return jnp.sum(jnp.asarray(CODE, code.dtype) * code) + 0.4 * jnp.sum(code[1:] * code[:-1])


def energy(x):
    return jnp.sum(jnp.tanh(x.reshape(-1) @ jnp.asarray(ENERGY, x.dtype)))


TARGETS = {
    "bernoulli": lambda: hs.Bernoulli(np.linspace(0.05, 0.95, 40)),
    "ising": lambda: hs.Ising(FIELD, 0.3),
    "ising with a bond for each pair": lambda: hs.Ising(FIELD, BONDS),
    "ising in three dimensions": lambda: hs.Ising(CUBE, (0.2, -0.1, 0.4)),
    "fhmm": lambda: hs.FHMM(Y, W, 0.1, 0.8),
    "fhmm along factors": lambda: hs.FHMM(Y, W, 0.1, 0.8, axis="factor", ratios="gradient"),
    "rbm": lambda: hs.RBM(*RBM),
    "rbm with exact ratios": lambda: hs.RBM(*RBM, ratios="exact"),
    "log-density": lambda: hs.LogDensity(quadratic, (12,), ratios="gradient"),
    "log-density with exact ratios": lambda: hs.LogDensity(quadratic, (12,), ratios="exact"),
    "categories": lambda: hs.LogDensity(categorical, (8,), 4, ratios="gradient"),
    "pairwise": lambda: hs.Pairwise(np.triu(PAIRS, 1), RNG.normal(size=12)),
    "tempered": lambda: hs.Tempered(hs.Bernoulli(np.full(16, 0.4)), hs.RBM(*RBM), 0.3),
    "tempered to the end": lambda: hs.Tempered(
        hs.Bernoulli(np.full((5, 7), 0.4)), hs.Ising(FIELD, BONDS), 1.0
    ),
}


def random_move(key, target, x) -> Move:
    """A move of a random number of random sites, to random other values."""
    key_length, key_sites, key_values = jax.random.split(key, 3)
    length = jax.random.randint(key_length, (), 1, target.num_sites + 1)
    choice = select.uniform(key_sites, target.num_sites, length)
    values = None
    if target.num_states > 2:
        by = jax.random.randint(key_values, (target.num_sites,), 1, target.num_states)
        values = (x.reshape(-1).astype(jnp.int32) + by) % target.num_states
    return Move(choice=choice, moved=choice.chosen, values=values)


def gap(one: hs.Evaluation, other: hs.Evaluation):
    """The largest difference between two evaluations."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    each = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b)), one, other)
    return functools.reduce(jnp.maximum, jax.tree.leaves(each))


@eqx.filter_jit
def gaps(target, moves: int, ratios: bool):
    """How far one update is off, and how far updates are that were never refreshed."""
    evaluate = functools.partial(target.evaluate, ratios=ratios)

    def step(carried, key):
        x, carried = carried
        move = random_move(key, target, x)
        y = apply(x, move)
        carried, once = target.update(x, carried, move), target.update(x, evaluate(x), move)
        return (y, carried), jnp.stack([gap(once, evaluate(y)), gap(carried, evaluate(y))])

    x = jnp.zeros(target.shape, target.state_dtype)
    keys = jax.random.split(jax.random.key(1), moves)
    return jax.lax.scan(step, (x, evaluate(x)), keys)[1].max(axis=0)


@pytest.mark.parametrize("name", TARGETS)
def test_updates_are_evaluations(x64, name):
    """Over 4,000 moves, in double precision."""
    once, carried = gaps(TARGETS[name](), 4000, ratios=True)
    assert once < 1e-10
    assert carried < 1e-10


@pytest.mark.parametrize("name", ["bernoulli", "ising", "fhmm", "rbm", "categories", "tempered"])
def test_updates_without_ratios_are_evaluations(x64, name):
    once, carried = gaps(TARGETS[name](), 4000, ratios=False)
    assert max(once, carried) < 1e-10
    assert TARGETS[name]().evaluate(np.zeros(TARGETS[name]().shape, int), False).log_ratios is None


# In nats, over the steps that lie between two evaluations from scratch: a thousandth of what would
# change an acceptance probability by 1%.
DRIFT = 1e-3


@pytest.mark.parametrize("name", TARGETS)
def test_single_precision_drifts_little_before_it_is_refreshed(name):
    target = TARGETS[name]()
    ratios = target.updates(True) or not target.updates(False)  # as it is updated
    assert gaps(target, loop.FRESH_STEPS, ratios).max() < DRIFT


def test_updates_of_an_energy_based_model_are_evaluations(x64):
    try:
        target = hs.learn.EBM(energy, hs.Bernoulli(np.full(16, 0.3)))
    except (ImportError, AttributeError) as error:
        pytest.skip(f"hopscale.learn is not there: {error}")
    assert max(gaps(target, 1000, ratios=True)) < 1e-10


class ForgetsItsRatios(hs.Bernoulli):
    """Updates the log-probability, and leaves the log-ratios of moved sites as they were."""

    def _update(self, x, evaluation, move):
        return super()._update(x, evaluation, move)._replace(log_ratios=evaluation.log_ratios)


def test_broken_twin_is_told_apart(x64):
    broken = ForgetsItsRatios(np.array([0.1, 0.5, 0.6, 0.95]))  # pyright: ignore
    assert min(gaps(broken, 100, ratios=True)) > 0.1
    pi = hs.check.probabilities(broken)
    matrix = hs.check.transition_matrix(broken, hs.LBP(), 2)
    assert np.abs(pi @ matrix - pi).max() > 1e-3
    right = hs.check.transition_matrix(small_targets()["bernoulli"], hs.LBP(), 2)
    assert np.abs(pi @ right - pi).max() < 1e-12


def test_zero_density_stays_zero_under_tempering():
    """At the ends of the path the other side does not count, even where it is infinite."""
    base = hs.Bernoulli(np.full(2, 0.5))
    target = hs.LogDensity(lambda x: jnp.where(x[0] == 1, -jnp.inf, 0.0), (2,), ratios="exact")
    x = jnp.asarray([0, 1])
    assert np.isfinite(hs.Tempered(base, target, 0.0).log_ratios(x)).all()
    assert hs.Tempered(base, target, 0.5).log_ratios(x)[0] == -np.inf
    assert hs.Tempered(base, target, 1.0).log_prob(np.array([1, 0])) == -np.inf
