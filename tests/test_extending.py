"""How to add a kernel, a proposal, a target, a tuner and a recorder: a few lines each."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import select
from hopscale.tune import TunerState
from runs import errors_away, most_errors
from small import FALSE_ALARM, small_targets


class Glauber(hs.Kernel):
    """A kernel: draw one random bit from its conditional distribution. It has no scale."""

    name = "glauber"
    informed = True  # the state carries log-ratios

    def step(self, key, target, state, scale):
        key_site, key_value = jax.random.split(key)
        site = jax.random.randint(key_site, (), 0, target.num_sites)
        assert state.log_ratios is not None
        prob = jax.nn.sigmoid(state.log_ratios.reshape(-1)[site])
        flip = jax.random.bernoulli(key_value, prob)
        y = state.x.reshape(-1).at[site].add(flip.astype(state.x.dtype)) % 2
        y = y.reshape(target.shape)
        info = hs.Info(
            accept_prob=prob,
            accepted=flip,
            distance=flip.astype(jnp.int32),
            invalid=jnp.isnan(prob),
            proposal=y,
        )
        return self.init(target, y), info


class Neighbours(hs.Metropolis):
    """A proposal: R sites in a row, from a random first one on. `score` is its log-probability."""

    name = "neighbours"
    informed = False
    rate = 0.234
    replacement = False

    def choose(self, key, target, state, length):
        n = target.num_sites
        first = jax.random.randint(key, (), 0, n)
        choice = select.listed((first + jnp.arange(n)) % n, length)
        move = hs.Move(choice=choice, moved=choice.chosen, values=None)
        return move, self.score(target, state, move, way_back=False)

    def score(self, target, state, move, way_back):
        return -jnp.log(jnp.asarray(target.num_sites, target.dtype))


class Majority(hs.Target):
    """A target: bits that like to agree, log pi(x) = strength |ones - zeros|."""

    strength: jax.Array
    size: int = eqx.field(static=True)

    num_states = 2
    ratios = "exact"

    def __init__(self, strength, size):
        self.strength, self.size = jnp.asarray(strength), size

    @property
    def shape(self):
        return (self.size,)

    @property
    def dtype(self):
        return self.strength.dtype

    def _log_prob(self, x):
        return self._of(jnp.sum(x, dtype=jnp.int32))

    def _of(self, ones):
        return self.strength * jnp.abs(2.0 * ones - self.size).astype(self.dtype)

    def _evaluate(self, x):
        ones = jnp.sum(x, dtype=jnp.int32)
        here = self._of(ones)
        return hs.Evaluation(here, jnp.where(x == 1, self._of(ones - 1), self._of(ones + 1)) - here)


class Halving(hs.Tuner):
    """A tuner: half the scale after a step that few chains accept, 1 more after another."""

    def init(self, scales, chains, dtype):
        return TunerState(scale=jnp.asarray(scales.start, dtype))

    def update(self, state, info, scales):
        few = jnp.mean(info.accept_prob) < scales.rate
        scale = jnp.where(few, 0.5 * state.scale, state.scale + 1.0)
        return TunerState(scale=jnp.clip(scale, scales.low, scales.tuned_high))


class Transitions(hs.record.Recorder):
    """A recorder: how often each bit was flipped."""

    def init(self, target, chains):
        return {
            "last": jnp.zeros((chains, *target.shape), jnp.int8),
            "flips": jnp.zeros(target.shape),
        }

    def update(self, memory, states, info):
        flips = jnp.sum(memory["last"] != states.x, axis=0)
        return {"last": states.x, "flips": memory["flips"] + flips}

    def result(self, memory, draws):
        return np.asarray(memory["flips"])


def means(target, kernel=None, **settings) -> tuple[float, Any]:
    """How far the means of a run are from enumeration, in standard errors; and the run."""
    run = hs.sample(
        target, kernel, chains=100, warmup=200, draws=500, keep=5, progress=False, **settings
    )
    assert run.draws is not None
    truth = hs.check.probabilities(target) @ hs.check.states(target).reshape(-1, target.num_sites)
    by_chain = run.draws.reshape(100, -1, target.num_sites).mean(axis=1)
    return errors_away(by_chain, truth), run


def test_a_kernel():
    target = small_targets()["ising"]
    off, run = means(target, Glauber())
    assert off < most_errors(4, 100)
    assert run.scale is None
    assert hs.check.invariance(target, Glauber(), false_alarm=FALSE_ALARM)
    with pytest.raises(TypeError, match=r"use check\.invariance"):
        hs.check.irreducible(target, Glauber(), 1)


def test_a_proposal():
    target = small_targets()["quadratic"]
    off, run = means(target, Neighbours())
    assert off < most_errors(4, 100)
    assert 1 <= float(run.scale) <= 2
    for scale in (1, 2.5, 4):
        assert hs.check.invariance(target, Neighbours(), scale, false_alarm=FALSE_ALARM)


def test_a_target():
    off, _ = means(Majority(0.4, 5))
    assert off < most_errors(5, 100)
    with jax.enable_x64(True):
        target = Majority(0.4, 5)
        pi = hs.check.probabilities(target)
        for scale in (1, 2, 5):
            matrix = hs.check.transition_matrix(target, hs.LBP(), scale)
            np.testing.assert_allclose(pi @ matrix, pi, atol=1e-12)
            assert hs.check.irreducible(target, hs.LBP(), scale)


def test_a_tuner():
    off, run = means(small_targets()["bernoulli"], scale=Halving())
    assert off < most_errors(4, 100)
    assert 1 <= float(run.scale) <= 2
    assert run.warmup_history["scale"].max() == 2


def test_a_recorder():
    target = small_targets()["bernoulli"]
    run = hs.sample(
        target,
        chains=3,
        warmup=20,
        draws=50,
        keep="all",
        record={"flips": Transitions()},
        progress=False,
    )
    assert run.draws is not None
    whole = np.concatenate([np.zeros((3, 1, 4), np.int8), run.draws], axis=1)
    expected = np.abs(np.diff(whole, axis=1)).sum(axis=(0, 1))
    np.testing.assert_array_equal(run.recorded["flips"], expected)


class Lopsided(Glauber):
    """A broken twin: draws the bit, and then prefers ones."""

    def step(self, key, target, state, scale):
        state, info = super().step(key, target, state, scale)
        up = jax.random.bernoulli(jax.random.fold_in(key, 7), 0.05)
        y = jnp.where(up, jnp.ones_like(state.x), state.x)
        return self.init(target, y), info


def test_a_broken_kernel_is_found():
    target = small_targets()["ising"]
    assert not hs.check.invariance(target, Lopsided(), false_alarm=FALSE_ALARM)
    assert means(target, Lopsided())[0] > most_errors(4, 100)
