"""Parallel tempering is exact: all levels, enumerated together."""

from functools import cache, cached_property, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.csgraph

import hopscale as hs
from hopscale import check
from hopscale.kernels.levels import Ladder, swapped
from hopscale.results.run import describe
from hopscale.targets.independent import Independent
from small import FALSE_ALARM


@cache  # one for all: what is compiled for it is shared
def bits() -> hs.Target:
    """Two bits that like to be equal."""
    return hs.LogDensity(lambda x: 1.5 * (2 * x[0] - 1) * (2 * x[1] - 1) + 0.4 * x[0], (2,))


@cache
def values() -> hs.Target:
    """Two sites of three values."""
    rng = np.random.default_rng(5)
    field, bond = rng.normal(size=(2, 3)), rng.normal(size=(3, 3))

    def log_density(code):
        return jnp.sum(field * code) + code[0] @ bond @ code[1]

    return hs.LogDensity(log_density, (2,), num_states=3)


CASES = {"bits": (bits, 3), "values": (values, 2)}


def ladder_of(target: hs.Target, levels: int) -> Ladder:
    """A ladder from a reference that is far from uniform."""
    rng = np.random.default_rng(levels)
    weights = jnp.asarray(rng.normal(size=(*target.shape, target.num_states)))
    return Ladder(
        betas=jnp.asarray([0.0, 0.35, 1.0])[jnp.asarray([0, 1, 2][-levels:])].at[0].set(0.0),
        scales=jnp.asarray([1.4, 1.0][: levels - 1]),
        log_probs=jax.nn.log_softmax(weights, axis=-1),
        log_z=jnp.zeros(levels - 1),
    )


class Joint:
    """The states of all levels together, and how a step moves them."""

    def __init__(self, target: hs.Target, kernel: hs.Tempering):
        self.kernel, self.levels = kernel, kernel.replicas
        self.ladder = ladder_of(target, self.levels)
        reference = Independent(self.ladder.log_probs)
        self.path = [hs.Tempered(reference, target, beta) for beta in self.ladder.betas]
        self.pi = [check.probabilities(one) for one in self.path]
        each = jnp.asarray(check.states(target))
        self.size = len(each)
        self.log_target, self.log_reference = (
            np.asarray(jax.vmap(end.log_prob)(each)) for end in (target, reference)
        )
        # Rows: which state each level is in, the reference's changing slowest.
        self.places = np.indices((self.size,) * self.levels).reshape(self.levels, -1).T

    @property
    def stationary(self) -> np.ndarray:
        return self._product([row[None] for row in self.pi])[0]

    def _product(self, matrices) -> np.ndarray:
        found = matrices[0]
        for matrix in matrices[1:]:
            found = np.kron(found, matrix)
        return found

    @cached_property
    def moves(self) -> np.ndarray:
        """A fresh draw at the reference, a step of the kernel at every other level."""
        fresh = np.tile(self.pi[0], (self.size, 1))
        steps = [
            check.transition_matrix(one, self.kernel.inner, float(scale))
            for one, scale in zip(self.path[1:], self.ladder.scales, strict=True)
        ]
        return self._product([fresh, *steps])

    def swaps(self, even: bool) -> np.ndarray:
        """Every outcome of the swaps whose turn it is, by the functions of the step."""
        prob = np.asarray(
            jax.vmap(lambda a, b: self.kernel.swap_prob(self.ladder.betas, a, b))(
                jnp.asarray(self.log_target[self.places]),
                jnp.asarray(self.log_reference[self.places]),
            )
        )
        matrix = np.zeros((len(self.places),) * 2)
        for outcome in np.ndindex(*(2,) * (self.levels - 1)):
            accepted = np.array(outcome, bool)
            turn = (np.arange(self.levels - 1) % 2 == 0) == even
            if np.any(accepted & ~turn):
                continue
            weight = np.prod(np.where(turn, np.where(accepted, prob, 1 - prob), 1.0), axis=1)
            after = np.asarray(swapped(jnp.asarray(self.places.T), jnp.asarray(accepted)))
            to = np.ravel_multi_index(tuple(after), (self.size,) * self.levels)
            np.add.at(matrix, (np.arange(len(matrix)), to), weight)
        return matrix

    def step(self, even: bool) -> np.ndarray:
        return self.moves @ self.swaps(even)


def tempering(name: str, kind: type[hs.Tempering] = hs.Tempering, inner=hs.LBP("sqrt")):
    make, levels = CASES[name]
    return Joint(make(), kind(levels=levels, kernel=inner))


@pytest.mark.parametrize("inner", [hs.LBP("sqrt"), hs.RWM(), hs.Gibbs()], ids=describe)
@pytest.mark.parametrize("name", CASES)
def test_all_levels_together_are_invariant_and_reached(x64, name, inner):
    joint = tempering(name, inner=inner)
    steps = [joint.step(even) for even in (True, False)]
    for matrix in steps:
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
        assert np.abs(joint.stationary @ matrix - joint.stationary).max() < 1e-10
    groups, _ = scipy.sparse.csgraph.connected_components(
        steps[0] @ steps[1] > 0, connection="strong"
    )
    assert groups == 1


class NoReference(hs.Tempering):
    """Swaps by the target alone, as if the reference were uniform."""

    def swap_prob(self, betas, log_target, log_reference):
        return super().swap_prob(betas, log_target, jnp.zeros_like(log_reference))


class NoBetas(hs.Tempering):
    """Swaps whatever the levels have to say."""

    def swap_prob(self, betas, log_target, log_reference):
        return jnp.full(betas.size - 1, 0.7)


@pytest.mark.parametrize("broken", [NoReference, NoBetas])
def test_broken_swaps_fail_that_test(x64, broken):
    joint = tempering("bits", broken)
    assert np.abs(joint.stationary @ joint.step(True) - joint.stationary).max() > 1e-4


def test_a_step_draws_by_those_probabilities():
    """Enumerated in double precision; drawn in single, by the kernels that runs have."""
    with jax.enable_x64(True):
        joint = tempering("bits")
        probabilities = {even: joint.step(even) for even in (True, False)}
    kernel, target, draws = joint.kernel, bits.__wrapped__(), 30_000
    steps = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float32)), joint.ladder)
    levels = jnp.asarray([[0, 1], [1, 0], [1, 1]], jnp.int8)
    at = int(np.ravel_multi_index((1, 2, 3), (4,) * 3))

    @eqx.filter_jit
    def after(keys, even):
        state = kernel.init(target, levels[-1])
        evaluation = jax.vmap(target.evaluate)(levels)
        state = state._replace(
            levels=state.levels._replace(x=levels, evaluation=evaluation), even=even
        )
        step = partial(kernel.step, target=target, state=state, scale=steps)
        found, _ = jax.vmap(lambda key: step(key))(keys)
        return found.levels.x, found.x

    for even, matrix in probabilities.items():
        x, cold = after(jax.random.split(jax.random.key(4), draws), jnp.asarray(even))
        np.testing.assert_array_equal(x[:, -1], cold)
        digits = np.asarray(x).reshape(draws, -1) @ 2 ** np.arange(5, -1, -1)
        expected = draws * matrix[at]
        observed = np.bincount(digits, minlength=64)
        assert not observed[expected < 1e-9].any()
        assert check._chi_square(observed, expected, FALSE_ALARM)
