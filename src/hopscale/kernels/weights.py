"""Weights of sites by balancing their log-ratios; with more than two values, of values too.

Which site first, then which value: a site's weight is the sum of g(ratio) over the values it
could take instead.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from hopscale import balance as balancing
from hopscale.balance import Balance
from hopscale.kernels.kernel import ChainState
from hopscale.move import Move
from hopscale.select import Weights
from hopscale.target import Target


class SiteWeights(NamedTuple):
    """The weight of each site, and of each (site, value) where there are more than two values."""

    sites: Weights
    by_value: Float[Array, "n s"] | None

    def draw_values(self, key: Key[Array, ""]) -> Int[Array, " n"] | None:
        """A new value for every site, by weight."""
        if self.by_value is None:
            return None
        key = jax.random.fold_in(key, 1)  # the key itself chose the sites
        return jax.random.categorical(key, self.by_value, axis=1).astype(jnp.int32)

    def values_log_prob(self, move: Move) -> Float[Array, ""] | float:
        """Log-probability of the values of the sites that move."""
        if self.by_value is None or move.values is None:
            return 0.0
        taken = jnp.take_along_axis(self.by_value, move.values[:, None], axis=1)[:, 0]
        steps = jnp.where(taken == -jnp.inf, -jnp.inf, taken - self.sites.values)
        return jnp.sum(jnp.where(move.moved, steps, 0.0))


def site_weights(balance: Balance, target: Target, state: ChainState) -> SiteWeights:
    """Weights by balancing the log-ratios at a state."""
    assert state.log_ratios is not None
    if target.num_states == 2:
        return SiteWeights(Weights(state.log_ratios.reshape(-1), balance), by_value=None)
    ratios = state.log_ratios.reshape(-1, target.num_states)
    here = jax.nn.one_hot(state.x.reshape(-1), target.num_states, dtype=bool)
    by_value = jnp.where(here, -jnp.inf, balancing.apply(balance, ratios))
    return SiteWeights(Weights(jax.nn.logsumexp(by_value, axis=1), balance=None), by_value)
