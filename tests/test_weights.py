"""Weights of sites with several values, and the values that chosen sites draw."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import hopscale as hs
from hopscale.kernels.weights import site_weights
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
