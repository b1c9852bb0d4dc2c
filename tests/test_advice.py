"""A run that should not be trusted says so, once and everywhere; one that can be is silent."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs

QUIET = {"progress": False, "key": 1}


def modes(x):
    """All zeros or all ones; what lies between is hardly ever seen."""
    up = jnp.sum(2.0 * x - 1.0)
    return 0.12 * up * up


def checkerboard(x):
    """Zero density one flip away from every state of positive density."""
    return jnp.where(jnp.sum(x) % 2 == 0, 0.0, -jnp.inf)


def poisoned(x):
    return jnp.where((x[0] == 1) & (x[1] == 1), jnp.nan, 0.1 * jnp.sum(x))


CASES = {
    "R-hat of hamming": {
        "target": hs.LogDensity(modes, (12,)),
        "chains": 8,
        "warmup": 200,
        "draws": 300,
    },
    "worth": {
        "target": hs.Bernoulli(np.full(6, 0.4)),
        "chains": 1,
        "warmup": 300,
        "draws": 350,
        "key": 5,  # by chance R-hat stays below its limit
    },
    "still moving": {
        "target": hs.Bernoulli(np.linspace(0.25, 0.75, 2000)),
        "scale": hs.Adaptive(),
        "chains": 16,
        "warmup": 100,
        "draws": 400,
    },
    "at its smallest": {
        "target": hs.Bernoulli(np.full(6, 0.004)),
        "kernel": hs.RWM(),
        "chains": 64,
        "warmup": 200,
        "draws": 400,
    },
    "never moved": {
        "target": hs.LogDensity(checkerboard, (6,), ratios="exact"),
        "kernel": hs.RWM(lengths="paper"),
        "scale": hs.Fixed(1),
        "init": np.zeros(6, int),
        "chains": 3,
        "warmup": 10,
        "draws": 50,
    },
    "float32 resolves to": {
        "target": hs.LogDensity(lambda x: -1e7 + 0.37 * jnp.sum(x), (4,), ratios="exact"),
        "kernel": hs.RWM(),
        "chains": 50,
        "warmup": 100,
        "draws": 200,
    },
    "could not be judged": {
        "target": hs.LogDensity(poisoned, (4,), ratios="exact"),
        "kernel": hs.RWM(),
        "init": np.zeros(4, int),
        "chains": 50,
        "warmup": 100,
        "draws": 200,
    },
}


@pytest.mark.parametrize("words", CASES)
def test_warned_once_and_everywhere(words):
    with pytest.warns(hs.ConvergenceWarning) as caught:
        run = hs.sample(**{**QUIET, **CASES[words]})
    assert len(caught) == 1
    assert caught[0].filename == __file__  # points at the call
    sentence = next(s for s in run.warnings if words.split(" of ")[0] in s)
    assert words.split(" of ")[0] in str(caught[0].message)
    assert sentence in run.summary()["warnings"]
    printed = " ".join(str(run).split())
    assert "! " + " ".join(sentence.split()) in printed


def test_many_short_chains_are_no_false_alarm():
    """R-hat of chains worth few draws each is above 1.01 by chance; all together are plenty."""
    target = hs.paper.bernoulli(100, "C2")
    settings = {"chains": 100, "draws": 1500, **QUIET}
    run = hs.sample(target, hs.RWM(), warmup=1500, **settings)
    assert run.r_hat > 1.02
    assert run.warnings == ()
    # Nothing says that the same chains have forgotten their start without a warm-up.
    run = hs.sample(target, hs.RWM(), scale=hs.Fixed(8), warmup=0, **settings)
    assert any("have not forgotten" in sentence for sentence in run.warnings)


def test_stuck_chains_do_not_look_converged():
    """Chains that start apart and never move have no R-hat of 1."""
    start = np.zeros((3, 6), int)
    start[1, :2] = start[2, 2:4] = 1
    run = hs.sample(**{**CASES["never moved"], "init": start}, **QUIET)
    assert not run.r_hat <= 1.01
    assert any("3 of 3 chains never moved" in sentence for sentence in run.warnings)


def test_separate_modes_are_seen_by_a_symmetric_statistic_or_not_at_all():
    """The log-density is the same in both modes; a distance tells them apart."""
    run = hs.sample(**CASES["R-hat of hamming"], **QUIET)
    assert run.r_hat > 1.5
    assert max(s.r_hat for n, s in run.statistics.items() if n != "log_prob") == run.r_hat


def test_a_run_stopped_in_warm_up_says_so():
    assert issubclass(hs.ConvergenceWarning, UserWarning)
    run = hs.sample_many(
        hs.Bernoulli(np.full(4, 0.4)),
        keys=[0],
        chains=3,
        warmup=50,
        draws=10,
        chunk=10,
        progress=False,
        tell=lambda steps: False,
    )[0]
    assert run.num_draws == 0
    assert any("Nothing was drawn" in sentence for sentence in run.warnings)


def test_runs_side_by_side_are_not_warned_about_but_say_so():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs = hs.sample_many(
            hs.LogDensity(modes, (12,)),
            keys=[0, 1],
            chains=8,
            warmup=200,
            draws=300,
            progress=False,
        )
    assert all(any("R-hat" in sentence for sentence in run.warnings) for run in runs)


RNG = np.random.default_rng(5)
WELL = {
    "bernoulli": (hs.Bernoulli(RNG.uniform(0.15, 0.85, size=100)), hs.LBP()),
    "bernoulli by a random walk": (hs.Bernoulli(RNG.uniform(0.25, 0.75, size=10)), hs.RWM()),
    "ising": (hs.Ising(RNG.uniform(-0.3, 0.3, size=(8, 8)), 0.15), hs.LBP("sqrt")),
    "ising by GWG": (hs.Ising(RNG.uniform(-0.3, 0.3, size=(8, 8)), 0.15), hs.GWG()),
    "flat": (hs.Bernoulli(np.full(10, 0.52)), hs.LBP()),
    "one bit": (hs.Bernoulli(np.array([0.3])), hs.LBP()),
}


def small_pairs() -> hs.Pairwise:
    return hs.Pairwise(np.triu(np.random.default_rng(2).normal(0, 0.5, (6, 6)), 1), 0.2)


def alarms(target, kernel, keys: int, **settings) -> int:
    """How many of some runs say anything."""
    runs = hs.sample_many(target, kernel, keys=list(range(keys)), progress=False, **settings)
    return sum(bool(run.warnings) for run in runs)


def test_few_chains_that_mix_are_no_alarm():
    """With two chains R-hat varies much more by chance than with a hundred."""
    target = hs.Ising(RNG.uniform(-0.3, 0.3, size=(6, 6)), 0.15)
    keys, steps = list(range(20)), 3_000
    runs = hs.sample_many(
        target, hs.RWM(), keys=keys, chains=2, warmup=steps, draws=steps, progress=False
    )
    assert not any("R-hat" in sentence for run in runs for sentence in run.warnings)


def test_a_few_draws_are_too_few_and_nothing_else():
    """Chains that rest, and an acceptance rate that is off, are chance in a few draws."""
    keys, settings = list(range(5)), {"chains": 3, "warmup": 2_000, "progress": False}
    for draws, are in ((1, "One draw is"), (4, "4 draws are")):
        runs = hs.sample_many(small_pairs(), hs.LBP(), keys=keys, draws=draws, **settings)
        assert any(np.any(run.distance_by_chain == 0) for run in runs)
        for run in runs:
            (said,) = run.warnings
            assert said.startswith(f"{are} too few to judge by.")


def test_a_scale_kept_off_an_even_number_is_no_alarm():
    """The frozen scale is 1.75, where warm-up was at 2: acceptance is another, as it should be."""
    settings = {"chains": 100, "warmup": 2_000, "draws": 1_000}
    assert alarms(small_pairs(), hs.LBP(), 10, **settings) == 0


def test_ranks_are_judged_by_what_chains_are_worth_for_ranks():
    """Distances from the median, and ranks of a skewed number, may be forgotten later than it."""
    bits = hs.Bernoulli([0.613, 0.857, 0.748, 0.253, 0.32, 0.836])
    assert alarms(bits, hs.RWM(), 10, chains=100, warmup=1_000, draws=1_000) == 0


def test_parity_is_named_where_a_scale_is_even():
    kernel = hs.LBP(lengths="paper")
    said = warned(hs.Bernoulli(np.full(6, 0.4)), kernel, scale=hs.Fixed(2), chains=20, draws=500)
    assert any("an even number of sites hardly change the parity" in one for one in said)
    potts = hs.Potts([(0, 1, 4.0), (1, 2, 4.0), (2, 3, 4.0), (3, 0, 4.0)], num_states=3)
    said = warned(potts, hs.LBP(), scale=hs.Fixed(2), chains=20)  # categories have no parity
    assert any("R-hat" in one for one in said)
    assert not any("parity" in one for one in said)
    said = warned(hs.LogDensity(modes, (12,)), hs.LBP(), scale=hs.Fixed(3), chains=20)
    assert any("R-hat" in one for one in said)
    assert not any("parity" in one for one in said)


@pytest.mark.parametrize("name", WELL)
def test_no_false_alarm_where_all_is_well(name):
    target, kernel = WELL[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = hs.sample(target, kernel, chains=50, **QUIET)
    assert run.warnings == ()
    assert "!" not in str(run)
    assert run.summary()["warnings"] == []


BONDS = [(i, i + 1, 4040.0) for i in range(99)]


def warned(target, kernel, **settings):
    settings = {"chains": 8, "warmup": 100, "draws": 100, **QUIET, **settings}
    return hs.sample(target, kernel, **settings).warnings


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")
def test_precision_is_a_matter_of_kernels_that_compare_log_probabilities():
    chain = hs.Pairwise(BONDS)
    start = {"init": np.zeros(100, int)}

    def density(x):
        return jnp.sum(4040.0 * (2 * x[1:] - 1) * (2 * x[:-1] - 1))

    def lost(target, kernel):
        return [s for s in warned(target, kernel, **start) if "float32 resolves to 0.048" in s]

    assert lost(chain, hs.Gibbs()) == lost(chain, hs.Gibbs(rule="metropolis")) == []
    units = hs.RBM(np.zeros((2, 100)), np.full(100, -4040.0), np.full(2, 4e5))
    assert lost(units, hs.Gibbs()) == []
    (ours,) = lost(chain, hs.LBP())
    assert "Use hs.Gibbs()" in ours
    assert "inside the density" not in ours
    own = hs.LogDensity(density, (100,), ratios="gradient")
    for target in (own, hs.Tempered(hs.Bernoulli(np.full(100, 0.5)), own, 1.0)):
        (theirs,) = lost(target, hs.RWM())
        assert "Subtract a constant inside the density" in theirs
    assert len(lost(own, hs.Gibbs())) == 1


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")
def test_ratios_are_blamed_where_they_were_used_alone():
    target = hs.LogDensity(lambda x: -12.0 * jnp.sum(x**2), (40,), ratios="gradient")
    smallest = [s for s in warned(target, hs.RWM()) if "at its smallest" in s]
    assert len(smallest) == 1
    assert "mislead" not in smallest[0]
    assert "hs.compare(target)" in smallest[0]
    bent = hs.LogDensity(lambda x: jnp.sum(60.0 * x**2 - 55.0 * x), (40,), ratios="gradient")
    smallest = [s for s in warned(bent, hs.LBP()) if "at its smallest" in s]
    assert "hs.RWM()" in smallest[0]


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")
def test_a_soft_constraint_on_the_sum_is_told_of_swaps():
    target = hs.LogDensity(lambda x: -1e6 * (jnp.sum(x) - 2.0) ** 2, (40,))
    found = warned(target, hs.LBP())
    assert sum("use hs.Swap(ones=2)" in sentence for sentence in found) == 1
    stuck = hs.LogDensity(checkerboard, (6,), ratios="exact")
    settings = {"scale": hs.Fixed(1), "init": np.array([[1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0]])}
    found = warned(stuck, hs.RWM(lengths="paper"), chains=2, **settings)
    assert any("2 of 2 chains never moved" in sentence for sentence in found)
    assert not any("hs.Swap" in sentence for sentence in found)


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")
def test_a_statistic_that_is_not_a_number_is_named():
    record = {"logarithm": lambda state, info: jnp.log(jnp.sum(state.x) - 3.0)}
    settings = {"chains": 4, "warmup": 10, "draws": 50, "record": record, **QUIET}
    found = hs.sample(hs.Bernoulli(np.full(6, 0.5)), hs.LBP(), **settings).warnings
    assert [s for s in found if s.startswith("logarithm was not finite in some draws")]


def test_chains_that_keep_a_value_each_are_told_from_slow_ones():
    """An even R by the paper's rule never changes the parity of bits."""

    def parity(state, info):
        return jnp.sum(state.x) % 2

    target, kernel = hs.Bernoulli(np.full(8, 0.5)), hs.LBP(lengths="paper")
    settings = {"chains": 10, "warmup": 100, "draws": 500, "record": {"parity": parity}}
    run = hs.sample(target, kernel, scale=hs.Fixed(2), **settings)
    assert np.isinf(run.statistics["parity"].r_hat)
    assert any("keeps a value of its own" in sentence for sentence in run.warnings)
    assert not any("forgotten" in sentence for sentence in run.warnings)
