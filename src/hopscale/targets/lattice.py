"""Sums over neighbours on an open lattice."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def pull(
    s: Float[Array, "*shape"], bonds: Float[Array, "..."], axis: int
) -> Float[Array, "*shape"]:
    """The sum of J_ij s_j over the one or two neighbours j of each site i along `axis`."""
    n = s.shape[axis]
    before = [(int(a == axis), 0) for a in range(s.ndim)]
    after = [(0, int(a == axis)) for a in range(s.ndim)]
    up = jnp.pad(bonds * jax.lax.slice_in_dim(s, 1, n, axis=axis), after)
    down = jnp.pad(bonds * jax.lax.slice_in_dim(s, 0, n - 1, axis=axis), before)
    return up + down
