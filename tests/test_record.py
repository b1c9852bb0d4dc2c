"""What is remembered: right, bounded, and blind to how the steps arrived."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.engine import pages
from hopscale.engine.pages import Moments, Trace
from runs import SETTINGS, TARGET

# -- Histories of bounded length. ----------------------------------------------------------------


def paged(values, rows, capacity):
    """Values as the loop hands them over: pages, averaged as far as the trace's blocks go."""
    trace = Trace(values.shape[1:], capacity)
    for start in range(0, len(values), rows):
        page, resolution = values[start : start + rows], min(trace.block, rows)
        whole = len(page) // resolution * resolution
        trace.add(pages.average(page[:whole], resolution), resolution)
    return trace


def test_short_traces_are_kept_as_they_are():
    values = np.random.default_rng(2).normal(size=(50, 3)).astype(np.float32)
    trace = paged(values, 16, 64)
    assert trace.block == 1
    np.testing.assert_array_equal(trace.values, values)


@pytest.mark.parametrize("rows", [4, 16, 256])
def test_long_traces_are_blocks_of_bounded_number(rows):
    values = np.random.default_rng(2).normal(size=(3072, 2)).astype(np.float32)
    trace = paged(values, rows, 64)
    assert trace.block == 64
    assert trace.values.shape == (3072 // 64, 2)
    blocks = values.reshape(48, 64, 2).astype(float).mean(axis=1)
    np.testing.assert_allclose(trace.values, blocks, atol=1e-6)


def test_a_trace_goes_on_from_its_state():
    values = np.random.default_rng(3).normal(size=(512, 2)).astype(np.float32)
    whole, first = paged(values, 4, 8), paged(values[:200], 4, 8)
    second = Trace((2,), 8)
    second.restore(first.state())
    copy = first.copy()
    for trace in (second, copy):
        for start in range(200, 512, 4):
            page, resolution = values[start : start + 4], min(trace.block, 4)
            trace.add(pages.average(page, resolution), resolution)
        np.testing.assert_array_equal(trace.values, whole.values)
        assert trace.block == whole.block


def test_moments_of_pages_are_those_of_all():
    values = np.random.default_rng(4).normal(1e4, 1.0, size=(3000, 4))
    moments = Moments((4,))
    assert np.isnan(moments.mean).all()
    for page in np.split(values, [1, 700, 700, 1500]):
        mean = page.mean(axis=0) if len(page) else np.zeros(4)
        moments.add(len(page), mean, ((page - mean) ** 2).sum(axis=0))
    np.testing.assert_allclose(moments.mean, values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, values.var(axis=0), rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, -1e6, 3e7])
def test_moments_of_large_numbers_are_not_rounded(offset):
    """Single precision cannot hold the mean of numbers that are large and vary little."""
    numbers = np.random.default_rng(0).integers(-20, 20, (3, 129, 5, 2)) + offset
    numbers = numbers.astype(np.float32)
    totals = pages.Totals.empty(1, 1, 2)
    for page in numbers:
        totals.add(pages.summarize(jnp.asarray(page[None]), jnp.asarray(128), 1), 128, 1)
    counted = numbers[:, :-1].astype(np.float64).reshape(-1, 5, 2)
    assert totals.moments.mean[0] == pytest.approx(counted.mean(axis=0), rel=0, abs=1e-4)
    assert totals.moments.variance[0] == pytest.approx(counted.var(axis=0), rel=1e-5)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_the_mean_of_infinite_numbers_is_infinite(infinite):
    page = np.zeros((129, 5, 2), np.float32)
    page[7, 3, 1] = infinite
    totals = pages.Totals.empty(1, 1, 2)
    with np.errstate(invalid="ignore"):  # squares of distances from there are NaN
        totals.add(pages.summarize(jnp.asarray(page[None]), jnp.asarray(128), 1), 128, 1)
    expected = np.zeros((5, 2))
    expected[3, 1] = infinite
    assert totals.moments.mean[0].tolist() == expected.tolist()


def test_memory_of_traces_does_not_grow_with_chains():
    for chains in (1, 100, 10_000, 10**6):
        capacity, rows = pages.trace_capacity(chains), pages.page_rows(chains)
        assert capacity >= 1024
        assert capacity * chains <= max(2**22, 1024 * chains)
        assert rows & (rows - 1) == capacity & (capacity - 1) == 0


# -- Functions of (state, info). -----------------------------------------------------------------


def test_a_function_gives_a_statistic():
    def ones(state, info):
        return jnp.sum(state.x)

    run = hs.sample(TARGET, record=ones, keep="all", **SETTINGS)
    assert run.draws is not None
    expected = run.draws.sum(axis=(2, 3))
    statistic = run.statistics["ones"]
    np.testing.assert_array_equal(statistic.trace, expected)
    np.testing.assert_allclose(statistic.mean_by_chain, expected.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(statistic.variance_by_chain, expected.var(axis=1), rtol=1e-5)
    assert statistic.mean == pytest.approx(expected.mean(), rel=1e-6)
    assert statistic.sd == pytest.approx(expected.std(), rel=1e-5)
    assert statistic.error > 0
    assert "ones" in str(run)


def test_functions_of_several_numbers_are_named():
    def several(state, info):
        return {"up": jnp.sum(state.x), "moved": info.distance, "row": state.x[0, :2]}

    def pair(state, info):
        return state.x[0, 0], info.accepted

    run = hs.sample(TARGET, record={"several": several, "pair": pair}, keep="all", **SETTINGS)
    own = list(run.statistics)[4:]
    assert sorted(own) == sorted(
        [
            "several['up']",
            "several['moved']",
            "several['row'][0]",
            "several['row'][1]",
            "pair[0]",
            "pair[1]",
        ]
    )
    assert run.draws is not None
    trace = {name: run.statistics[name].trace for name in own}
    np.testing.assert_array_equal(trace["several['up']"], run.draws.sum(axis=(2, 3)))
    np.testing.assert_array_equal(trace["several['row'][1]"], run.draws[:, :, 0, 1])
    np.testing.assert_array_equal(trace["pair[0]"], run.draws[:, :, 0, 0])
    moved = np.abs(np.diff(run.draws.astype(int), axis=1)).sum(axis=(2, 3))
    np.testing.assert_array_equal(trace["several['moved']"][:, 1:], moved)
    np.testing.assert_array_equal(trace["pair[1]"][:, 1:], moved > 0)


# -- Recorders. ----------------------------------------------------------------------------------


def up(state, info):
    return jnp.sum(state.x).astype(jnp.float32)


EDGES = [10.0, 14.0, 18.0, 20.5, 30.0]


def test_recorders_agree_with_kept_states():
    recorders = {
        "sites": hs.record.SiteMeans(),
        "pairs": hs.record.PairMoments(),
        "histogram": hs.record.Histogram(up, EDGES),
        "integers": hs.record.Histogram(lambda state, info: state.x.sum(), EDGES),
        "best": hs.record.BestState(),
    }
    run = hs.sample(TARGET, record=recorders, keep="all", **SETTINGS)
    assert run.draws is not None
    assert set(run.recorded) == set(recorders)
    draws = run.draws.astype(float)

    sites = run.recorded["sites"]
    by_chain = draws.mean(axis=1)
    np.testing.assert_allclose(sites.mean, by_chain.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(sites.error, by_chain.std(axis=0, ddof=1) / np.sqrt(5), atol=1e-12)

    flat = draws.reshape(-1, 36)
    np.testing.assert_allclose(run.recorded["pairs"], flat.T @ flat / len(flat), atol=1e-6)

    totals = flat.sum(axis=1)
    inner = np.searchsorted(EDGES[1:-1], totals, side="right")
    for name in ("histogram", "integers"):
        np.testing.assert_array_equal(run.recorded[name], np.bincount(inner, minlength=4))
    assert run.recorded["histogram"].sum() == 300

    log_prob = np.asarray(jax.vmap(TARGET.log_prob)(run.draws.reshape(-1, 6, 6)))
    best = run.recorded["best"]
    assert best.log_prob == pytest.approx(log_prob.max(), abs=1e-4)
    assert float(TARGET.log_prob(best.x)) == pytest.approx(log_prob.max(), abs=1e-4)


def test_one_recorder_needs_no_name():
    run = hs.sample(TARGET, record=hs.record.SiteMeans(), **SETTINGS)
    assert run.recorded["SiteMeans"].mean.shape == (6, 6)
    alone = hs.sample(TARGET, record=hs.record.SiteMeans(), **{**SETTINGS, "chains": 1})
    assert np.isnan(alone.recorded["SiteMeans"].error).all()


def test_pair_moments_do_not_lose_small_additions():
    """In single precision a plain sum would stop at 2^24."""
    recorder, target = hs.record.PairMoments(), hs.Bernoulli(np.full(1, 0.5))
    ones = hs.ChainState(jnp.ones((3, 1), jnp.int8), target.evaluate(np.zeros(1, int)))
    total = jnp.full((1, 1), 2.0**24, jnp.float32)
    memory = (total, jnp.zeros_like(total))
    for _ in range(10):
        memory = recorder.update(memory, ones, None)  # pyright: ignore
    assert float(recorder.result(memory, 1)[0, 0]) == 2.0**24 + 10


class Longest(NamedTuple):
    now: jax.Array
    longest: jax.Array


class LongestRest(hs.record.Recorder):
    """The most steps in a row that a chain did not move."""

    def init(self, target, chains):
        return Longest(jnp.zeros(chains, jnp.int32), jnp.zeros(chains, jnp.int32))

    def update(self, memory, states, info):
        now = jnp.where(info.accepted, 0, memory.now + 1)
        return Longest(now, jnp.maximum(memory.longest, now))

    def result(self, memory, draws):
        return np.asarray(memory.longest)


def test_a_recorder_of_the_users_own():
    def accepted(state, info):
        return info.accepted

    run = hs.sample(TARGET, record={"rest": LongestRest(), "accepted": accepted}, **SETTINGS)
    trace = run.statistics["accepted"].trace
    expected = [max(map(len, "".join(str(int(a)) for a in row).split("1"))) for row in trace]
    np.testing.assert_array_equal(run.recorded["rest"], expected)
