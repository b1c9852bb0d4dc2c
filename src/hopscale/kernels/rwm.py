"""The random walk."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from hopscale import select
from hopscale.kernels.kernel import ChainState
from hopscale.kernels.metropolis import Metropolis
from hopscale.move import Move
from hopscale.target import Target


class RWM(Metropolis):
    r"""Flip R sites drawn uniformly without replacement.

    The proposal is symmetric, so a move is accepted with probability
    $1 \wedge \pi(y) / \pi(x)$. The kernel is most efficient at an acceptance rate of 0.234. It
    needs only log-probabilities, no log-ratios.
    """

    name: ClassVar[str] = "rwm"
    rate: ClassVar[float] = 0.234
    informed: ClassVar[bool] = False
    replacement: ClassVar[bool] = False

    def choose(self, key, target: Target, state: ChainState, length):
        choice = select.uniform(key, target.num_sites, length, implementation=self.implementation)
        values = None
        if target.num_states > 2:
            key_values = jax.random.fold_in(key, 1)  # the key itself chose the sites
            each = jnp.ravel(target.num_states_by_site)
            by = jax.random.randint(key_values, (target.num_sites,), 1, each)
            values = (state.x.reshape(-1).astype(jnp.int32) + by) % each
        move = Move(choice=choice, moved=choice.chosen, values=values)
        return move, self.score(target, state, move, way_back=False)

    def score(self, target: Target, state: ChainState, move: Move, way_back: bool):
        """Log of (N - R)! / N!, times the probability of a uniform choice of values."""
        n, length = target.num_sites, move.choice.length.astype(state.log_prob.dtype)
        orders = jax.scipy.special.gammaln(n + 1.0) - jax.scipy.special.gammaln(n - length + 1.0)
        others = jnp.ravel(target.num_states_by_site) - 1.0
        values = length * jnp.log(others[0])
        if others.size > 1:
            values = jnp.sum(jnp.where(move.choice.chosen, jnp.log(jnp.maximum(others, 1.0)), 0.0))
        return -(orders + values.astype(orders.dtype))
