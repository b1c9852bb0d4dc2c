"""Choices and their probabilities against enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from hopscale import balance, select
from small import FALSE_ALARM

WEIGHTS = np.array([0.1, 1.0, 2.5, 0.7, 0.01])


def log(weights, dtype=None):
    return select.Weights(jnp.log(jnp.asarray(weights, dtype)), None)


def order_probability(weights, order):
    """The product of w / (what is left), step by step."""
    left, probability = weights.sum(), 1.0
    for site in order:
        probability *= weights[site] / left
        left -= weights[site]
    return probability


def drawn(choose, draws, *arguments, **settings):
    keys = jax.random.split(jax.random.key(1), draws)
    return jax.jit(jax.vmap(lambda key: choose(key, *arguments, **settings)))(keys)


def p_value(observed, probabilities):
    expected = observed.sum() * probabilities / probabilities.sum()
    return scipy.stats.chisquare(observed, expected).pvalue


@pytest.mark.parametrize("implementation", ["auto", "reference"])
def test_race_orders_have_their_probabilities(implementation):
    length = 2
    choice, log_prob = drawn(
        select.race, 40_000, log(WEIGHTS), jnp.asarray(length), implementation=implementation
    )
    pairs = list(itertools.permutations(range(5), length))
    code = np.asarray(choice.sites[:, 0] * 5 + choice.sites[:, 1])
    observed = np.bincount(code, minlength=25)[[a * 5 + b for a, b in pairs]]
    probabilities = np.array([order_probability(WEIGHTS, pair) for pair in pairs])
    assert probabilities.sum() == pytest.approx(1.0)
    assert p_value(observed, probabilities) > FALSE_ALARM
    # A race by the wrong weights is told apart.
    wrong = np.array([order_probability(WEIGHTS**0.9, pair) for pair in pairs])
    assert p_value(observed, wrong) < FALSE_ALARM
    by_pair = dict(zip(pairs, np.log(probabilities), strict=True))
    expected = [by_pair[tuple(pair)] for pair in np.asarray(choice.sites[:1000, :2])]
    np.testing.assert_allclose(log_prob[:1000], expected, rtol=1e-4)


# Log-weights, and how many sites come first, always the same: then rounds or clocks decide.
SCARCE = {
    "one site has nearly all the weight": ([0.0, -30.0, -30.5, -31.0], 1),
    "each site has nearly all that is left": ([*(-40.0 * np.arange(9)), -360, -360.5, -361], 9),
    "two of a million": ([0.0, 0.0, *np.log([1e-6, 2e-6, 1.5e-6])], 2),
}


@pytest.mark.parametrize("case", list(SCARCE))
@pytest.mark.parametrize("implementation", ["auto", "reference"])
def test_the_last_sites_have_their_probabilities_too(case, implementation):
    """Where draws repeat almost endlessly: what is left is drawn by the weights left."""
    values, first = SCARCE[case]
    n = len(values)
    weights = select.Weights(jnp.asarray(values, jnp.float32), None)
    choice, log_prob = drawn(
        select.race, 5_000, weights, jnp.asarray(n), implementation=implementation
    )
    sites = np.asarray(choice.sites)
    as_expected = (np.sort(sites[:, :first], axis=1) == np.arange(first)).all(axis=1)
    assert as_expected.mean() > 0.999
    rest = np.exp(np.asarray(values[first:]) - max(values[first:]))
    orders = list(itertools.permutations(range(n - first)))
    taken = sites[as_expected][:, first:] - first
    observed = np.array([(taken == order).all(axis=1).sum() for order in orders])
    probabilities = np.array([order_probability(rest, order) for order in orders])
    assert p_value(observed, probabilities) > FALSE_ALARM
    # As if what is left were drawn without looking at the weights.
    assert p_value(observed, np.ones(len(orders))) < FALSE_ALARM
    assert np.isfinite(log_prob).all()


@pytest.mark.parametrize("length", [1, 3, 5])
def test_order_log_prob_is_the_product_of_choices(x64, length):
    for order in itertools.permutations(range(5)):
        choice = select.listed(jnp.asarray(order), jnp.asarray(length))
        forth = select.order_log_prob(log(WEIGHTS), choice)
        back = select.order_log_prob(log(WEIGHTS), choice, backwards=True)
        assert np.exp(forth) == pytest.approx(order_probability(WEIGHTS, order[:length]), 1e-12)
        turned = order[:length][::-1]
        assert np.exp(back) == pytest.approx(order_probability(WEIGHTS, turned), 1e-12)


def test_extreme_weights_do_not_cancel(x64):
    weights = np.array([1.0, 1e-30, 2e-30])
    choice = select.listed(jnp.array([0, 1, 2]), jnp.asarray(2))
    log_prob = select.order_log_prob(log(weights), choice)
    assert np.exp(log_prob) == pytest.approx(1 / 3, 1e-12)
    single = select.order_log_prob(log(weights, jnp.float32), choice)
    assert np.exp(single) == pytest.approx(1 / 3, 1e-5)


def test_log_weights_far_apart_stay_finite():
    weights = select.Weights(jnp.array([0.0, -500.0, -900.0, 300.0]), None)
    for length in range(1, 5):
        choice, log_prob = select.race(jax.random.key(0), weights, jnp.asarray(length))
        assert choice.sites[:length].tolist() == [3, 0, 1, 2][:length]
        assert log_prob == pytest.approx(0.0, abs=1e-5)


def test_sites_without_weight_come_last():
    weights = select.Weights(jnp.array([-jnp.inf, 0.0, -jnp.inf, 0.0]), None)
    choice, log_prob = select.race(jax.random.key(0), weights, jnp.asarray(2))
    assert set(choice.sites[:2].tolist()) == {1, 3}
    assert log_prob == pytest.approx(np.log(0.5))
    _, impossible = select.race(jax.random.key(0), weights, jnp.asarray(3))
    assert not np.isfinite(impossible)


def test_repeated_draws_have_their_probabilities():
    choice, log_prob = drawn(select.repeated, 100_000, log(WEIGHTS), jnp.asarray(2))
    p = WEIGHTS / WEIGHTS.sum()
    code = np.asarray(choice.sites[:, 0] * 5 + choice.sites[:, 1])
    assert p_value(np.bincount(code, minlength=25), np.outer(p, p).ravel()) > FALSE_ALARM
    sites = np.asarray(choice.sites[:100, :2])
    np.testing.assert_allclose(log_prob[:100], np.log(p[sites]).sum(axis=1), rtol=1e-4)


def test_repeated_never_draws_a_site_without_weight():
    weights = select.Weights(jnp.array([-jnp.inf, 0.0, 0.0, -jnp.inf]), None)
    choice, _ = drawn(select.repeated, 10_000, weights, jnp.asarray(4))
    assert set(np.unique(choice.sites)) == {1, 2}


def test_chosen_and_odd_count_draws():
    choice = select.listed(jnp.array([2, 0, 2, 1, 3]), jnp.asarray(4))
    assert choice.chosen.tolist() == [True, True, True, False, False]
    assert select.odd(choice).tolist() == [True, True, False, False, False]


def test_uniform_pairs_are_uniform():
    choice = drawn(select.uniform, 50_000, 4, jnp.asarray(2))
    code = np.asarray(choice.sites[:, 0] * 4 + choice.sites[:, 1])
    pairs = [a * 4 + b for a, b in itertools.permutations(range(4), 2)]
    assert p_value(np.bincount(code, minlength=16)[pairs], np.ones(12)) > FALSE_ALARM
    assert np.all(choice.chosen.sum(axis=1) == 2)


@pytest.mark.parametrize("implementation", ["auto", "reference"])
def test_a_longer_choice_begins_like_a_shorter_one(implementation):
    """Draws depend on the key and their number alone."""
    weights = select.Weights(jax.random.normal(jax.random.key(1), (500,)), None)
    settings = {"implementation": implementation}
    few, _ = select.race(jax.random.key(3), weights, jnp.asarray(20), **settings)
    many, _ = select.race(jax.random.key(3), weights, jnp.asarray(100), **settings)
    np.testing.assert_array_equal(few.sites[:20], many.sites[:20])


def test_implementation_is_an_argument():
    key, length = jax.random.key(0), jnp.asarray(2)
    for implementation in ("auto", "reference"):
        choice, _ = select.race(key, log(WEIGHTS), length, implementation=implementation)
        assert int(choice.chosen.sum()) == 2
    with pytest.raises(ValueError, match="'auto' or 'reference'; got 'kernels'"):
        select.uniform(key, 5, length, implementation="kernels")


@pytest.mark.parametrize("name", list(balance.NAMED))
def test_a_named_balancing_function_is_its_name(name):
    """Given as a function it must reach the same kernels, not be applied before them."""
    values = jnp.log(jnp.asarray(WEIGHTS, jnp.float32))

    def program(given):
        def one(values):
            return select.race(jax.random.key(0), select.Weights(values, given), jnp.int32(2))

        return str(jax.make_jaxpr(one)(values))

    assert program(balance.NAMED[name]) == program(name)
