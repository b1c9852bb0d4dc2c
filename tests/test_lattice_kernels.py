"""The kernels that sum over all sites of a state: Ising, FHMM and Hamming."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.native import cpu, reference

pytestmark = pytest.mark.skipif(not cpu.ready()[0], reason=cpu.ready()[1])


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (2, 3), (20, 20), (33, 65)])
def test_ising_matches_reference(shape):
    rng = np.random.default_rng(1)
    x = jnp.asarray(rng.integers(0, 2, size=(5, *shape)), jnp.int8)
    field = jnp.asarray(rng.normal(size=shape), jnp.float32)
    bonds = jnp.float32(0.3), jnp.float32(-0.7)
    over = (0, None, None, None)
    ours = jax.jit(jax.vmap(cpu.ising, over))(x, field, *bonds)
    theirs = jax.vmap(reference.ising, over)(x, field, *bonds)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6, atol=1e-6)
    alone = jax.vmap(cpu.ising_log_prob, over)(x, field, *bonds)
    np.testing.assert_array_equal(alone, ours[0])
    moved = jnp.asarray(rng.integers(0, 3, size=(5, *shape)) == 0)
    over = (0, 0, 0, None, None, None)
    after = jax.vmap(cpu.ising_update, over)(alone, x, moved, field, *bonds)
    theirs = jax.vmap(reference.ising_update, over)(alone, x, moved, field, *bonds)
    np.testing.assert_allclose(after, theirs, rtol=1e-5, atol=2e-4)
    # A field for each chain.
    fields = jnp.stack([field + i for i in range(5)])
    each = jax.vmap(cpu.ising, (0, 0, None, None))(x, fields, *bonds)
    theirs = jax.vmap(reference.ising, (0, 0, None, None))(x, fields, *bonds)
    np.testing.assert_allclose(each[1], theirs[1], rtol=1e-6, atol=1e-6)


def fhmm_parameters(rng, length, factors):
    arrays = (rng.normal(size=length), rng.normal(size=factors), 0.3, 0.7, 0.85, 0.2)
    return tuple(jnp.asarray(array, jnp.float32) for array in arrays)


# Rows shorter and longer than a vector and than the kernel's table; one row, one factor.
@pytest.mark.parametrize("shape", [(1, 1), (60, 1), (130, 5), (3, 300)])
@pytest.mark.parametrize("by_time", [True, False])
def test_fhmm_matches_reference(shape, by_time):
    rng = np.random.default_rng(2)
    x = jnp.asarray(rng.integers(0, 2, size=(3, *shape)), jnp.int8)
    parameters = fhmm_parameters(rng, *shape)

    def both(name, over, *arrays, **settings):
        settings["by_time"] = by_time
        for module in (cpu, reference):
            one = partial(getattr(module, name), **settings)
            yield jax.jit(jax.vmap(one, over))(*arrays, *parameters)

    for exact in (True, False):
        ours, theirs = both("fhmm", (0, *[None] * 6), x, exact=exact)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-5, atol=1e-4)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-4, atol=1e-4)
    moved = jnp.asarray(rng.integers(0, 3, size=(3, *shape)) == 0)
    ours, theirs = both("fhmm_update", (0, 0, 0, *[None] * 6), theirs[0], x, moved)
    np.testing.assert_allclose(ours, theirs, rtol=5e-5, atol=5e-4)


def test_fhmm_parameters_may_differ_between_chains_and_have_derivatives():
    rng = np.random.default_rng(3)
    x = jnp.asarray(rng.integers(0, 2, size=(3, 8, 5)), jnp.int8)
    target = hs.FHMM(rng.normal(size=8), rng.normal(size=5), 0.1, 0.8)

    def by(module, bias, x):
        parameters = (target.observations, target.weights, bias, *map(jnp.float32, (0.8, 0.7, 0.1)))
        return module.fhmm(x, *parameters, by_time=True, exact=True)

    for bias, over in ((jnp.arange(3.0), (0, 0)), (jnp.float32(0.3), (None, 0))):
        ours = jax.vmap(partial(by, cpu), over)(bias, x)
        theirs = jax.vmap(partial(by, reference), over)(bias, x)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-4, atol=1e-5)
    slope = jax.grad(lambda bias: eqx.tree_at(lambda t: t.bias, target, bias).log_prob(x[0]))
    residual = target.observations - x[0].astype(jnp.float32) @ target.weights - 0.1
    np.testing.assert_allclose(slope(target.bias), residual.sum() / 0.8**2, rtol=1e-4)


class MixesUpItsAxes(hs.FHMM):
    """Updates as if hidden chains ran along the other axis."""

    def _update(self, x, evaluation, move):
        parameters: Any = self._parameters
        other = hs.FHMM(*parameters, axis="factor")
        return other._update(x, evaluation, move)


@pytest.mark.parametrize("kernel", [hs.RWM(), hs.LBP()])
def test_fhmm_kernels_leave_the_posterior_invariant(kernel):
    """In single precision, which is what they take; a broken update is told apart."""
    parameters = fhmm_parameters(np.random.default_rng(5), 2, 3)
    right, broken = hs.FHMM(*parameters), MixesUpItsAxes(*parameters)  # pyright: ignore
    pi = hs.check.probabilities(right)
    matrix = hs.check.transition_matrix(right, kernel, 2)
    np.testing.assert_allclose(pi @ matrix, pi, atol=1e-6)
    matrix = hs.check.transition_matrix(broken, kernel, 2)
    assert np.abs(pi @ matrix - pi).max() > 1e-3


def test_a_long_fhmm_is_shared_out():
    rng = np.random.default_rng(4)
    x = jnp.asarray(rng.integers(0, 2, size=(20000, 5)), jnp.int8)
    parameters = fhmm_parameters(rng, *x.shape)
    ours, theirs = (m.fhmm(x, *parameters, by_time=True, exact=True) for m in (cpu, reference))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 127, 128, 129, 1000])
def test_hamming_counts_sites_that_differ(n):
    rng = np.random.default_rng(n)
    x, origin = (jnp.asarray(rng.integers(0, 5, size=s), jnp.int8) for s in ((3, n), (n,)))
    ours = jax.vmap(cpu.hamming, (0, None))(x, origin)
    np.testing.assert_array_equal(ours, (np.asarray(x) != np.asarray(origin)).sum(axis=1))
    different = cpu.hamming(x[0], x[0] + jnp.int8(1))
    assert different == n


def test_ising_couplings_may_differ_between_chains():
    x = jnp.asarray(np.random.default_rng(0).integers(0, 2, size=(3, 4, 5)), jnp.int8)
    field, down, right = jnp.zeros((4, 5)), jnp.arange(3.0), jnp.float32(0.5)
    over = (0, None, 0, None)
    ours = jax.vmap(cpu.ising, over)(x, field, down, right)
    theirs = jax.vmap(reference.ising, over)(x, field, down, right)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)


def test_any_operand_may_be_the_one_that_is_batched():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.integers(0, 2, size=(3, 4, 5)), jnp.int8)
    fields = jnp.asarray(rng.normal(size=(6, 4, 5)), jnp.float32)
    bonds = jnp.float32(0.5), jnp.float32(-0.2)

    def check(batched):
        for ours, theirs in zip(batched(cpu.ising), batched(reference.ising), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)

    check(lambda f: jax.vmap(lambda h: f(x[0], h, *bonds))(fields))
    check(lambda f: jax.vmap(lambda h: jax.vmap(lambda y: f(y, h, *bonds))(x))(fields))
    check(lambda f: jax.vmap(lambda y: jax.vmap(lambda h: f(y, h, *bonds))(fields))(x))
    check(lambda f: jax.vmap(lambda b: f(x[0], fields[0], b, bonds[1]))(jnp.arange(4.0)))
    states = x.reshape(3, -1)
    ours = jax.vmap(lambda a: jax.vmap(lambda b: cpu.hamming(a, b))(states))(states)
    theirs = (np.asarray(states)[:, None] != np.asarray(states)[None]).sum(axis=2)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(jax.vmap(lambda b: cpu.hamming(states[0], b))(states), theirs[0])
