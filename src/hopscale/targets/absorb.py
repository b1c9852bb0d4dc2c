"""Pairwise models of the free sites, whose fields absorb the effect of clamped sites."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from hopscale.graphs.graph import Pairs
from hopscale.target import Target


class Parted(NamedTuple):
    """Pairs of free sites, renumbered, and pairs of a free site with a clamped one."""

    inside: Pairs
    free: Int[np.ndarray, " pairs"]  # renumbered
    clamped: Int[np.ndarray, " pairs"]  # not renumbered
    coupling: Float[np.ndarray, " pairs"]


def part(pairs: Pairs, free: Int[np.ndarray, " free"]) -> Parted:
    """Split pairs by how many of their ends are free; pairs of clamped sites are a constant."""
    number = np.full(pairs.num_sites, -1)
    number[free] = np.arange(len(free))
    i, j = number[pairs.i], number[pairs.j]
    both, one = (i >= 0) & (j >= 0), (i >= 0) != (j >= 0)
    first = i[one] >= 0
    return Parted(
        inside=Pairs(i[both], j[both], pairs.coupling[both], np.zeros(len(free))),
        free=np.where(first, i[one], j[one]),
        clamped=np.where(first, pairs.j[one], pairs.i[one]),
        coupling=pairs.coupling[one].astype(np.float64),
    )


def in_precision(target: Target, dtype) -> Target:
    """The target with its parameters in this precision."""

    def cast(leaf):
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(cast, target)
