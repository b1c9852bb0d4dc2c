"""DMALA: sites that change independently, and twins that forget a part of the correction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import select
from small import FALSE_ALARM, gap, small_targets


class NoProposalRatio(hs.DMALA):
    """Accepts by pi(y) / pi(x) alone."""

    def _log_ratio(self, target, state, there, odds, move, scale):
        log_ratio = there.log_prob - state.log_prob
        return log_ratio, jnp.isnan(log_ratio)


class OddsOfTheStart(hs.DMALA):
    """Weighs the way back by the weights of the start, normalised by those of the end."""

    def _log_ratio(self, target, state, there, odds, move, scale):
        mixed = there._replace(evaluation=there.evaluation._replace(log_ratios=state.log_ratios))
        return super()._log_ratio(target, state, mixed, odds, move, scale)


class ForgetsThoseThatStay(hs.DMALA):
    """Counts only the sites that change."""

    def _log_ratio(self, target, state, there, odds, move, scale):
        back = self._odds(target, there, scale).sites - odds.sites
        log_ratio = there.log_prob - state.log_prob + jnp.sum(jnp.where(move.moved, back, 0.0))
        return log_ratio, jnp.isnan(log_ratio)


@pytest.mark.parametrize("twin", [NoProposalRatio, OddsOfTheStart, ForgetsThoseThatStay])
def test_broken_twin_fails(x64, twin):
    target = small_targets()["ising"]
    assert gap(target, hs.DMALA(), 2.5) < 1e-10
    assert gap(target, twin(), 2.5) > 1e-4
    assert not hs.check.invariance(target, twin(), 2.5, draws=400_000, false_alarm=FALSE_ALARM)


def test_frequencies_are_those_of_the_odds():
    """From probabilities of 1e-5 to 1 - 1e-5; each count within what chance allows."""
    log_odds = jnp.array([-11.5, -7.0, -2.0, 0.0, 3.0, 7.0, 11.5])
    keys = jax.random.split(jax.random.key(3), 200_000)
    chosen = jax.jit(jax.vmap(lambda key: select.independent(key, log_odds).chosen))(keys)
    share, expected = np.asarray(chosen.mean(axis=0)), 1 / (1 + np.exp(-np.asarray(log_odds)))
    error = np.sqrt(expected * (1 - expected) / len(keys))
    assert np.abs((share - expected) / error).max() < 5.0  # a false alarm once in 250,000 times


def test_what_never_and_what_always_changes():
    choice = select.independent(jax.random.key(0), jnp.array([-jnp.inf, jnp.inf, -jnp.inf]))
    assert choice.chosen.tolist() == [False, True, False]
    assert int(choice.length) == 1
    assert int(choice.sites[0]) == 1


def test_the_scale_is_the_mean_number_of_sites():
    """On a flat target each of N sites changes with probability (R / N) / (1 + R / N)."""
    target = hs.Bernoulli(np.full(1_000, 0.5))
    for scale in (1.0, 20.0, 1_000.0):
        run = hs.sample(target, hs.DMALA(), chains=50, warmup=0, draws=200, scale=hs.Fixed(scale))
        assert run.acceptance == pytest.approx(1.0, abs=1e-4)
        assert run.ejd == pytest.approx(scale / (1 + scale / 1_000), rel=0.05)


def test_steps_are_those_of_zhang_liu_and_liu(x64):
    """With g = sqrt, at the step size that gives the same h at one state."""
    target, x, scale = small_targets()["quadratic"], jnp.array([1, 0, 0, 1]), 1.7
    kernel = hs.DMALA()
    state = kernel.init(target, x)
    odds = kernel._odds(target, state, scale).sites
    slope = np.asarray(target.log_ratios(x))  # -(2 x - 1) times the gradient
    alpha = -1 / (2 * np.log(scale / np.exp(slope / 2).sum()))
    stay_or_change = np.exp(np.stack([np.zeros(4), slope / 2 - 1 / (2 * alpha)]))
    expected = stay_or_change[1] / stay_or_change.sum(axis=0)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), expected, rtol=1e-12)


def test_it_is_tuned_like_lbp():
    target = hs.paper.bernoulli(size=800, key=0)
    run = hs.sample(target, hs.DMALA("barker"), chains=50, warmup=500, draws=500)
    assert run.acceptance == pytest.approx(0.574, abs=0.06)
    assert run.ejd > 30
    p, found = (
        np.asarray(target.p),
        hs.sample(
            target, hs.DMALA(), chains=50, warmup=500, draws=1_000, record=hs.record.SiteMeans()
        ),
    )
    assert np.abs(found.recorded["SiteMeans"].mean - p).max() < 0.05


def test_chains_stay_where_every_neighbour_is_impossible():
    """No site has weight: a step changes nothing, and loses nothing."""

    def all_or_nothing(x):
        return jnp.where((jnp.sum(x) == 0) | (jnp.sum(x) == 5), 0.0, -jnp.inf)

    target = hs.LogDensity(all_or_nothing, (5,), ratios="exact")
    state = hs.DMALA().init(target, jnp.zeros(5, jnp.int8))
    after, info = hs.DMALA().step(jax.random.key(0), target, state, jnp.asarray(2.0))
    assert after.x.tolist() == [0] * 5
    assert int(info.distance) == 0
    assert not bool(info.invalid)


def test_a_proposal_that_is_not_a_number_is_rejected_and_counted():
    def log_density(x):
        return jnp.where(jnp.sum(x) > 3, jnp.nan, jnp.sum(x) * 0.5)

    target = hs.LogDensity(log_density, (6,), ratios="gradient")
    with pytest.warns(hs.ConvergenceWarning):
        run = hs.sample(
            target, hs.DMALA(), chains=8, warmup=0, draws=200, scale=hs.Fixed(3), keep="all",
            init=np.zeros(6, np.int8),
        )  # fmt: skip
    assert run.invalid > 0
    assert run.draws is not None
    assert run.draws.sum(axis=-1).max() <= 3
