"""The distribution between two: every kernel leaves it invariant, at every beta."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import move as moves
from hopscale.learn import EBM, MLP
from hopscale.select import listed

KERNELS = {
    "lbp sqrt": hs.LBP("sqrt"),
    "lbp barker, same path": hs.LBP("barker", path="same"),
    "lbp, the paper's lengths": hs.LBP("sqrt", lengths="paper"),
    "gwg once": hs.GWG("sqrt"),
    "gwg parity": hs.GWG(repeats="parity"),
    "dmala": hs.DMALA(),
    "rwm": hs.RWM(),
}
BETAS = (0.0, 0.3, 0.85, 1.0)
P = np.array([[0.2, 0.5], [0.6, 0.9]])


def targets() -> dict[str, hs.Target]:
    """Built inside a test, so that they take its precision; some update, some do not."""
    rng = np.random.default_rng(3)
    w, b, c = rng.normal(size=(3, 4)), rng.normal(size=(2, 2)), rng.normal(size=3)
    network = MLP((2, 2), 6, key=1)
    louder = jax.tree.map(lambda a: 3.0 * a if eqx.is_inexact_array(a) else a, network)
    return {
        "ebm": EBM(louder, P),
        "rbm": hs.RBM(2.0 * w, b, c),
        "ising": hs.Ising(rng.normal(size=(2, 2)), 0.7),
    }


def path(name: str, beta: float, kind: type[hs.Tempered] = hs.Tempered) -> hs.Tempered:
    return kind(hs.Bernoulli(P), targets()[name], beta)


def error(tempered: hs.Tempered, kernel: hs.Kernel, claimed: float, scale: float = 2.3) -> float:
    """How far one step moves the distribution at the claimed beta."""
    base, full = (hs.check.probabilities(end) for end in (tempered.base, tempered.target))
    pi = base ** (1 - claimed) * full**claimed
    pi /= pi.sum()
    return float(np.abs(pi @ hs.check.transition_matrix(tempered, kernel, scale) - pi).max())


@pytest.mark.parametrize("name", ["ebm", "rbm", "ising"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_leaves_every_beta_invariant(x64, kernel, name):
    for beta in BETAS:
        assert error(path(name, beta), KERNELS[kernel], beta) < 1e-10


NESTED = {
    "both ends tempered": lambda bits, pairs: hs.Tempered(
        hs.Tempered(bits, hs.Bernoulli(0.5 * P), 0.25), hs.Tempered(bits, pairs, 0.3), 0.7
    ),
    "the target tempered": lambda bits, pairs: hs.Tempered(
        bits, hs.Tempered(bits, pairs, 0.3), 0.7
    ),
    "the base tempered": lambda bits, pairs: hs.Tempered(hs.Tempered(bits, bits, 0.5), pairs, 0.7),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("kernel", [hs.Gibbs(), hs.Gibbs(rule="metropolis"), hs.LBP()], ids=str)
def test_what_is_tempered_can_be_tempered(x64, kernel, name):
    target = NESTED[name](hs.Bernoulli(P), targets()["ising"])
    pi = hs.check.probabilities(target)
    assert np.abs(pi @ hs.check.transition_matrix(target, kernel, 2.3) - pi).max() < 1e-10


def test_ratios_are_exact_only_if_those_of_both_ends_are(x64):
    """Whichever end has gradients: an average of ratios that takes them for exact is biased."""
    bits, rbm = hs.Bernoulli(P), targets()["rbm"]
    assert (bits.ratios, rbm.ratios) == ("exact", "gradient")
    for target in (hs.Tempered(rbm, bits, 0.2), hs.Tempered(bits, rbm, 0.8)):
        assert target.ratios == "gradient"
        with pytest.raises(ValueError, match="gradient ratios"):
            hs.sample(target, hs.LBP(), record=hs.models.Inclusion(), progress=False)
    assert hs.Tempered(bits, targets()["ising"], 0.5).ratios == "exact"


def test_the_best_state_of_what_is_tempered():
    target = hs.Tempered(hs.Bernoulli(P), targets()["ising"], 0.7)
    found = hs.optimize(target, seconds=0.1, chains=4, progress=False)
    log_probs = [float(target.log_prob(x)) for x in hs.check.states(target)]
    assert found.log_prob == pytest.approx(max(log_probs), abs=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_another_beta_fails_that_test(x64, kernel):
    assert error(path("ebm", 0.3), KERNELS[kernel], 0.4) > 1e-4


class Forgetful(hs.Tempered):
    """After a move it says what the target alone would say."""

    def _update(self, x, evaluation, move):
        return self.at(jnp.ones(())).combine(*super()._update(x, evaluation, move).cache)


def test_an_update_at_the_wrong_beta_fails_that_test(x64):
    assert error(path("rbm", 0.3, Forgetful), hs.LBP("sqrt"), 0.3) > 1e-4


@pytest.mark.parametrize("ratios", [True, False])
@pytest.mark.parametrize("name", ["ebm", "rbm", "ising"])
def test_another_beta_costs_no_evaluation(x64, name, ratios):
    x = jnp.asarray([[1, 0], [1, 1]], jnp.int8)
    cache = path(name, 0.1).evaluate(x, ratios=ratios).cache
    for beta in BETAS:
        found, needed = path(name, beta).combine(*cache), path(name, beta).evaluate(x, ratios)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(needed), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["ebm", "rbm", "ising"])
def test_updates_agree_with_evaluations_over_many_moves(x64, name):
    tempered, rng = path(name, 0.4), np.random.default_rng(5)

    def move(_, carry):
        x, evaluation, key = carry
        key, key_sites, key_length = jax.random.split(key, 3)
        length = jax.random.randint(key_length, (), 1, 5)
        choice = listed(jax.random.permutation(key_sites, 4).astype(jnp.int32), length)
        made = moves.Move(choice=choice, moved=choice.chosen, values=None)
        return moves.apply(x, made), tempered.update(x, evaluation, made), key

    x = jnp.asarray(rng.integers(0, 2, (2, 2)), jnp.int8)
    begin = (x, tempered.evaluate(x), jax.random.key(0))
    x, found, _ = jax.jit(lambda carry: jax.lax.fori_loop(0, 2_000, move, carry))(begin)
    needed = tempered.evaluate(x)
    np.testing.assert_allclose(found.log_prob, needed.log_prob, atol=1e-10)
    np.testing.assert_allclose(found.log_ratios, tempered.log_ratios(x), atol=1e-10)


def test_the_ends_are_base_and_target_even_where_the_other_is_impossible():
    impossible = hs.LogDensity(lambda x: jnp.where(x[0] > 0, 0.0, -jnp.inf), (2,))
    base, x = hs.Bernoulli(np.array([0.3, 0.4])), jnp.zeros(2, jnp.int8)
    at = [hs.Tempered(base, impossible, beta).log_prob(x) for beta in (0.0, 0.5, 1.0)]
    assert at[0] == base.log_prob(x)
    assert at[1] == at[2] == -jnp.inf
