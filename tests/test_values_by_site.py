"""Sites that differ in how many values they can take."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.results.run import describe
from hopscale.targets.independent import equally_likely
from hopscale.targets.powered import Powered
from hopscale.targets.tempered import Tempered
from refusals import NOT_INTEGERS, Refused, shown
from runs import errors_away, most_errors
from small import FALSE_ALARM

EACH = np.array([2, 4, 3])
PAIRS = [(0, 1, 0.7), (1, 2, -0.5), (2, 3, 0.4), (0, 3, 0.3)]
AT_ZERO = [hs.LBP("max"), hs.GWG("max"), hs.DMALA("max")]  # have weight for what is impossible
KERNELS = [
    hs.LBP(),
    hs.LBP("sqrt", "same"),
    hs.GWG(),
    hs.GWG("sqrt", "parity"),
    hs.DMALA(),
    hs.RWM(),
    hs.Gibbs(),
    hs.Gibbs("systematic", "metropolis"),
]


def density(ratios="gradient"):
    """Three sites of two, four and three values, all of which depend on each other."""
    table = np.random.default_rng(0).normal(size=(12, 12))

    def log_density(code):
        return code.reshape(-1) @ table @ code.reshape(-1)

    return hs.LogDensity(log_density, (3,), EACH, ratios)


def potts():
    field = np.random.default_rng(1).normal(size=(2, 2, 4))
    return hs.Potts(PAIRS, [[2, 4], [3, 2]], field)


def three():
    """So few states that every move is soon enumerated."""
    field = np.random.default_rng(1).normal(size=(3, 4))
    return hs.Potts([(0, 1, 0.7), (1, 2, -0.5)], EACH, field)


TARGETS = {
    "exact": lambda: density("exact"),
    "gradient": density,
    "potts": three,
    "clamped": lambda: hs.clamp(potts(), [1], [2]),
    "clamped density": lambda: hs.clamp(density(), [0], [1]),
    "tempered": lambda: Tempered(equally_likely(three()), three(), 0.4),
    "powered": lambda: Powered(three(), 0.7),
}


def gap(target, kernel, scale):
    pi = hs.check.probabilities(target)
    return np.abs(pi @ hs.check.transition_matrix(target, kernel, scale) - pi).max()


@pytest.mark.parametrize("kernel", KERNELS, ids=describe)
@pytest.mark.parametrize("name", ["exact", "gradient", "potts", "clamped"])
def test_target_is_invariant_and_all_of_it_is_reached(x64, name, kernel):
    target = TARGETS[name]()
    for scale in (1, 1.6, target.num_sites):
        assert gap(target, kernel, scale) < 1e-10
        assert hs.check.irreducible(target, kernel, scale)


@pytest.mark.parametrize("name", ["clamped density", "tempered", "powered"])
def test_targets_made_of_others_are_invariant(x64, name):
    target = TARGETS[name]()
    for kernel in (hs.LBP(), hs.RWM(), hs.Gibbs()):
        assert gap(target, kernel, 2) < 1e-10


class Ones(hs.LBP):
    """A twin that forgets how its sites' values were drawn on the way back."""

    def score(self, target, state, move, way_back):
        if way_back:
            values = (state.x.reshape(-1) + 1) % jnp.ravel(target.num_states_by_site)
            move = move._replace(values=values.astype(jnp.int32))
        return super().score(target, state, move, way_back)


def test_broken_twin_fails_enumeration(x64):
    assert gap(density(), Ones(implementation="reference"), 2) > 1e-4


@pytest.mark.parametrize("kernel", [*KERNELS, *AT_ZERO], ids=describe)
def test_kernels_keep_exact_draws_exact(kernel):
    """As they run, in single precision."""
    for target in (density(), potts()):
        assert hs.check.invariance(target, kernel, false_alarm=FALSE_ALARM)


def test_probabilities_are_those_of_the_states_there_are(x64):
    target, field = potts(), np.random.default_rng(1).normal(size=(2, 2, 4)).reshape(4, 4)
    states = hs.check.states(target).reshape(-1, 4)
    assert len(states) == 48
    np.testing.assert_array_equal(states.max(axis=0), [1, 3, 2, 1])
    log_prob = [
        sum(field[i, x[i]] for i in range(4)) + sum(w for i, j, w in PAIRS if x[i] == x[j])
        for x in states
    ]
    expected = np.exp(log_prob) / np.sum(np.exp(log_prob))
    np.testing.assert_allclose(hs.check.probabilities(target), expected, atol=1e-12)


def test_values_that_a_site_lacks_are_impossible(x64):
    for target in (density("exact"), density("gradient")):
        ratios = np.asarray(target.log_ratios(jnp.asarray([1, 3, 2])))
        assert np.all(np.isfinite(ratios) == (np.arange(4) < EACH[:, None]))
        lacking = jnp.asarray([2, 0, 0], target.state_dtype)
        assert target._log_prob(lacking) == -np.inf
    x, target = np.array([0, 1, 2]), density("exact")
    ratios = np.asarray(target.log_ratios(x))
    for site, value in zip(*np.nonzero(np.arange(4) < EACH[:, None]), strict=True):
        there = np.where(np.arange(3) == site, value, x)
        expected = target.log_prob(there) - target.log_prob(x)
        np.testing.assert_allclose(ratios[site, value], expected, atol=1e-10)


def test_one_number_for_each_that_is_the_same_is_one_number():
    assert hs.LogDensity(jnp.sum, (3,), [3, 3, 3]).num_states_by_site == 3
    assert hs.Potts(PAIRS, [3, 3, 3, 3]).num_states_by_site == 3


def test_potts_of_two_values_is_a_model_of_bits(x64):
    field = np.random.default_rng(1).normal(size=(4, 2))
    target = hs.Potts(PAIRS, [2, 2, 2, 2], field)
    assert target.num_states == 2
    for kernel in KERNELS:
        assert gap(target, kernel, 2) < 1e-10
    spins = hs.Pairwise([(i, j, 0.5 * w) for i, j, w in PAIRS], 0.5 * (field[:, 1] - field[:, 0]))
    np.testing.assert_allclose(hs.check.probabilities(target), hs.check.probabilities(spins))


def test_what_a_field_says_of_values_that_a_site_lacks_is_ignored(x64):
    each, field = np.array([[2, 4], [3, 2]]), np.random.default_rng(1).normal(size=(2, 2, 4))
    without = np.where(np.arange(4) < each[..., None], field, -np.inf)
    np.testing.assert_array_equal(hs.Potts(PAIRS, each, without).field, potts().field)


def test_clamped_sites_may_be_all_that_have_many_values(x64):
    """What is left are sites of two and three values, or bits."""
    for sites, values, most in (([1], [3], 3), ([1, 2], [3, 0], 2)):
        target = hs.clamp(potts(), sites, values)
        assert target.num_states == most
        whole, given = hs.check.states(potts()).reshape(-1, 4), hs.check.probabilities(potts())
        fits = np.all(whole[:, sites] == values, axis=1)
        expected = given[fits] / given[fits].sum()
        np.testing.assert_allclose(hs.check.probabilities(target), expected, atol=1e-12)
        for kernel in (hs.LBP(), hs.RWM(), hs.Gibbs()):
            assert gap(target, kernel, 2) < 1e-10


def test_tuners_stop_where_a_fresh_draw_would_be():
    target = hs.LogDensity(lambda code: 0.0 * jnp.sum(code), (100,), [50] + [2] * 99)
    assert float(hs.LBP().scale_range(target).tuned_high) == pytest.approx(99 / 2 + 49 / 50)
    settings = {"chains": 20, "warmup": 200, "draws": 10, "progress": False}
    assert hs.sample(target, hs.RWM(), **settings).scale <= 50.5


def test_runs_start_and_stay_among_the_states_there_are():
    each = np.random.default_rng(2).integers(2, 7, (8, 9))
    target = hs.Potts.lattice((8, 9), each, 0.4)
    for kernel in (hs.LBP(), hs.GWG(), hs.RWM(), None):
        run = hs.sample(target, kernel, chains=7, warmup=20, draws=50, keep="all", progress=False)
        draws = np.asarray(run.draws)
        assert np.all(draws < each)
        assert np.all(draws.max(axis=(0, 1)) == each - 1)


@pytest.mark.parametrize("reference", ["uniform", "fitted"])
def test_tempering_goes_to_a_reference_of_the_states_there_are(reference):
    target = density()
    run = hs.sample(
        target,
        hs.LBP(),
        chains=50,
        temper=hs.Tempering(4, reference),
        keep="all",
        progress=False,
    )
    states, pi = hs.check.states(target), hs.check.probabilities(target)
    shares = np.einsum("m,mnv->nv", pi, np.eye(4)[states])
    by_chain, known = np.eye(4)[np.asarray(run.draws)].mean(axis=1), shares > 0
    assert errors_away(by_chain[:, known], shares[known]) < most_errors(int(known.sum()), 50)
    assert np.all(by_chain[:, ~known] == 0)
    log_prob = jax.vmap(target.log_prob)(jnp.asarray(states))
    tempering = run.tempering
    assert tempering is not None
    assert abs(tempering.log_z - jax.scipy.special.logsumexp(log_prob)) < 0.05


def test_annealing_finds_the_best_state_there_is():
    target = potts()
    states = hs.check.states(target)
    best = states[np.argmax(hs.check.probabilities(target))]
    for kernel in (None, hs.LBP()):
        found = hs.optimize(target, 1.0, kernel=kernel, progress=False)
        np.testing.assert_array_equal(found.x, best)


def values(n):
    return lambda: hs.LogDensity(jnp.sum, (3,), n)


REFUSED = {
    "too few numbers": Refused(values([2, 3]), ValueError, r"one for each site, of shape \(3,\)"),
    "a number too many": Refused(values([2, 3, 2, 2]), ValueError, "one for each site"),
    "fractions": Refused(values([2.5, 2, 2]), TypeError, "num_states must hold integers"),
    "a site of one value": Refused(values([2, 1, 2]), ValueError, "at least 2 at each site; got 1"),
    "one value": Refused(values(1), ValueError, "num_states must be at least 2; got 1"),
    "an initial value that a site lacks": Refused(
        lambda: hs.sample(density(), init=np.array([1, 1, 3])),
        ValueError,
        r"init must hold values 0 \.\.\. 2 at site 2; got 3",
    ),
    "a clamped value that a site lacks": Refused(
        lambda: hs.clamp(potts(), [2, 0], [3, 1]),
        ValueError,
        r"clamped sites take values 0 \.\.\. 2 at site 2; got 3",
    ),
    "a base with values that the target lacks": Refused(
        lambda: Tempered(hs.Potts(PAIRS, 4, np.zeros((2, 2, 4))), potts(), 0.5),
        ValueError,
        "site 0 has 4 and 2",
    ),
    "a state that a site lacks": Refused(
        lambda: density().log_prob(np.array([0, 0, 3])),
        ValueError,
        r"a state holds values 0 \.\.\. 2 at site 2; got 3",
    ),
    "Potts, too few numbers": Refused(
        lambda: hs.Potts(PAIRS, [2, 3]), ValueError, r"sites must lie in 0 \.\.\. 1"
    ),
    "Potts, another field": Refused(
        lambda: hs.Potts(PAIRS, [2, 3, 4, 2], np.zeros((5, 4))), ValueError, "one for each site"
    ),
    "too many states": Refused(
        lambda: hs.check.states(hs.Potts.lattice((5, 4), [[2, 3, 2, 3]] * 5)),
        ValueError,
        r"2\^10 \* 3\^10 states",
    ),
    **{
        f"{name} of {shown(value)}": Refused(partial(call, value), (TypeError, ValueError), "num_s")
        for name, call in {
            "LogDensity": lambda n: hs.LogDensity(jnp.sum, (3,), n),
            "Potts": lambda n: hs.Potts(PAIRS, n, np.zeros((4, 2))),
        }.items()
        for value in NOT_INTEGERS
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused(name):
    REFUSED[name].check()
