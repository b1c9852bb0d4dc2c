"""Every kernel reaches all of every target at every scale; the paper's literal rule may not."""

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.kernels.metropolis import SHORT_STEPS
from hopscale.results.run import describe
from runs import errors_away, most_errors
from small import small_rbm, small_targets

FLAT = (0.52,) * 4


def test_block_gibbs_reaches_everything_in_one_step(x64):
    for pairs in (1, 2):
        matrix = hs.check.transition_matrix(small_rbm(), hs.BlockGibbs(pairs), 1)
        assert matrix.min() > 0
        assert hs.check.irreducible(small_rbm(), hs.BlockGibbs(pairs), 1)


@pytest.mark.parametrize(
    "kernel", [hs.LBP(), hs.GWG(repeats="parity"), hs.DMALA(), hs.RWM()], ids=describe
)
def test_rbm_and_categories_are_reached(x64, kernel):
    def log_density(code):
        return 0.5 * (code[0, 0] * code[1, 1]) - 0.2 * code[1, 2]

    categories = hs.LogDensity(log_density, (2,), num_states=3, ratios="gradient")
    for target in (small_rbm("exact"), categories):
        for scale in (1, 2, target.num_sites):
            assert hs.check.irreducible(target, kernel, scale)


# With "once" a site drawn twice flips once, so that GWG changes parity even by the paper's rule.
LITERAL = [
    hs.LBP(lengths="paper"),
    hs.LBP("sqrt", "same", lengths="paper"),
    hs.GWG(repeats="parity", lengths="paper"),
    hs.RWM(lengths="paper"),
]


@pytest.mark.parametrize("kernel", LITERAL, ids=describe)
def test_broken_twin_by_the_papers_rule_does_not_reach_everything(x64, kernel):
    for target in (hs.Bernoulli(np.array(FLAT)), small_targets()["fhmm"]):
        for scale in (2, 4):
            assert not hs.check.irreducible(target, kernel, scale)
        assert hs.check.irreducible(target, kernel, 1.5)


def test_broken_twin_at_an_even_scale_keeps_its_parity(x64):
    target = hs.Bernoulli(np.array([0.9, 0.8, 0.3]))
    assert hs.check.irreducible(target, hs.LBP(), 2)
    assert not hs.check.irreducible(target, hs.LBP(lengths="paper"), 2)


def test_impossible_states_need_not_be_reached(x64):
    """Two halves with nothing between them: two groups for steps of one site."""

    def apart(x):
        return jnp.where(jnp.all(x == x[0]), 0.0, -jnp.inf)

    target = hs.LogDensity(apart, (3,), ratios="exact")
    assert not hs.check.irreducible(target, hs.RWM(), 1)
    assert hs.check.irreducible(target, hs.RWM(), 3)


def visited(kernel, scale=None):
    """How many states each chain sees on ten nearly flat bits, and the scale."""
    run = hs.sample(
        hs.Bernoulli(np.full(10, 0.52)),
        kernel,
        scale=scale,
        chains=8,
        warmup=400,
        draws=2000,
        keep="all",
        progress=False,
    )
    assert run.draws is not None
    return [len(np.unique(chain, axis=0)) for chain in run.draws], run.scale


def test_a_flat_target_is_seen_whole():
    seen, scale = visited(hs.LBP())
    assert min(seen) > 500
    assert isinstance(scale, float)
    assert scale <= 5


def test_broken_twin_sees_two_states_of_a_flat_target():
    seen, _ = visited(hs.LBP(lengths="paper"), hs.Fixed(10))
    assert max(seen) <= 2


def misses(kernel):
    """By how many standard errors the means of Fixed(2), started at zeros, are off."""
    p = np.array([0.9, 0.8, 0.3])
    run = hs.sample(
        hs.Bernoulli(p),
        kernel,
        chains=64,
        warmup=4000,
        draws=4000,
        scale=hs.Fixed(2),
        init=np.zeros(3, int),
        record={"x": lambda state, info: state.x},
        progress=False,
    )
    by_chain = np.stack([run.statistics[f"x[{i}]"].mean_by_chain for i in range(3)], axis=1)
    return errors_away(by_chain, p)


def test_means_at_an_even_scale_are_right():
    assert misses(hs.LBP()) < most_errors(3, 64)


def test_broken_twin_gets_the_means_wrong():
    assert misses(hs.LBP(lengths="paper")) > most_errors(3, 64)


# -- What it costs. ------------------------------------------------------------------------------


def jump_distance(target, kernel, scale):
    """The exact expected jump distance."""
    states = hs.check.states(target).reshape(-1, target.num_sites).astype(int)
    distance = np.abs(states[:, None] - states[None]).sum(axis=2)
    matrix = hs.check.transition_matrix(target, kernel, scale)
    return float(hs.check.probabilities(target) @ (matrix * distance).sum(axis=1))


@pytest.mark.parametrize("name", ["bernoulli", "ising", "fhmm"])
def test_mixed_lengths_cost_half_a_percent_at_most(x64, name):
    """The jump distance is linear in the distribution of lengths."""
    target = small_targets()[name]
    paper = {r: jump_distance(target, hs.LBP(lengths="paper"), r) for r in (1, 2, 3, 4)}
    for scale, alone in paper.items():
        mixed = jump_distance(target, hs.LBP(), scale)
        short = 0.5 * (paper[1] + paper[2])
        assert mixed == pytest.approx((1 - SHORT_STEPS) * alone + SHORT_STEPS * short, abs=1e-12)
        assert mixed >= (1 - SHORT_STEPS) * alone


def test_mixed_lengths_cost_less_than_one_percent_of_a_large_target():
    p = np.linspace(0.15, 0.85, 400)
    start = (np.random.default_rng(1).random((128, 400)) < p).astype(int)
    found = []
    for lengths, key in (("mixed", 1), ("paper", 2)):
        run = hs.sample(
            hs.Bernoulli(p),
            hs.LBP(lengths=lengths),
            chains=128,
            warmup=0,
            draws=600,
            scale=hs.Fixed(45),
            init=start,
            key=key,
            progress=False,
        )
        found.append(run.distance_by_chain)
    mixed, paper = (a.mean() for a in found)
    error = np.sqrt(sum(a.var(ddof=1) / a.size for a in found)) / paper
    assert error < 0.005
    assert mixed / paper > 0.99 - most_errors(1, 128) * error
    assert mixed / paper > 0.97
