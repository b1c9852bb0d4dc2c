"""A kernel gives a chain the same whatever stands beside it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from choices import (
    NEEDS_KERNELS,
    check_race,
    keys,
    ratios,
)
from hopscale.native import cpu

pytestmark = NEEDS_KERNELS


def test_one_long_chain_is_the_same_shared_and_alone():
    """A long chain by itself is split among threads; one of many is not."""
    n = 70_001
    s = jnp.asarray(ratios(n, "lognormal"))
    for one in (partial(cpu.race, balance="barker"), partial(cpu.repeated, balance="sqrt")):
        shared = one(keys(1)[0], s, jnp.int32(3000))
        key = jnp.concatenate([keys(1), keys(39, seed=1)])
        among = jax.vmap(one, in_axes=(0, None, None))(key, s, jnp.int32(3000))
        for x, y in zip(shared, among, strict=True):
            np.testing.assert_array_equal(x, y[0])


def test_ten_thousand_chains():
    chains, n = 10_000, 7
    rng = np.random.default_rng(0)
    s = rng.normal(size=(chains, n)).astype(np.float32)
    length = rng.integers(1, n + 1, chains).astype(np.int32)
    key = keys(chains)
    out = jax.jit(jax.vmap(partial(cpu.race, balance=None)))(key, s, length)
    for c in range(0, chains, 487):
        check_race(s[c], length[c], [x[c] for x in out])
    ours = jax.jit(jax.vmap(partial(cpu.order_log_prob, balance=None, backwards=False)))(
        s, out[0], out[1], length
    )
    np.testing.assert_allclose(ours, out[2], rtol=1e-5)


@pytest.mark.parametrize("n", [33, 800, 5000])
def test_batch_does_not_matter(n):
    chains = 64
    rng = np.random.default_rng(n)
    s = rng.normal(size=(chains, n)).astype(np.float32)
    length = rng.integers(1, n + 1, chains).astype(np.int32)
    key = keys(chains)
    for one in (
        partial(cpu.race, balance=None),
        partial(cpu.repeated, balance=None),
        partial(cpu.race, balance="barker"),
        lambda key, s, length: cpu.uniform(key, length, n=n),
    ):
        many = jax.jit(jax.vmap(one))(key, s, length)
        nested = jax.vmap(jax.vmap(one))(
            key.reshape(8, 8), s.reshape(8, 8, n), length.reshape(8, 8)
        )
        for c in range(chains):
            for x, y, z in zip(one(key[c], s[c], length[c]), many, nested, strict=True):
                np.testing.assert_array_equal(x, y[c])
                np.testing.assert_array_equal(x, z[c // 8, c % 8])


def test_only_some_arguments_batched():
    s, key = ratios(50, "tame"), keys(4)
    many = jax.vmap(partial(cpu.race, balance=None), in_axes=(0, None, None))(key, s, jnp.int32(9))
    for c in range(4):
        for x, y in zip(cpu.race(key[c], s, jnp.int32(9), balance=None), many, strict=True):
            np.testing.assert_array_equal(x, y[c])


def test_inside_a_loop():
    s = jnp.asarray(ratios(300, "tame"))

    @jax.jit
    def total(key):
        def step(i, sum):
            step_key = jax.random.fold_in(key, i)
            sites, chosen, forth = cpu.race(step_key, s, 20 + i, balance="barker")
            back = cpu.order_log_prob(s, sites, chosen, 20 + i, balance="barker", backwards=True)
            return sum + forth - back

        return jax.lax.fori_loop(0, 10, step, 0.0)

    assert np.isfinite(total(jax.random.key(0)))
    assert np.isfinite(jax.vmap(total)(jax.random.split(jax.random.key(0), 5))).all()
