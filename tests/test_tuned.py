"""The default tuner: where it lands, how fast, and what it does at the edges.

Most tests feed it acceptance probabilities drawn from a law whose best scale is known; the last
ones run chains.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import hopscale as hs
from hopscale.kernels import ScaleRange
from hopscale.tune import fitted
from hopscale.tune.law import Law, acceptance, log_s_of
from hopscale.tune.tuned import _apart_from_even
from runs import SETTINGS, TARGET, same

SITES = 10_000
SCALES = {
    rate: ScaleRange("sites", 1.0, float(SITES), SITES / 2, 1.0, rate) for rate in (0.574, 0.234)
}


def normal(best, rate, key, scale, chains):
    """The limit: log ratios are normal, and `best` is the scale of the largest jump."""
    s = -2 * ndtri(rate / 2) * (scale / best) ** Law.of(rate).exponent
    return -0.5 * s**2 + s * jax.random.normal(key, (chains,))


def climbing(best, rate, key, scale, chains):
    """The same where every proposal is accepted, for chains that have far to go."""
    return 20.0 + normal(best, rate, key, scale, chains)


def slower(best, rate, key, scale, chains):
    """Acceptance falls more slowly, exp(-1.25 (R / best)^0.8): the best rate is 0.287."""
    return jnp.full(chains, -1.25 * (scale / best) ** 0.8)


@eqx.filter_jit
def scales_of(tuner, law, best, rate, chains, steps, key):
    """The scale with which it would draw, after each step."""
    scales, tuner = SCALES[rate], fitted(tuner, SCALES[rate])

    def step(state, key):
        ratio = law(best, rate, key, state.scale, chains)
        a, proposal = jnp.exp(jnp.minimum(ratio, 0.0)), jnp.zeros((chains, SITES), jnp.int8)
        jump = a * state.scale
        info = hs.Info(a, a > 0.5, jump.astype(int), a < 0, proposal, jump, ratio)
        state = tuner.update(state, info, scales)
        return state, tuner.settled(state).scale

    start = tuner.init(scales, chains, jnp.float32)
    return jax.lax.scan(step, start, jax.random.split(key, steps))[1]


def runs(tuner, law, best, rate, chains, steps, seeds=8):
    over = jax.vmap(lambda key: scales_of(tuner, law, best, rate, chains, steps, key))
    return np.asarray(over(jax.random.split(jax.random.key(chains), seeds)))


def efficiency(scale, best, rate):
    """The jump distance at a scale, as a share of the largest."""
    at, s = np.asarray(scale) / best, -2 * ndtri(rate / 2)
    return at * ndtr(-0.5 * s * at ** Law.of(rate).exponent) / ndtr(-0.5 * s)


@functools.cache
def many_chains(rate):
    return runs(hs.Tuned(), normal, 3_000.0 if rate > 0.5 else 40.0, rate, 1000, 150)


@pytest.mark.parametrize(("rate", "best", "steps"), [(0.574, 3_000.0, 12), (0.234, 40.0, 12)])
def test_lands_in_tens_of_steps(rate, best, steps):
    share = efficiency(many_chains(rate), best, rate)
    assert share[:, steps:].min() > 0.95
    assert share[:, -1].min() > 0.99


@pytest.mark.parametrize(("chains", "steps", "least"), [(1, 2000, 0.95), (4, 1000, 0.95)])
def test_few_chains_take_longer(chains, steps, least):
    share = efficiency(runs(hs.Tuned(), normal, 300.0, 0.574, chains, steps), 300.0, 0.574)
    assert share[:, -1].mean() > 0.98
    assert share[:, -1].min() > least


def test_the_best_rate_is_found_where_the_limits_are_wrong():
    found = runs(hs.Tuned(), slower, 200.0, 0.574, 100, 2000, seeds=1)[0]
    share = found / 200 * np.exp(-1.25 * (found / 200) ** 0.8 + 1.25)
    assert share[-1] > 0.99
    held = runs(hs.Tuned(0.574), slower, 200.0, 0.574, 100, 2000, seeds=1)[0]
    assert np.exp(-1.25 * (held[-1] / 200) ** 0.8) == pytest.approx(0.574, abs=0.01)


def test_a_cost_for_each_site_makes_the_scale_smaller():
    """R a / (1 + R / 100) is largest where R / best = 0.55, by a search on a grid."""
    found = runs(hs.Tuned(site_cost=0.01), normal, 300.0, 0.574, 100, 1000, seeds=1)[0, -1]
    grid = np.linspace(20.0, 400.0, 2000)
    best = grid[np.argmax(efficiency(grid, 300.0, 0.574) / (1 + 0.01 * grid))]
    assert found == pytest.approx(best, rel=0.1)


def constant(value):
    def law(best, rate, key, scale, chains):
        return jnp.full(chains, jnp.log(jnp.float32(value)))

    return law


@pytest.mark.parametrize(("value", "end"), [(0.0, 1.0), (1.0, SITES / 2)])
def test_ends_are_reached_and_kept(value, end):
    for chains in (1, 100):
        found = runs(hs.Tuned(), constant(value), 1.0, 0.574, chains, 200, seeds=1)[0]
        assert np.all(np.isfinite(found))
        np.testing.assert_allclose(found[-50:], end, rtol=1e-4)


def test_the_exponents_follow_from_the_rates():
    assert Law.of(0.574).exponent == pytest.approx(1.5, abs=2e-3)
    assert Law.of(0.234).exponent == pytest.approx(0.5, abs=2e-3)


@pytest.mark.parametrize("rise", [-1.0, 0.0, 0.3])
def test_the_rate_follows_the_scale(rise):
    law = Law.of(0.574)
    moved = acceptance(log_s_of(0.4) + law.exponent * rise)
    assert law.moved(0.4, rise) == pytest.approx(float(moved), rel=1e-5)
    assert law.moved(0.0, rise) == 0.0  # rates that no scale has stay as they are
    assert law.moved(1.0, rise) == 1.0


def test_the_noise_is_what_the_law_says():
    """Of acceptance probabilities, and of log R found from them far from equilibrium."""
    from hopscale.tune import tuned

    law, s, chains = Law.of(0.574), -2 * ndtri(0.287), 400
    ratio = -0.5 * s**2 + s * jax.random.normal(jax.random.key(0), (4000, chains))
    a = jnp.exp(jnp.minimum(ratio, 0.0))
    assert float(jnp.var(a) / jnp.mean(a) ** 2) == pytest.approx(law.variance, rel=0.02)

    def error(ratio):
        nothing = jnp.zeros(())
        pool = tuned.Pool(nothing, nothing, nothing, *tuned._shifted(ratio, ratio.dtype))
        return (np.log(s) - log_s_of(tuned._in_equilibrium(pool) / chains)) / law.exponent

    found = jax.vmap(error)(ratio + 3.0)  # as chains that climb have them
    assert float(jnp.mean(found)) == pytest.approx(0.0, abs=0.02)
    assert float(jnp.var(found)) * chains == pytest.approx(law.early_variance, rel=0.15)


def test_climbing_chains_do_not_mislead():
    """All accepted, until chains have moved all sites twice: log ratios tell the scale."""
    best = 20.0  # such that a hundred steps move a fifth of all sites
    found = runs(hs.Tuned(), climbing, best, 0.574, 100, 100)
    assert efficiency(found[:, 8:], best, 0.574).min() > 0.95


def test_impossible_proposals_are_no_acceptances():
    from hopscale.tune import tuned

    ratio = jnp.asarray([0.5, -jnp.inf, -0.5, -jnp.inf])
    for some in (ratio, ratio[1::2]):
        certain, others = tuned._shifted(some, jnp.float32)
        pool = tuned.Pool(*jnp.zeros(3), certain, others)  # type: ignore
        found = tuned._in_equilibrium(pool)
        assert 0.0 <= float(found) <= jnp.isfinite(some).sum()


BAD = {
    "rate must lie": {"rate": 1.5},
    "rate must be a number": {"rate": "0.5"},
    "site_cost must be 0 or more": {"site_cost": -1.0},
    "site_cost must be a number": {"site_cost": "1"},
}


@pytest.mark.parametrize("words", BAD)
def test_wrong_settings_are_refused(words):
    with pytest.raises((ValueError, TypeError), match=words):
        hs.Tuned(**BAD[words])


# -- Chains. -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run():
    return hs.sample(TARGET, hs.LBP(), **SETTINGS)


def test_draws_have_one_scale_the_average(run):
    assert isinstance(run.scale, float)
    np.testing.assert_allclose(run.history["scale"], run.scale, rtol=1e-6)
    assert len(set(run.warmup_history["scale"][-8:].round(3))) > 1  # larger and smaller in turn


def test_extended_and_loaded_bit_for_bit(run, tmp_path):
    shorter = hs.sample(TARGET, hs.LBP(), **{**SETTINGS, "draws": 20})
    shorter.save(tmp_path / "run")
    same(hs.load(tmp_path / "run").extend(40, progress=False), run)


@pytest.mark.parametrize("sites", [1])
def test_one_or_two_sites(sites):
    found = hs.sample(hs.Bernoulli(np.full(sites, 0.5)), hs.LBP(), **SETTINGS)
    assert found.scale == 1.0


def test_far_from_equilibrium_the_scale_is_right_after_30_steps():
    """A random walk from fair bits accepts far too much at first: the best R is 7.5."""
    target = hs.paper.bernoulli(100, "C2")
    settings = {"chains": 100, "draws": 10, "progress": False, "key": 0}
    assert 5.5 < hs.sample(target, hs.RWM(), warmup=30, **settings).scale < 12.0


def test_a_large_target_is_tuned_by_few_steps():
    target = hs.paper.bernoulli(2_000, "C2")
    run = hs.sample(target, hs.LBP(), chains=20, warmup=100, draws=50, key=0, progress=False)
    assert run.scale == pytest.approx(hs.theory.optimal_scale(target), rel=0.25)
    assert not any("still moving" in sentence for sentence in run.warnings)


def test_a_tuned_scale_changes_the_parity_of_bits():
    """On weakly coupled bits R = 32 would be best by its jumps, and parity would hardly change."""
    target = hs.LogDensity(lambda x: 0.02 * jnp.sum(x[1:] * x[:-1]), 64)
    settings = {"chains": 50, "warmup": 500, "draws": 500, "keep": "all", "progress": False}
    run = hs.sample(target, hs.LBP(), **settings)
    assert abs(run.scale - 32) >= 0.25
    assert run.draws is not None
    parity = (run.draws.sum(axis=-1) % 2).mean(axis=1)
    assert 0.25 / parity.var() > 100
    fixed = hs.sample(target, hs.LBP(), scale=hs.Fixed(32), **settings)
    assert fixed.draws is not None
    assert 0.25 / (fixed.draws.sum(axis=-1) % 2).mean(axis=1).var() < 20


@pytest.mark.parametrize(
    ("scale", "apart"), [(2.0, 1.75), (1.9, 1.75), (2.1, 2.25), (3.0, 3.0), (1.2, 1.2), (0.9, 0.9)]
)
def test_scales_keep_apart_from_even_numbers(scale, apart):
    assert float(_apart_from_even(jnp.asarray(scale))) == pytest.approx(apart)
