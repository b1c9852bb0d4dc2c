"""Weights of sites with several values, and the values that chosen sites draw."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import hopscale as hs
from hopscale import move as moves
from hopscale.kernels.weights import site_weights
from hopscale.native import cpu, reference
from hopscale.select import listed
from small import FALSE_ALARM

RATIOS = np.array([[0.0, 1.5, -2.0], [-300.0, 0.0, -310.0], [500.0, -1.0, 0.0], [0.0, -1e30, 3.0]])
HERE = np.array([0, 1, 2, 0])


def weights(balance):
    target = hs.LogDensity(jnp.sum, (4,), 3)
    evaluation = hs.Evaluation(jnp.zeros(()), jnp.asarray(RATIOS, target.dtype))
    return site_weights(balance, target, hs.ChainState(jnp.asarray(HERE, jnp.int8), evaluation))


@pytest.mark.parametrize("balance", ["barker", "sqrt", "min", "max"])
def test_a_sites_weight_is_the_sum_over_its_other_values(balance):
    """Also where single precision would lose the weights themselves."""
    found = weights(balance)
    log_g = np.array(hs.balance.apply(balance, jnp.asarray(RATIOS)))
    log_g[np.arange(4), HERE] = -np.inf
    truth = scipy.special.logsumexp(log_g, axis=1)
    np.testing.assert_allclose(found.sites.values, truth, rtol=1e-5, atol=1e-5)


def test_chosen_sites_draw_values_by_weight():
    found, draws = weights("barker"), 20_000
    choice = listed(jnp.asarray([0, 3, 1, 2]), jnp.asarray(2))
    keys = jax.random.split(jax.random.key(0), draws)
    values = np.asarray(jax.jit(jax.vmap(lambda key: found.draw_values(key, choice)))(keys))
    p = scipy.special.expit(RATIOS[0])
    count = int((values[:, 0] == 1).sum())
    assert scipy.stats.binomtest(count, draws, p[1] / (p[1] + p[2])).pvalue > FALSE_ALARM
    assert set(values[:, 0]) == {1, 2}
    assert set(values[:, 3]) == {2}  # the other value has next to no weight


def hard_ratios(n, k, rng):
    """Also where weights are far too small, too large, or none."""
    ratios = rng.normal(0, 3, (n, k))
    ratios[::23] -= 400.0
    ratios[3::29] += 400.0
    ratios[5::31] = -np.inf
    return jnp.asarray(ratios, jnp.float32), jnp.asarray(rng.integers(0, k, n), jnp.int8)


def weigh_draw_and_score(module, balance):
    @jax.jit
    def run(key, ratios, here, sites, length):
        totals = module.value_totals(ratios, here, balance=balance)
        drawn = module.draw_values(key, ratios, here, sites, length, balance=balance)
        possible = reference.flags(sites, length) & jnp.isfinite(totals)
        scored = [
            module.values_log_prob(ratios, here, totals, drawn, moved, balance=balance)
            for moved in (possible, reference.flags(sites, length))
        ]
        return totals, drawn, jnp.stack(scored)

    return run


@pytest.mark.skipif(not cpu.ready()[0], reason="the kernels are not built")
@pytest.mark.parametrize(
    ("balance", "values"), [(None, 5), ("barker", 5), ("sqrt", 3), ("barker", 9)]
)
def test_kernels_weigh_and_draw_values_as_plain_jax_does(balance, values):
    n, rng = 300, np.random.default_rng(values)
    ratios, here = hard_ratios(n, values, rng)
    sites = jnp.asarray(rng.permutation(n), jnp.int32)
    runs = [weigh_draw_and_score(module, balance) for module in (cpu, reference)]
    for length in (1, 129, n):
        arguments = jax.random.key(length), ratios, here, sites, jnp.int32(length)
        ours, plain = ([np.asarray(part) for part in run(*arguments)] for run in runs)
        possible = np.isfinite(plain[0])
        np.testing.assert_allclose(ours[0], plain[0], rtol=2e-6, atol=2e-6)
        np.testing.assert_array_equal(ours[1][possible], plain[1][possible])
        np.testing.assert_allclose(ours[2], plain[2], rtol=1e-5, atol=1e-4)
        assert ours[1].dtype == np.int8
        assert ((ours[1] >= 0) & (ours[1] < values)).all()
        later = np.setdiff1d(np.arange(n), np.asarray(sites)[:length])
        np.testing.assert_array_equal(ours[1][later], np.asarray(here)[later])


def race_and_score(implementation, balance):
    """A step's choice of sites and values and its way back, by the functions a kernel has."""
    kernel = hs.LBP(balance, implementation=implementation)
    target = hs.Potts.lattice((20, 15), 5)

    @jax.jit
    def run(key, ratios, here, length):
        evaluation = hs.Evaluation(jnp.zeros((), jnp.float32), ratios.reshape(20, 15, 5))
        state = hs.ChainState(here.reshape(20, 15), evaluation)
        move, log_prob = kernel.choose(key, target, state, length)
        there = hs.ChainState(moves.apply(state.x, move), evaluation)
        zero = jnp.zeros((), jnp.float32)
        settled = kernel.settle(zero, target, state, there, move, zero)
        score = kernel.score(target, state, move, way_back=False)
        return move.choice.sites, move.values, jnp.stack([log_prob, score]), settled.log_ratio

    return run


@pytest.mark.skipif(not cpu.ready()[0], reason="the kernels are not built")
@pytest.mark.parametrize("balance", ["barker", "sqrt"])
def test_sites_and_values_chosen_in_one_go_are_those_chosen_in_turn(balance):
    """Also where weights are too large, too small or none, and where nearly all sites move."""
    rng = np.random.default_rng(0)
    easy = jnp.asarray(rng.normal(0, 2, (300, 5)), jnp.float32)
    hard, here = hard_ratios(300, 5, rng)
    runs = [race_and_score(implementation, balance) for implementation in ("auto", "reference")]
    for ratios, length in ((easy, 20), (easy, 0), (easy, 299), (hard, 40), (hard, 300)):
        arguments = jax.random.key(length), ratios, here, jnp.int32(length)
        ours, plain = ([np.asarray(part) for part in run(*arguments)] for run in runs)
        np.testing.assert_array_equal(ours[0][:length], plain[0][:length])
        possible = np.isfinite(ratios).any(axis=1)  # without any weight, one value is as good
        np.testing.assert_array_equal(ours[1][possible], plain[1][possible])
        for a, b in zip(ours[2:], plain[2:], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-3)
        np.testing.assert_allclose(ours[2][0], ours[2][1], rtol=2e-6, atol=2e-3)


@pytest.mark.skipif(not cpu.ready()[0], reason="the kernels are not built")
def test_kernels_price_the_values_of_a_potts_model_as_plain_jax_does():
    target = hs.Potts.lattice((5, 4), 3, 0.7, np.random.default_rng(0).normal(size=(5, 4, 3)))
    graph = target.graph
    x = jnp.asarray(np.random.default_rng(1).integers(0, 3, (6, 20)), jnp.int8)
    field = target.field.reshape(-1, 3).astype(jnp.float32)
    rows = graph.start, graph.neighbour, graph.weight.astype(jnp.float32)
    ours, plain = (
        jax.vmap(lambda x: module.potts(x, field, *rows, degree=graph.degree))(x)  # noqa: B023
        for module in (cpu, reference)
    )
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
