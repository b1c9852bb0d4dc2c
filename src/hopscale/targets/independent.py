"""Independent sites, from which parallel tempering draws its fresh states."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from hopscale.graphs import graph
from hopscale.target import Evaluation, State, Target, values_there_are
from hopscale.targets.sweep import SpinSweep


class Independent(Target):
    r"""A product of independent sites, each with its own probabilities of S values, normalised.

    $$\log \pi(x) = \sum_i \log p_i(x_i), \qquad \sum_c p_i(c) = 1$$

    Args:
        log_probs: $\log p_i(c)$, of shape (*shape, S); -inf for values that a site lacks, which
            come last.
    """

    log_probs: Float[Array, "*shape values"]

    ratios: str = eqx.field(static=True)

    def __init__(self, log_probs: Float[Array, "*shape values"]):
        self.log_probs, self.ratios = log_probs, "exact"

    @property
    def shape(self):
        return self.log_probs.shape[:-1]

    @property
    def num_states(self):
        return self.log_probs.shape[-1]

    @property
    def num_states_by_site(self):
        return jnp.sum(self.log_probs > -jnp.inf, axis=-1, dtype=jnp.int32)

    @property
    def dtype(self):
        return self.log_probs.dtype

    def at(self, uniform: Float[Array, "*shape"]) -> State:
        """The state at these quantiles of each site: a draw, for uniform numbers in [0, 1)."""
        below = jnp.cumsum(jnp.exp(self.log_probs), axis=-1)[..., :-1]
        # Never take an impossible value, however the sums are rounded.
        passed = (uniform[..., None] >= below) & (self.log_probs[..., 1:] > -jnp.inf)
        return jnp.sum(passed, axis=-1, dtype=self.state_dtype)

    def sweep(self):
        if self.num_states != 2:
            return None
        logits = (self.log_probs[..., 1] - self.log_probs[..., 0]).reshape(-1)
        return SpinSweep(self, graph.no_pairs(self.num_sites, self.dtype), 0.5 * logits)

    def _of_values(self, x: State) -> Float[Array, "*shape"]:
        """The log-probability of each site's value."""
        if self.num_states == 2:
            return jnp.where(x == 1, self.log_probs[..., 1], self.log_probs[..., 0])
        place = x[..., None].astype(jnp.int32)
        return jnp.take_along_axis(self.log_probs, place, axis=-1)[..., 0]

    def _log_prob(self, x: State):
        return jnp.sum(self._of_values(x))

    def _evaluate(self, x: State):
        here = self._of_values(x)
        if self.num_states == 2:
            log_ratios = jnp.sum(self.log_probs, axis=-1) - 2.0 * here  # the other minus this
        else:
            log_ratios = self.log_probs - here[..., None]
        return Evaluation(jnp.sum(here), log_ratios)


@eqx.filter_jit  # otherwise each operation would be compiled on its own
def equally_likely(target: Target) -> Independent:
    """Independent sites like those of a target, with all values of a site equally likely."""
    each = jnp.broadcast_to(target.num_states_by_site, target.shape)
    equal = -jnp.log(each.astype(target.dtype))[..., None]
    return Independent(jnp.where(values_there_are(each, target.num_states), equal, -jnp.inf))
