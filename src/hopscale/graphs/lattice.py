"""Sums over neighbours on an open lattice.

Spins stay int8 until they are multiplied by a coupling. The shifts and sums over the lattice, which
move most of the bytes, then move a quarter as many.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hopscale.graphs.colouring import blocks_of
from hopscale.graphs.graph import Graph
from hopscale.target import State, as_float


def spins(x: State) -> Int[Array, "*padded"]:
    """Bits as spins 2x - 1 in int8, with a border of zeros beyond the lattice."""
    return jnp.pad(2 * x.astype(jnp.int8) - 1, 1)


def inside(s: Int[Array, "*padded"], axis: int | None = None, by: int = 0) -> State:
    """The lattice without its border; with an axis, its neighbours `by` steps along that axis."""
    for a in range(s.ndim):
        start = 1 + (by if a == axis else 0)
        s = jax.lax.slice_in_dim(s, start, start + s.shape[a] - 2, axis=a)
    return s


def pull(s: Int[Array, "*padded"], bonds: Float[Array, "..."], axis: int) -> Float[Array, "*shape"]:
    """The sum of J_ij s_j over the one or two neighbours j of each site i along `axis`."""
    after, before = inside(s, axis, 1), inside(s, axis, -1)
    if bonds.ndim == 0:
        return bonds * as_float(after + before, bonds.dtype)
    ahead = [(0, int(a == axis)) for a in range(s.ndim)]
    behind = [(int(a == axis), 0) for a in range(s.ndim)]
    return jnp.pad(bonds, ahead) * as_float(after, bonds.dtype) + jnp.pad(bonds, behind) * as_float(
        before, bonds.dtype
    )


def evaluate(
    x: State, field: Float[Array, "*shape"], coupling: Sequence[Float[Array, "..."]]
) -> tuple[Float[Array, ""], Float[Array, "*shape"]]:
    """Log-probability and log-ratios of an Ising model: see `hopscale.Ising`."""
    bordered = spins(x)
    s = as_float(inside(bordered), field.dtype)
    pulls = sum(pull(bordered, bonds, axis) for axis, bonds in enumerate(coupling))
    # Each bond is counted from both of its ends.
    return jnp.sum(s * (field + 0.5 * pulls)), -2.0 * s * (field + pulls)


def graph(shape: tuple[int, ...], coupling: Sequence[Float[Array, "..."]], dtype) -> Graph:
    """The lattice as rows of neighbours, in two colours."""
    start, neighbour, bond, blocks = _rows(shape)
    couplings = [
        jnp.broadcast_to(c, tuple(n - (a == axis) for a, n in enumerate(shape))).reshape(-1)
        for axis, c in enumerate(coupling)
    ]
    return Graph(
        start=jnp.asarray(start),
        neighbour=jnp.asarray(neighbour),
        weight=jnp.concatenate(couplings).astype(dtype)[jnp.asarray(bond)],
        blocks=jnp.asarray(blocks),
        degree=int(np.diff(start).max()),
    )


def bonds(shape: tuple[int, ...]) -> tuple[Int[np.ndarray, " bonds"], Int[np.ndarray, " bonds"]]:
    """Pairs of neighbours, axis by axis: a site and the next."""
    sites = np.arange(np.prod(shape)).reshape(shape)
    axes = range(len(shape))
    one = [np.delete(sites, -1, axis).reshape(-1) for axis in axes]
    other = [np.delete(sites, 0, axis).reshape(-1) for axis in axes]
    return np.concatenate(one), np.concatenate(other)


@functools.lru_cache(maxsize=8)
def _rows(shape: tuple[int, ...]):
    """Where each site's neighbours begin, the neighbours, their bonds; and the checkerboard."""
    i, j = bonds(shape)
    row, neighbour = np.concatenate([i, j]), np.concatenate([j, i])
    order = np.argsort(row, kind="stable")
    sizes = np.bincount(row, minlength=int(np.prod(shape)))
    start = np.concatenate([[0], np.cumsum(sizes)])
    bond = np.tile(np.arange(len(i)), 2)
    parity = np.indices(shape).sum(axis=0).reshape(-1) % 2
    parts = (start, neighbour[order], bond[order])
    return *(part.astype(np.int32) for part in parts), blocks_of(parity)
