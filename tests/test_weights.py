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
    one_has_all = jnp.where(jnp.arange(300)[:, None] == 7, easy, easy - 40.0)
    cases = (easy, 20), (easy, 0), (easy, 299), (hard, 40), (hard, 300), (one_has_all, 40)
    for ratios, length in cases:
        arguments = jax.random.key(length), ratios, here, jnp.int32(length)
        ours, plain = ([np.asarray(part) for part in run(*arguments)] for run in runs)
        np.testing.assert_array_equal(ours[0][:length], plain[0][:length])
        possible = np.isfinite(ratios).any(axis=1)  # without any weight, one value is as good
        np.testing.assert_array_equal(ours[1][possible], plain[1][possible])
        for a, b in zip(ours[2:], plain[2:], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-3)
        np.testing.assert_allclose(ours[2][0], ours[2][1], rtol=2e-6, atol=2e-3)


def extreme_ratios(n, k, rng):
    """Chains whose weights single precision holds badly or not at all; the present values."""
    easy = rng.normal(0, 2, (n, k))
    small_beside_large = np.where(rng.random((n, 1)) < 0.8, -69.0, 0.0) + 0.1 * easy  # 1e-30, 1
    one_has_all = np.where(np.arange(n)[:, None] == 7, 0.0, -40.0) + easy
    small, smaller = easy - 30.0, easy - 300.0  # the sum of small ones single precision holds
    values_without = np.where(rng.random((n, k)) < 0.3, -np.inf, 20 * easy)
    infinite = np.where(np.arange(n)[:, None] == 7, np.inf, easy)
    none = np.full((n, k), -np.inf)
    hard = np.asarray(hard_ratios(n, k, rng)[0])
    invalid = np.where(np.arange(n)[:, None] == n - 1, np.nan, easy)
    chains = (
        easy, easy, easy, small_beside_large, one_has_all, small, smaller, values_without,
        infinite, none, hard, invalid,
    )  # fmt: skip
    lengths = [0, 1, n, *[40] * (len(chains) - 3)]
    ratios = np.stack(chains).astype(np.float32)
    return ratios, rng.integers(0, k, ratios.shape[:2]).astype(np.int8), np.array(lengths, np.int32)


def ordered_log_prob(ratios, here, drawn, sites):
    """Of sites without replacement and their values, in double precision; NaN if a weight is."""
    log_g = -np.logaddexp(0.0, -ratios.astype(float))
    log_g[np.arange(here.size), here] = -np.inf
    totals = np.logaddexp.reduce(log_g, axis=1)
    rest = np.logaddexp.reduce(np.delete(totals, sites), initial=-np.inf)
    left = np.logaddexp.accumulate(np.append(rest, totals[sites[::-1]]))[:0:-1]
    own = log_g[sites, drawn[sites]]
    return np.nan if np.isnan(rest) else np.where(own == -np.inf, own, own - left).sum()


@pytest.mark.skipif(not cpu.ready()[0], reason="the kernels are not built")
@pytest.mark.parametrize("values", [3, 4, 5, 7])
def test_extreme_weights_of_values_are_scored_as_in_double_precision(values):
    """Whatever stands at the present value, which is no choice."""
    ratios, here, lengths = extreme_ratios(261, values, np.random.default_rng(values))
    keys = jax.random.split(jax.random.key(values), len(lengths))

    @jax.jit
    @jax.vmap
    def run(key, ratios, here, length):
        sites, chosen, drawn, log_prob = cpu.race_values(
            key, ratios, here, length, balance="barker"
        )
        way = ratios, here, drawn, sites, chosen, length
        scores = [cpu.order_values(*way, balance="barker", backwards=b) for b in (False, True)]
        return sites, chosen, drawn, jnp.stack([log_prob, *scores])

    found = [np.asarray(part) for part in run(keys, ratios, here, lengths)]
    for present in (np.nan, np.inf, -np.inf):
        other = np.where(np.arange(values) == here[..., None], np.float32(present), ratios)
        for ours, again in zip(found, run(keys, other, here, lengths), strict=True):
            np.testing.assert_array_equal(ours, again)
    for chain, (sites, chosen, drawn, scores) in enumerate(zip(*found, strict=True)):
        sites = sites[: lengths[chain]]
        np.testing.assert_array_equal(np.flatnonzero(chosen), np.sort(sites))
        np.testing.assert_array_equal(drawn != here[chain], chosen)
        assert ((drawn >= 0) & (drawn < values)).all()
        given = ratios[chain], here[chain], drawn
        with np.errstate(invalid="ignore"):
            forth, back = ordered_log_prob(*given, sites), ordered_log_prob(*given, sites[::-1])
        np.testing.assert_allclose(scores, [forth, forth, back], rtol=2e-6, atol=2e-3)


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
