"""The best state, where it is known by enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.annealing.anneal import Schedule, anneal, begin, nothing_yet
from hopscale.annealing.optimum import Rounds
from hopscale.annealing.temperatures import EXCESS, beta_range
from hopscale.engine.loop import Program
from hopscale.targets.powered import Powered
from hopscale.tune import fitted
from small import small_targets

RNG = np.random.default_rng(8)
GLASS = hs.Pairwise(np.triu(RNG.choice([-1.0, 1.0], (14, 14)), 1), 0.3 * RNG.normal(size=14))


def best_of(target):
    everything = hs.check.states(target)
    chances = hs.check.probabilities(target)
    return everything[np.argmax(chances)]


@pytest.fixture(scope="module")
def found():
    return hs.optimize(GLASS, seconds=0.5, chains=16, progress=False)


def test_the_best_state_is_found(found):
    np.testing.assert_array_equal(found.x, best_of(GLASS))
    assert found.log_prob == pytest.approx(float(GLASS.log_prob(found.x)))
    assert found.rounds >= 1
    assert np.all(np.diff(found.history[:, 1]) >= 0)


def test_annealing_in_whole_pages_is_the_same(monkeypatch):
    """The loop for GPUs, which idles before the first step and beyond the last, on the CPU."""
    tuner = fitted(hs.Fixed(3), hs.LBP().scale_range(GLASS))
    program = Program(
        key=jax.random.key(0), target=Powered(GLASS, 0.1), kernel=hs.LBP(), tuner=tuner
    )
    schedule = Schedule(jnp.linspace(0.1, 2.0, 20), jnp.int32(2), jnp.int32(5))

    def end():
        jax.clear_caches()  # the loop asks when it is traced
        chains, best = begin(program, jnp.zeros((4, 14), jnp.int8)), nothing_yet(GLASS)
        for first, steps in ((5, 30), (35, 3), (38, 40)):
            chains, best = anneal(program, chains, best, schedule, *map(jnp.int32, (first, steps)))
        return jax.tree.leaves((chains, best))

    expected = end()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for ours, theirs in zip(end(), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    monkeypatch.undo()
    jax.clear_caches()


def test_the_range_of_betas_is_that_of_changes_at_optima():
    """Bits in their own fields: 1 and 100 times 2 are what changes of one site cost at the best."""
    hot, cold = beta_range(hs.Pairwise([], np.repeat([1.0, 100.0], 5)))
    assert hot == pytest.approx(np.log(2.0) / 200.0)
    assert 5.0 * 2.0 * np.exp(-2.0 * cold) == pytest.approx(EXCESS * 2.0, rel=1e-3)
    assert beta_range(hs.Pairwise([], np.zeros(4))) == (1.0, 1.0)
    one_in_many = hs.Pairwise([], np.eye(1, 10**5)[0])
    assert 2.0 * np.exp(-2.0 * beta_range(one_in_many)[1]) == pytest.approx(EXCESS * 2.0, rel=1e-3)


def test_the_range_of_betas_does_not_go_by_states_far_from_optima():
    """k of n ones: each change at random states costs up to n, and at the best states 1."""
    n, k = 150, 15
    target = hs.LogDensity(lambda x: -((jnp.sum(x) - k) ** 2), (n,), ratios="exact")
    hot, cold = beta_range(target)
    assert hot == pytest.approx(np.log(2.0))
    assert n * np.exp(-cold) == pytest.approx(EXCESS, rel=1e-3)


def test_categories_descend_to_their_best_values():
    """Each site on its own: the second best of three values costs 1, the third 3."""
    target = hs.LogDensity(lambda x: -jnp.sum(x @ jnp.asarray([3.0, 0.0, 1.0])), (8,), 3)
    hot, cold = beta_range(target)
    assert hot == pytest.approx(np.log(2.0) / 3.0, rel=1e-4)
    assert 8.0 * np.exp(-cold) == pytest.approx(EXCESS, rel=1e-3)


@pytest.mark.parametrize(
    "of_the_sum",
    [
        lambda ones: jnp.where(ones == 3, 0.0, -jnp.inf),
        lambda ones: -1e3 * (ones - 3.0) ** 2,
        lambda ones: 1e3 * ones,
    ],
    ids=["constraint", "penalty", "field"],
)
def test_swaps_freeze_where_swaps_cost_nothing_extra(of_the_sum):
    """Three of ten items: at the best, the swaps of an item of 7 to 9 for one of 0 to 6 cost so."""
    values = jnp.arange(10.0)
    target = hs.LogDensity(lambda x: 0.1 * x @ values + of_the_sum(jnp.sum(x)), (10,))
    start = (np.arange(10) < 3).astype(int)[None]
    costs = 0.1 * np.subtract.outer(np.arange(7, 10), np.arange(7)).ravel()
    for kernel in (hs.Swap(), hs.Swap(ones=3, balance=None)):
        hot, cold = beta_range(target, x=start, kernel=kernel)
        assert hot == pytest.approx(np.log(2.0) / 0.9, rel=1e-2)
        left = np.mean(costs * np.exp(-cold * costs))
        assert 200 * left == pytest.approx(EXCESS * np.quantile(costs, 0.1), rel=0.2)


def test_a_search_by_swaps_finds_the_best_of_what_is_allowed():
    """Eight of forty items, on a scale on which a swap costs next to nothing."""
    values = 1e-3 * jnp.arange(40.0)
    target = hs.LogDensity(lambda x: jnp.where(jnp.sum(x) == 8, x @ values, -jnp.inf), (40,))
    kernel = hs.Swap(ones=8, balance=None)
    found = hs.optimize(target, seconds=0.5, kernel=kernel, chains=4, progress=False)
    assert np.flatnonzero(found.x).tolist() == list(range(32, 40))


def test_the_result_reads_well(found):
    text = str(found)
    assert "The best of Pairwise (14)" in text
    assert "found after" in text
    assert found.summary()["x"] == found.x.tolist()


def test_targets_without_pairs_are_annealed_by_lbp():
    target = small_targets()["quadratic"]
    found = hs.optimize(target, seconds=0.3, chains=8, progress=False)
    assert isinstance(found.kernel, hs.LBP)
    np.testing.assert_array_equal(found.x, best_of(target))


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"seconds": -1}, "seconds"), ({"betas": (2.0, 1.0)}, "betas"), ({"chains": 0}, "chains")],
)
def test_settings_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        hs.optimize(GLASS, **settings)


def chosen(low, high):
    """Between so many of 20 items, whose values are 0 to 19; the best choice is the last ones."""

    def log_density(x):
        count = jnp.sum(x)
        value = 0.3 * jnp.sum(x * jnp.arange(20.0))
        return jnp.where((count >= low) & (count <= high), value, -jnp.inf)

    return hs.LogDensity(log_density, 20)


def test_a_constant_that_hides_differences_is_named():
    couplings = np.triu(np.random.default_rng(0).normal(size=(6, 6)), 1)
    target = hs.Pairwise(couplings, 0.1)
    found = hs.optimize(target, seconds=0.1, chains=4, progress=False)
    assert found.warnings == ()
    with pytest.warns(hs.ConvergenceWarning, match="resolves to 12 only.*Leave out a constant"):
        hidden = hs.optimize(target.shifted(1e8), seconds=0.1, chains=4, progress=False)
    assert "! The log-density is about 1e+08" in str(hidden)
    assert hidden.summary()["warnings"] == list(hidden.warnings)


def test_a_constraint_that_few_random_states_keep():
    """One in fifty: rounds begin at states that keep it, which also say how to anneal."""
    found = hs.optimize(chosen(3, 5), seconds=0.5, progress=False)
    assert found.log_prob == pytest.approx(0.3 * (15 + 16 + 17 + 18 + 19))
    assert found.betas[0] < found.betas[1]


def test_a_constraint_that_no_random_state_keeps_is_an_error():
    with pytest.raises(ValueError, match=r"100 random states were tried.*`init`"):
        hs.optimize(chosen(21, 22), seconds=0.1, progress=False)


def test_the_range_of_betas_does_not_go_by_a_poor_optimum_that_is_given():
    """At this start a change costs 0.3 at most, at the best state 5.7."""
    start = (np.arange(20) < 2).astype(int)
    hot, _ = beta_range(chosen(1, 2), x=start[None])
    assert np.log(2.0) / 5.8 < hot < np.log(2.0) / 3.0


def test_a_round_ends_at_the_last_temperature_in_time(monkeypatch):
    """A step takes half a second, from the 60th on two: of 512 steps there is time for a few."""

    def seconds(step):
        return 0.5 * step if step < 60 else 30.0 + 2.0 * (step - 60)

    def paced(job):
        return 2.0 if job.step < 60 else 0.5

    def ignored(job, measured):
        pass

    job = Rounds(GLASS, hs.Gibbs(rule="metropolis"), 4, (0.1, 10.0), None, jax.random.key(0), 100.0)
    monkeypatch.setattr(Rounds, "elapsed", property(lambda self: seconds(self.step)))
    monkeypatch.setattr(Rounds, "rate", property(paced, ignored), raising=False)
    job._plan_round()
    visited = []
    while steps := min(job.room(), 1):
        place = (job.step - job.schedule.begin) // job.schedule.each
        visited.append(float(job.schedule.betas[place]))
        job._take(steps)
    assert job.rounds == 1
    assert np.all(np.diff(visited) > 0)
    assert visited[-1] > 7.0
    assert 90 < job.elapsed < 100


def test_seconds_are_those_of_the_search(monkeypatch):
    """Its log-probability is computed once more for the result, and compiled for that."""
    clock = [1.5]

    class Slow:
        def log_prob(self, x):
            clock[0] += 3.0
            return 7.0

    job = Rounds(GLASS, hs.Gibbs(rule="metropolis"), 4, (0.1, 10.0), None, jax.random.key(0), 0.1)
    monkeypatch.setattr(Rounds, "elapsed", property(lambda self: clock[0]))
    job.target = Slow()
    found = job.result()
    assert found.log_prob == 7.0
    assert found.seconds == 1.5


def test_rounds_begin_where_they_are_told():
    start = (np.arange(20) < 2).astype(int)
    found = hs.optimize(chosen(1, 2), seconds=0.5, init=start, progress=False)
    assert found.log_prob == pytest.approx(0.3 * (18 + 19))
    with pytest.raises(ValueError, match=r"-inf for 32 of 32 chains.*\. Pass starting"):
        hs.optimize(chosen(1, 2), seconds=0.1, init=np.ones(20, int), progress=False)
    with pytest.raises(ValueError, match=r"init must have the target's shape \(20,\)"):
        hs.optimize(chosen(1, 2), seconds=0.1, init=np.ones(19, int), progress=False)
