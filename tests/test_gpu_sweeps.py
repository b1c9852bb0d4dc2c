"""Sweeps by the GPU's kernels against plain JAX: interpreted on any device."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hopscale.graphs.graph import make_graph, no_pairs, read_pairs
from hopscale.native import sweeps as plain
from hopscale.native.pallas import sweeps

RULES = {"metropolis": True, "keep": 0.995, "sweeps": 3}


def some_graph(n, pairs):
    """Sites with very different numbers of neighbours; the last has none."""
    if not pairs:
        return no_pairs(n, jnp.float32)
    rng = np.random.default_rng(n)
    i, j = np.triu_indices(n - 1, 1)
    chosen = rng.choice(len(i), pairs, replace=False)
    return make_graph(read_pairs((i[chosen], j[chosen], rng.normal(size=pairs)), n))


def problem(n, pairs, chains, values):
    """Chains, each at its own temperature, on a graph that they share."""
    graph, rng = some_graph(n, pairs), np.random.default_rng(1)
    key = jax.random.split(jax.random.key(2), chains)
    x = jnp.asarray(rng.integers(0, values, (chains, n)), jnp.int8)
    beta, gamma = jnp.linspace(0.5, 1.0, chains), jnp.linspace(0.0, 0.5, chains)
    rows = graph.blocks, graph.start, graph.neighbour, graph.weight
    if values == 2:
        own, shape = (key, x, beta, gamma), (2, n)
    else:
        own, shape = (key, x, beta), (1, n, values)
    return own, (*jnp.asarray(rng.normal(size=shape), jnp.float32), *rows), graph.degree


def both(n, pairs, chains, values, **rules):
    """States and gains by the kernels, interpreted, and by plain JAX."""
    own, shared, degree = problem(n, pairs, chains, values)
    name = "spin_sweeps" if values == 2 else "potts_sweeps"
    axes = (0,) * len(own) + (None,) * len(shared)
    settings = RULES | rules | {"degree": degree}
    return [
        jax.jit(jax.vmap(partial(function, **settings), axes))(*own, *shared)
        for function in (
            partial(getattr(sweeps, name), interpret=True),
            getattr(plain, name),
        )
    ]


def agree(ours, theirs):
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("values", [2, 4])
@pytest.mark.parametrize(("n", "pairs"), [(20, 100), (12, 8), (7, 0), (1, 0)])
def test_the_states_of_plain_jax(n, pairs, values):
    agree(*both(n, pairs, 3, values))


@pytest.mark.parametrize("values", [2, 4])
def test_by_gibbs(values):
    agree(*both(20, 100, 3, values, metropolis=False))


@pytest.mark.parametrize("values", [2, 4])
def test_several_chains_to_a_program(values, monkeypatch):
    """Five chains in programs of two: the last is filled up."""
    monkeypatch.setattr(sweeps, "PROCESSORS", 2)
    agree(*both(20, 60, 5, values))


@pytest.mark.parametrize("values", [2, 4])
def test_blocks_that_programs_share(values, monkeypatch):
    """Blocks of some 100 sites, eight programs of 16 at a time."""
    for name, number in (("PROCESSORS", 16), ("ELEMENTS", 16), ("LARGE", 2)):
        monkeypatch.setattr(sweeps, name, number)
    agree(*both(300, 450, 3, values))


def test_one_after_the_other():
    """A block for every site."""
    own, shared, degree = problem(9, 15, 2, 2)
    order = jnp.arange(9, dtype=jnp.int32)[:, None]
    shared, axes = (*shared[:2], order, *shared[3:]), (0,) * 4 + (None,) * 6
    settings = RULES | {"degree": degree}
    kernel = partial(sweeps.spin_sweeps, interpret=True)
    found = [
        jax.vmap(partial(f, **settings), axes)(*own, *shared) for f in (kernel, plain.spin_sweeps)
    ]
    agree(*found)


def test_one_chain_alone():
    own, shared, degree = problem(20, 60, 1, 2)
    arrays, settings = [*(array[0] for array in own), *shared], RULES | {"degree": degree}
    ours = partial(sweeps.spin_sweeps, interpret=True, **settings)(*arrays)
    agree(ours, partial(plain.spin_sweeps, **settings)(*arrays))


def test_chains_with_graphs_of_their_own():
    """Couplings that differ by chain."""
    own, shared, degree = problem(20, 60, 3, 2)
    *rest, weight = shared
    weight = jnp.stack([weight, 2 * weight, -weight])
    axes = (0,) * 4 + (None,) * 5 + (0,)
    settings = RULES | {"degree": degree}
    kernel = partial(sweeps.spin_sweeps, interpret=True)
    found = [
        jax.vmap(partial(f, **settings), axes)(*own, *rest, weight)
        for f in (kernel, plain.spin_sweeps)
    ]
    agree(*found)


def test_a_block_whose_sites_are_neighbours_would_show():
    """The comparison fails where a kernel's blocks are not those of plain JAX."""
    own, shared, degree = problem(20, 100, 3, 2)
    axes, settings = (0,) * 4 + (None,) * 6, RULES | {"degree": degree}
    wrong = (*shared[:2], jnp.arange(20, dtype=jnp.int32)[None, :], *shared[3:])
    kernel = partial(sweeps.spin_sweeps, interpret=True)
    ours = jax.vmap(partial(kernel, **settings), axes)(*own, *wrong)
    theirs = jax.vmap(partial(plain.spin_sweeps, **settings), axes)(*own, *shared)
    assert not np.array_equal(ours[0], theirs[0])
