"""Swaps keep sums, leave the target invariant given them, and reach all states that have them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.csgraph

import hopscale as hs
from runs import errors_away, most_errors
from small import FALSE_ALARM, small_targets

GROUPS = np.array([0, 1, 0, 1, 0, 1])


def coupled(length, chains):
    """Sites with couplings and fields."""
    rng = np.random.default_rng(3)
    return hs.FHMM(rng.normal(size=length), rng.normal(size=chains), -0.2, 0.7)


def classes(target, groups):
    """The states of each combination of sums by group."""
    states = hs.check.states(target).reshape(-1, target.num_sites).astype(int)
    sums = np.stack([states[:, groups == g].sum(axis=1) for g in np.unique(groups)], axis=1)
    return [np.flatnonzero(np.all(sums == s, axis=1)) for s in np.unique(sums, axis=0)]


def gap(target, kernel, scale):
    """How far one step moves the target; and whether each class is closed and all reached."""
    labels = kernel._labels(target)
    matrix = hs.check.transition_matrix(target, kernel, scale)
    pi = hs.check.probabilities(target)
    assert matrix.min() > -1e-12
    for members in classes(target, labels):
        inside = matrix[np.ix_(members, members)]
        np.testing.assert_allclose(inside.sum(axis=1), 1.0, atol=1e-12)
        groups, _ = scipy.sparse.csgraph.connected_components(inside > 0, connection="strong")
        assert groups == 1
    return np.abs(pi @ matrix - pi).max()


@pytest.mark.parametrize("balance", ["sqrt", "barker", None])
@pytest.mark.parametrize("groups", [None, GROUPS], ids=["one group", "two groups"])
def test_target_is_invariant_given_the_sums(x64, balance, groups):
    groups = None if groups is None else groups[:5]
    for scale in (1, 1.6, 2):
        assert gap(coupled(5, 1), hs.Swap(groups, balance=balance), scale) < 1e-12


def test_three_pairs_of_six_sites(x64):
    assert gap(coupled(3, 2), hs.Swap(GROUPS), 3) < 1e-12


def test_odd_numbers_of_sites(x64):
    target = hs.Bernoulli(np.array([0.1, 0.5, 0.6, 0.9, 0.4]))
    assert gap(target, hs.Swap(), 2) < 1e-12
    assert gap(target, hs.Swap([0, 0, 1, 1, 1]), 1.5) < 1e-12


class SameWay(hs.Swap):
    """A broken twin: the way back is weighed in an order that does not return."""

    def score(self, target, state, move, way_back):
        return super().score(target, state, move, way_back=False)


class NoWayBack(hs.Swap):
    """A broken twin: forgets the proposal."""

    def score(self, target, state, move, way_back):
        if way_back:
            moved = move.moved.reshape(state.x.shape)
            state = self.init(target, state.x ^ moved.astype(state.x.dtype))
        return super().score(target, state, move, way_back=False)


class OnePerStep(hs.Swap):
    """A broken twin that is invariant: two pairs at a time, and so not all states."""

    def length_probabilities(self, scale, num_sites):
        return jnp.arange(1, num_sites + 1) == 2.0


def test_broken_twins_fail(x64):
    assert gap(coupled(5, 1), NoWayBack(), 2) > 1e-4
    # As for LBP, the same order back is as valid; half of it is not.
    assert gap(coupled(5, 1), SameWay(), 2) < 1e-12
    with pytest.raises(AssertionError):
        gap(hs.Bernoulli(np.full(4, 0.5)), OnePerStep(), 2)


@pytest.mark.parametrize("groups", [None, GROUPS[:4]], ids=["one group", "two groups"])
def test_draws_follow_the_probabilities(groups):
    """The kernels as they run, random choices included."""
    target = small_targets()["quadratic"]
    for scale in (1, 2):
        assert hs.check.invariance(target, hs.Swap(groups), scale, false_alarm=FALSE_ALARM)
    if groups is None:
        twin = NoWayBack()
        settings = {"draws": 400_000, "false_alarm": FALSE_ALARM}
        assert not hs.check.invariance(target, twin, 2, **settings)


def test_a_run_keeps_the_sums_and_finds_the_means(tmp_path):
    p = np.linspace(0.1, 0.9, 12)
    groups = np.repeat([5, 7], 6)
    target, kernel = hs.Bernoulli(p), hs.Swap(groups, ones=(2, 3))
    settings: dict[str, Any] = {"chains": 40, "warmup": 100, "draws": 200, "progress": False}
    run = hs.sample(target, kernel, keep="all", **settings)
    assert run.draws is not None
    sums = [run.draws[..., groups == g].sum(axis=-1) for g in (5, 7)]
    assert np.all(sums[0] == 2)
    assert np.all(sums[1] == 3)
    states = hs.check.states(target)
    fits = (states[:, :6].sum(axis=1) == 2) & (states[:, 6:].sum(axis=1) == 3)
    pi = hs.check.probabilities(target)[fits]
    truth = pi @ states[fits] / pi.sum()
    assert errors_away(run.draws.mean(axis=1), truth) < most_errors(12, 40)
    assert "of 5 pairs" in str(run)
    run.save(tmp_path / "run")
    more = hs.load(tmp_path / "run").extend(10, progress=False)
    assert more.num_draws == 210
    assert np.all(more.last.sum(axis=-1) == 5)


BAD: dict[str, Any] = {
    "no sum": (hs.Swap(), {}, ValueError, r"hs\.Swap\(ones=k\)"),
    "other sum": (hs.Swap(ones=2), {"init": [1, 0, 0, 0]}, ValueError, "chain 0 starts with"),
    "sums differ": (hs.Swap(), {"init": [[1, 0, 0, 0], [1, 1, 0, 0]]}, ValueError, "chain 1"),
    "nothing to swap": (hs.Swap(), {"init": [1, 1, 1, 1]}, ValueError, "nothing to swap"),
    "too many": (hs.Swap(ones=5), {}, ValueError, "between 0 and"),
    "groups": (hs.Swap([0, 1]), {}, ValueError, "a label for each of 4"),
    "scale": (hs.Swap(ones=1), {"scale": hs.Fixed(2)}, ValueError, "number of pairs"),
}


@pytest.mark.parametrize("name", BAD)
def test_starts_that_cannot_be_kept_are_refused(name):
    kernel, settings, error, message = BAD[name]
    with pytest.raises(error, match=message):
        hs.sample(hs.Bernoulli(np.full(4, 0.4)), kernel, chains=2, progress=False, **settings)


def test_numbers_of_ones_go_by_label():
    labels = ["red", "blue", "red", "blue", "blue"]
    assert hs.Swap(labels, ones={"red": 1, "blue": 2}) == hs.Swap(labels, ones=(2, 1))
    for groups, ones in ((labels, {"red": 1}), (None, {"red": 1})):
        with pytest.raises(ValueError, match="a number for each label of groups"):
            hs.Swap(groups, ones=ones)


def test_other_arguments_are_refused():
    with pytest.raises(ValueError, match="one for each of 2 groups"):
        hs.Swap([0, 0, 1], ones=[1, 1, 1])
    with pytest.raises(TypeError, match="a label for each site"):
        hs.Swap([0.5, 1.0])
    with pytest.raises(ValueError, match="balance must be"):
        hs.Swap(balance="fair")
    with pytest.raises(TypeError, match="3 values a site"):
        hs.sample(hs.LogDensity(jnp.sum, (3,), 3), hs.Swap(ones=1), progress=False)


def test_uniform_swaps_do_not_ask_for_ratios():
    """So log-probabilities that are updated are refreshed, and no ratios are compared."""
    kernel = hs.Swap(ones=3, balance=None)
    target = hs.LogDensity(lambda x: jnp.where(jnp.sum(x) == 3, jnp.sum(x[:4]), -jnp.inf), (60,))
    assert not kernel.informed
    assert hs.Swap(ones=3).informed
    run = hs.sample(target, kernel, chains=4, warmup=5, draws=5, progress=False)
    assert run.ratios is None
    assert not any("atios" in sentence for sentence in run.warnings)
    ising = hs.Ising(np.zeros((4, 4)), 0.3)
    assert kernel.updates(ising) == ising.updates(ratios=False)
