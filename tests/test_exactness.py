"""Every kernel leaves every small target invariant, to rounding error; broken ones do not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.results.run import describe
from small import FALSE_ALARM, gap, small_targets

BALANCES = ("barker", "sqrt", "min", "max")
KERNELS = [
    *(hs.LBP(balance, path) for balance in BALANCES for path in ("reversed", "same")),
    *(hs.GWG(balance, repeats) for balance in BALANCES for repeats in ("once", "parity")),
    *(hs.DMALA(balance) for balance in BALANCES),
    hs.RWM(),
]
# A kernel of each way to draw and to go back. What g is, a target does not see.
ONE_OF_EACH = [
    hs.LBP(),
    hs.LBP("sqrt", "same"),
    hs.GWG(),
    hs.GWG("sqrt", "parity"),
    hs.DMALA(),
    hs.RWM(),
]
# Targets of one kind and shape share a compiled program, which is most of the cost.
GROUPS = {
    "one site": ["one site"],
    "ising": ["ising", "symmetric ising"],
    "bernoulli": ["bernoulli", "flat"],
    "fhmm": ["fhmm"],
    "quadratic": ["quadratic"],
}


def label(case):
    return case if isinstance(case, str) else describe(case)


CASES = [
    *((kernel, group) for kernel in KERNELS for group in ("one site", "ising")),
    *((kernel, group) for kernel in ONE_OF_EACH for group in ("bernoulli", "fhmm", "quadratic")),
]


def scales(target):
    """From one site to all, half of them and fractions included."""
    n = target.num_sites
    return sorted({1, min(2, n), min(1.4, n), max(1, n // 2), max(1, n - 0.3), n})


@pytest.mark.parametrize(("kernel", "group"), CASES, ids=label)
def test_target_is_invariant_and_all_of_it_is_reached(x64, kernel, group):
    for name in GROUPS[group]:
        target = small_targets()[name]
        for scale in scales(target):
            assert gap(target, kernel, scale) < 1e-10
            assert hs.check.irreducible(target, kernel, scale)


@pytest.mark.parametrize("kernel", [hs.LBP(), hs.GWG(), hs.DMALA(), hs.RWM()], ids=describe)
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_tempered_target_is_invariant(x64, kernel, beta):
    targets = small_targets()
    target = hs.Tempered(targets["bernoulli"], targets["quadratic"], beta)
    end = {0.0: "bernoulli", 1.0: "quadratic"}.get(beta)
    if end is not None:
        ours, theirs = map(hs.check.probabilities, (target, targets[end]))
        np.testing.assert_allclose(ours, theirs, atol=1e-14)
    for scale in (1, 2.5, 4):
        assert gap(target, kernel, scale) < 1e-10


def test_tempering_is_a_vmap_over_beta(x64):
    targets = small_targets()
    path = hs.Tempered(targets["bernoulli"], hs.Ising(np.zeros(4), 0.3), 0.0)
    x = jnp.asarray([1, 0, 0, 1])
    betas = jnp.linspace(0.0, 1.0, 5)
    along = jax.vmap(lambda beta: path.at(beta).log_prob(x))(betas)
    ends = float(path.base.log_prob(x)), float(path.target.log_prob(x))
    np.testing.assert_allclose(along, (1 - betas) * ends[0] + betas * ends[1], atol=1e-12)


@pytest.mark.parametrize("kernel", ONE_OF_EACH, ids=describe)
def test_target_of_more_sites_is_invariant(x64, kernel):
    rng = np.random.default_rng(3)
    shape = (5, 1) if isinstance(kernel, hs.GWG) else (3, 2)  # GWG has N^N ways to draw
    target = hs.FHMM(rng.normal(size=shape[0]), rng.normal(size=shape[1]), -0.2, 0.7)
    for scale in (2.5, target.num_sites):
        assert gap(target, kernel, scale) < 1e-10


@pytest.mark.parametrize(
    ("kernel", "ratios"),
    [*((kernel, "gradient") for kernel in ONE_OF_EACH), (hs.LBP(), "exact"), (hs.GWG(), "exact")],
    ids=label,
)
def test_categories_are_invariant(x64, kernel, ratios):
    target = categories(ratios)
    for scale in (1, 2.5, 3):
        assert gap(target, kernel, scale) < 1e-10


@pytest.mark.parametrize(
    "kernel", [hs.Gibbs(), hs.Gibbs(rule="metropolis"), hs.LBP(), hs.GWG(), hs.RWM()], ids=describe
)
@pytest.mark.parametrize("excluded", [-np.inf, np.nan])
def test_sites_of_unlike_values_with_states_left_out_are_invariant(x64, kernel, excluded):
    def log_density(x):
        return jnp.where((x[0, 1] == 1) & (x[1, 2] == 1), excluded, 0.4 * x[1, 1] - 0.7 * x[0, 0])

    target = hs.LogDensity(log_density, (2,), np.array([2, 4]), ratios="exact")
    assert gap(target, kernel, 2.0) < 1e-10
    assert hs.check.irreducible(target, kernel, 2.0)


def test_states_too_improbable_for_a_float_lead_to_others(x64):
    """Their probability is e^-1000, and their density is not zero."""
    target = hs.LogDensity(lambda x: -1_000.0 * jnp.sum(x), (2,), ratios="exact")
    for kernel in (hs.LBP(), hs.DMALA(), hs.Gibbs()):
        matrix = hs.check.transition_matrix(target, kernel, 1.0)
        assert np.all(np.diagonal(matrix)[1:] < 0.99)


def categories(ratios="gradient"):
    """Three sites of three values, with a pair interaction."""
    rng = np.random.default_rng(5)
    field, bond = rng.normal(size=(3, 3)), 0.5 * rng.normal(size=(3, 3))

    def log_density(code):
        return jnp.sum(field * code) + code[0] @ bond @ code[1] + code[1] @ bond @ code[2]

    return hs.LogDensity(log_density, (3,), num_states=3, ratios=ratios)


# -- Kernels that look right and are not. -------------------------------------------------------


class WrongWayBack(hs.LBP):
    """Draws the way back in an order that, drawn again, does not return: 2, 3, 1 for 1, 2, 3."""

    def score(self, target, state, move, way_back):
        if way_back:
            r, length = jnp.arange(move.choice.sites.size), move.choice.length
            turned = jnp.where(r < length, (r + 1) % length, r)
            move = move._replace(choice=move.choice._replace(sites=move.choice.sites[turned]))
        return super().score(target, state, move, way_back)


def before(target, kernel, state, move):
    """The state that a move of bits led from."""
    return kernel.init(target, state.x ^ move.moved.reshape(state.x.shape).astype(state.x.dtype))


class WrongEnd(hs.LBP):
    """Weighs the way back where the step starts, not where it ends."""

    def score(self, target, state, move, way_back):
        state = before(target, self, state, move) if way_back else state
        return super().score(target, state, move, way_back)


class NoProposalRatio(hs.LBP):
    """Forgets the proposal: accepts by pi(y) / pi(x) alone."""

    def score(self, target, state, move, way_back):
        state = before(target, self, state, move) if way_back else state
        return super().score(target, state, move, way_back=False)


class OffByAFactor(hs.LBP):
    """Accepts twice as readily when it moves to more ones."""

    def score(self, target, state, move, way_back):
        log_prob = super().score(target, state, move, way_back)
        up = jnp.sum(state.x) > jnp.sum(before(target, self, state, move).x)
        return log_prob + jnp.where(way_back & up, 0.7, 0.0)


BROKEN = [
    (WrongWayBack(path="same"), 3),
    (WrongEnd(), 2),
    (NoProposalRatio(), 2),
    (OffByAFactor(), 2),
]


@pytest.mark.parametrize(("twin", "scale"), BROKEN, ids=lambda b: type(b).__name__)
def test_broken_twin_fails_enumeration(x64, twin: hs.Kernel, scale: int):
    assert gap(small_targets()["ising"], twin, scale) > 1e-4


@pytest.mark.parametrize(("twin", "scale"), BROKEN, ids=lambda b: type(b).__name__)
def test_broken_twin_fails_invariance(twin: hs.Kernel, scale: int):
    target = hs.Ising(np.array([[1.2, -0.8], [0.3, 0.9]]), 0.4)
    assert hs.check.invariance(target, hs.LBP(), scale, false_alarm=FALSE_ALARM)
    assert not hs.check.invariance(target, twin, scale, draws=400_000, false_alarm=FALSE_ALARM)


@pytest.mark.parametrize(
    "kernel",
    [hs.LBP(), hs.LBP("sqrt", "same"), hs.GWG(), hs.GWG("min", "parity"), hs.DMALA(), hs.RWM()],
    ids=describe,
)
def test_one_step_keeps_exact_draws_exact(kernel):
    """The kernels as they run, random choices included."""
    target = small_targets()["quadratic"]
    for scale in (1, 2, 4):
        verdict = hs.check.invariance(target, kernel, scale, false_alarm=FALSE_ALARM)
        assert verdict, f"R={scale}: {verdict}"


def test_fractional_scale_keeps_exact_draws_exact():
    assert hs.check.invariance(small_targets()["ising"], hs.LBP(), 2.4, false_alarm=FALSE_ALARM)


def test_categories_keep_exact_draws_exact():
    target = categories()
    for kernel in (hs.LBP(), hs.GWG(), hs.DMALA(), hs.RWM()):
        assert hs.check.invariance(target, kernel, 2, false_alarm=FALSE_ALARM)


def test_a_test_that_cannot_tell_says_so():
    with pytest.raises(ValueError, match="more draws"):
        hs.check.invariance(hs.Bernoulli(np.full(3, 1e-4)), hs.RWM(), draws=1000)


def test_checks_refuse_what_is_not_a_target_or_a_kernel():
    with pytest.raises(TypeError, match="a target and a kernel"):
        hs.check.invariance(3, hs.LBP())  # pyright: ignore
    with pytest.raises(ValueError, match="cannot exceed"):
        hs.check.transition_matrix(small_targets()["ising"], hs.LBP(), 4.5)


def test_checks_refuse_large_targets():
    target = hs.Bernoulli(np.full(40, 0.5))
    with pytest.raises(ValueError, match="can be enumerated"):
        hs.check.invariance(target, hs.LBP())


def test_verdict_reads_well():
    verdict = hs.check.invariance(small_targets()["bernoulli"], hs.RWM())
    assert "the target is invariant" in str(verdict)
    assert verdict.passed
    assert verdict.p_value <= 1


class Astray(hs.RWM):
    """A twin that now and then goes to a state of probability zero."""

    def settle(self, uniform, target, state, there, move, log_forward):
        settled = super().settle(uniform, target, state, there, move, log_forward)
        wrong = (uniform > 0.999) & (there.log_prob == -jnp.inf)
        after = jax.tree.map(lambda a, b: jnp.where(wrong, a, b), there, settled.state)
        return settled._replace(state=after)


def test_impossible_states_fail_the_test_however_rare():
    target = hs.LogDensity(lambda x: jnp.where(jnp.sum(x) > 4, -jnp.inf, 0.3 * x[0]), (6,))
    settings = {"scale": 1.0, "draws": 20_000}
    assert hs.check.invariance(target, hs.RWM(), **settings)
    verdict = hs.check.invariance(target, Astray(), **settings)
    assert not verdict
    assert verdict.p_value == 0


def test_checks_have_a_scale_of_their_own(x64):
    """Two sites, fewer where two are too many; kernels without a scale need none."""
    target = hs.Bernoulli([0.3, 0.6, 0.5])
    pi = hs.check.probabilities(target)
    for kernel in (hs.LBP(), hs.Gibbs(order="systematic"), hs.RWM()):
        np.testing.assert_allclose(pi @ hs.check.transition_matrix(target, kernel), pi, atol=1e-12)
        assert hs.check.irreducible(target, kernel)
    given = hs.Swap(ones=1)
    assert hs.check.transition_matrix(target, given).shape == (8, 8)
    x = np.random.default_rng(0).integers(0, 2, (10, 3))
    assert hs.check.ratios(target, x).agree
