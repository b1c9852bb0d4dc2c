"""Weights of sites by balancing their log-ratios; with more than two values, of values too.

Which site first, then which value: a site's weight is the sum of g(ratio) over the values it
could take instead. All sites need that sum; only sites that were chosen draw a value.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from hopscale import balance as balancing
from hopscale.balance import Balance
from hopscale.kernels.kernel import ChainState
from hopscale.move import Choice, Move
from hopscale.select import Weights
from hopscale.target import Target

DRAWN_TOGETHER = 128  # values; sites beyond those chosen cost nothing
UNROLLED = 16  # values, for which a loop over them is written out
LARGE = 80.0  # a log-ratio beyond which g = t / (t + 1) is 1 to rounding


class ByValue(NamedTuple):
    """The log-ratio of each (site, value), the present value of each site, and g."""

    ratios: Float[Array, "n s"]
    here: Int[Array, " n"]
    balance: Balance

    def log_weights(self, sites: Int[Array, " m"]) -> Float[Array, "m s"]:
        """Of all values of some sites; the present one has none."""
        values = jnp.arange(self.ratios.shape[1])
        present = values[None, :] == self.here[sites][:, None]
        found = balancing.apply(self.balance, self.ratios[sites])
        return jnp.where(present, -jnp.inf, found)


class SiteWeights(NamedTuple):
    """The weight of each site, and what its values need where there are more than two."""

    sites: Weights
    by_value: ByValue | None

    def draw_values(self, key: Key[Array, ""], choice: Choice) -> Int[Array, " n"] | None:
        """A new value for every site chosen, by weight; any for the others."""
        if self.by_value is None:
            return None
        key = jax.random.fold_in(key, 1)  # the key itself chose the sites
        by_value, n = self.by_value, choice.sites.size
        size = min(DRAWN_TOGETHER, n)
        length = jnp.minimum(choice.length, n)

        def some(state):
            number, values = state
            # The last block begins earlier, so that all are of one size.
            first = jnp.minimum(number * size, n - size)
            sites = jax.lax.dynamic_slice(choice.sites, (first,), (size,))
            uniform = jax.random.uniform(jax.random.fold_in(key, number), (size,))
            drawn = _by_weight(uniform, by_value.log_weights(sites))
            return number + 1, values.at[sites].set(drawn)

        first = jnp.int32(0), by_value.here
        return jax.lax.while_loop(lambda state: state[0] * size < length, some, first)[1]

    def values_log_prob(self, move: Move) -> Float[Array, ""] | float:
        """Log-probability of the values of the sites that move."""
        if self.by_value is None or move.values is None:
            return 0.0
        ratios, _, balance = self.by_value
        taken = jnp.take_along_axis(ratios, move.values[:, None], axis=1)[:, 0]
        taken = balancing.apply(balance, taken)
        steps = jnp.where(taken == -jnp.inf, -jnp.inf, taken - self.sites.values)
        return jnp.sum(jnp.where(move.moved, steps, 0.0))


def _by_weight(uniform: Float[Array, " m"], log_weights: Float[Array, "m s"]) -> Int[Array, " m"]:
    """A value for each row, by inversion."""
    top = jnp.max(log_weights, axis=1, keepdims=True)
    total = jnp.cumsum(jnp.exp(log_weights - jnp.where(jnp.isfinite(top), top, 0.0)), axis=1)
    beyond = total > (uniform.astype(total.dtype) * total[:, -1])[:, None]
    # Where rounding leaves none beyond, and where nothing has weight: the heaviest.
    found = jnp.where(beyond[:, -1], jnp.argmax(beyond, axis=1), jnp.argmax(log_weights, axis=1))
    return found.astype(jnp.int32)


def site_weights(balance: Balance, target: Target, state: ChainState) -> SiteWeights:
    """Weights by balancing the log-ratios at a state."""
    assert state.log_ratios is not None
    if target.num_states == 2:
        return SiteWeights(Weights(state.log_ratios.reshape(-1), balance), by_value=None)
    ratios = state.log_ratios.reshape(-1, target.num_states)
    here = state.x.reshape(-1).astype(jnp.int32)
    present = jnp.arange(target.num_states)[None, :] == here[:, None]
    total = _log_total(balance, jnp.where(present, -jnp.inf, ratios), present)
    return SiteWeights(Weights(total, balance=None), ByValue(ratios, here, balance))


def _log_total(balance: Balance, ratios: Float[Array, "n s"], present) -> Float[Array, " n"]:
    """The log of the summed weights of each site's values; small ones are not lost.

    For g = t / (t + 1) one exponential an entry and one logarithm a site do, with
    $t / (t + 1) = e^m \\cdot e^{r - m} / (1 + e^{r})$ and m at most 0.
    """
    if balance != "barker" or ratios.shape[1] > UNROLLED:
        log_weights = balancing.apply(balance, ratios)
        return jax.nn.logsumexp(jnp.where(present, -jnp.inf, log_weights), axis=1)
    # Value by value: sums over a short last axis would not be vectorised.
    columns = [jnp.minimum(ratios[:, c], LARGE) for c in range(ratios.shape[1])]
    top = jnp.minimum(functools.reduce(jnp.maximum, columns), 0.0)
    top = jnp.where(top == -jnp.inf, 0.0, top)  # a site without weight keeps none
    least = jnp.exp(top)
    scaled = [jnp.exp(column - top) for column in columns]
    return jnp.log(sum(each / (1.0 + each * least) for each in scaled)) + top  # type: ignore
