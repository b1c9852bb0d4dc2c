"""Runs side by side are the runs that `hopscale.sample` gives, up to rounding."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.engine import pages
from hopscale.results.run import describe
from hopscale.runs.plan import Plan
from runs import TARGET, alike
from small import small_rbm

LENGTH = {"warmup": 70, "draws": 90, "chains": 6, "progress": False}


def ones(state, info):
    return jnp.sum(state.x)


RECORD = {"ones": ones, "sites": hs.record.SiteMeans()}


def alone(target, kernel, key, scale, record=None):
    return hs.sample(target, kernel, key=key, scale=scale, record=record, **LENGTH)


def bernoulli(low):
    return hs.Bernoulli(np.linspace(low, 0.8, 30))


TARGETS = [bernoulli(0.1), bernoulli(0.3), bernoulli(0.1), bernoulli(0.1)]
KEYS = [0, 0, 1, 0]
RATES = [hs.Adaptive(0.5), hs.Adaptive(), hs.Adaptive(0.5), hs.Adaptive(0.7)]


@pytest.mark.parametrize("kernel", [hs.LBP(), hs.RWM()], ids=describe)
def test_a_run_does_not_notice_its_neighbours(kernel):
    """Different targets, keys and rates."""
    runs = hs.sample_many(TARGETS, kernel, keys=KEYS, scale=RATES, record=RECORD, **LENGTH)
    for run, target, key, scale in zip(runs, TARGETS, KEYS, RATES, strict=True):
        alike(run, alone(target, kernel, key, scale, RECORD))


def test_neighbours_differ():
    """The twin of the test above: runs that share a target, key or rate would be alike."""
    runs = hs.sample_many(TARGETS, keys=KEYS, scale=RATES, **LENGTH)
    assert len({run.ejd for run in runs}) == 4


def test_scales_along_an_axis():
    scales = [hs.Fixed(1), hs.Fixed(2.5), hs.Fixed(30)]
    runs = hs.sample_many(TARGETS[0], keys=[4, 4, 5], scale=scales, chunk=13, **LENGTH)
    for run, key, scale in zip(runs, [4, 4, 5], scales, strict=True):
        alike(run, alone(TARGETS[0], hs.LBP(), key, scale))


def test_a_run_does_not_notice_that_its_pages_are_shorter(monkeypatch):
    monkeypatch.setattr(pages, "page_rows", lambda chains: 64 if chains == 6 else 16)
    runs = hs.sample_many(TARGETS[0], hs.LBP(), keys=[0, 1], **LENGTH)
    for run, key in zip(runs, [0, 1], strict=True):
        alike(run, alone(TARGETS[0], hs.LBP(), key, None))


def test_pages_of_many_runs_take_little_more_memory_than_that_of_one():
    def page(runs):
        plan = Plan.of([TARGETS[0]] * runs, hs.LBP(), range(runs), [None] * runs, 1_000, 1, 1)
        return plan.begin(compiled=False).records.page.numbers

    assert page(16).nbytes < 1.5 * page(1).nbytes


def test_lattices_and_machines_side_by_side():
    for target, kernel in ((TARGET, hs.LBP()), (small_rbm(), hs.BlockGibbs())):
        runs = hs.sample_many(target, kernel, keys=[1, 2], **LENGTH)
        for run, key in zip(runs, [1, 2], strict=True):
            alike(run, alone(target, kernel, key, None))


class Above(eqx.Module):
    """Whether there are more ones than that."""

    threshold: jax.Array

    def __call__(self, state, info):
        return jnp.sum(state.x) > self.threshold


def test_each_run_can_have_its_own_function():
    record = [{"above": Above(jnp.asarray(threshold))} for threshold in (10, 20)]
    runs = hs.sample_many(TARGETS[0], hs.LBP(), keys=[3, 3], record=record, **LENGTH)
    for run, own in zip(runs, record, strict=True):
        alike(run, alone(TARGETS[0], hs.LBP(), 3, None, own))
    assert runs[0].statistics["above"].mean > runs[1].statistics["above"].mean


def test_runs_stop_when_told():
    seen = []
    runs = hs.sample_many(
        TARGETS[0], keys=[0, 1], chunk=20, tell=lambda n: seen.append(n) or len(seen) < 5, **LENGTH
    )
    assert seen == [20, 20, 20, 10, 20]  # a chunk ends with warm-up
    assert [run.num_draws for run in runs] == [20, 20]


def test_one_run_is_allowed():
    run, *rest = hs.sample_many(TARGET, hs.LBP(), keys=[2], **LENGTH)
    assert not rest
    alike(run, alone(TARGET, hs.LBP(), 2, None))


def test_targets_of_different_shape_are_named_before_their_functions():
    targets = [hs.Bernoulli(np.full(n, 0.3)) for n in (5, 7)]
    record = [{"a": lambda s, i, n=n: jnp.dot(jnp.ones(n), s.x)} for n in (5, 7)]
    with pytest.raises(ValueError, match="must be of one shape"):
        hs.sample_many(targets, hs.LBP(), keys=[0, 1], record=record)
