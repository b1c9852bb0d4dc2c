"""Choosing sites by weight, and the probability of the choice.

Three ways to choose `length` of N sites, where site i has weight w_i:

- `race`: one after the other without replacement, each time with probability proportional to
  weight among the sites that are left (LBP);
- `repeated`: with replacement (GWG);
- `uniform`: without replacement, all weights equal (RWM).

`length` is dynamic: tuning it never recompiles. Arrays have room for N choices, and only the
first `length` of them mean anything.

The race gives every site a clock that rings after an exponential time,
T_i = -log(1 - v_i) / w_i with v_i uniform; the first `length` sites to ring, in order, are the
choice. The random numbers depend on the key and the site alone.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key


class Choice(NamedTuple):
    """Sites in the order they were chosen (the first `length` count), and who was chosen at all."""

    sites: Int[Array, " n"]
    chosen: Bool[Array, " n"]
    length: Int[Array, ""]


def clocks(key: Key[Array, ""], n: int, dtype) -> Float[Array, " n"]:
    """Standard exponential times -log(1 - v), one a site.

    v is (b + 1/2) / 2^32 for the 32 random bits b of the site, kept below 1: floating point
    resolves the small v, which are the early arrivals, to a relative 2^-24.
    """
    bits = jax.random.bits(key, (n,), jnp.uint32)
    v = jnp.minimum((bits.astype(dtype) + 0.5) * 2.0**-32, 1.0 - 2.0**-24)
    return -jnp.log1p(-v)


def race(
    key: Key[Array, ""], log_weights: Float[Array, " n"], length: Int[Array, ""]
) -> tuple[Choice, Float[Array, ""]]:
    """The first `length` sites to ring, in order, and the log-probability of that order."""
    times = jnp.log(clocks(key, log_weights.size, log_weights.dtype)) - log_weights
    choice = in_order(jnp.argsort(times, stable=True), length)
    return choice, order_log_prob(log_weights, choice)


def in_order(sites: Int[Array, " n"], length: Int[Array, ""]) -> Choice:
    """The choice that takes the first `length` of a permutation of all sites."""
    first = jnp.arange(sites.size) < length
    chosen = jnp.zeros(sites.size, bool).at[sites].set(first, unique_indices=True)
    return Choice(sites=sites.astype(jnp.int32), chosen=chosen, length=length)


def order_log_prob(
    log_weights: Float[Array, " n"], choice: Choice, backwards: bool = False
) -> Float[Array, ""]:
    r"""Log-probability that sites without replacement are chosen in this order.

    $$\log q(u) = \sum_{r=1}^{R} \log w_{u_r} - \log\Big(W(u) + \sum_{i=r}^{R} w_{u_i}\Big)$$

    where W(u) is the weight of the sites not chosen. `backwards` scores the order
    u_R, ..., u_1, for which the inner sum runs over i <= r: Eq. (5)'s way back.
    """
    n = log_weights.size
    counted = jnp.arange(n) < choice.length
    rest = jax.nn.logsumexp(jnp.where(choice.chosen, -jnp.inf, log_weights))
    along = jnp.where(counted, log_weights.at[choice.sites].get(mode="clip"), -jnp.inf)
    left = jax.lax.cumlogsumexp(along, reverse=not backwards)
    steps = along - jnp.logaddexp(left, rest)
    return jnp.sum(jnp.where(counted, steps, 0.0))


def repeated(
    key: Key[Array, ""], log_weights: Float[Array, " n"], length: Int[Array, ""]
) -> tuple[Choice, Float[Array, ""]]:
    """`length` independent draws of a site, and the log-probability of the sequence."""
    n = log_weights.size
    weights = jnp.exp(log_weights - jnp.max(log_weights))
    cumulative = jnp.cumsum(weights)
    bits = jax.random.bits(key, (n,), jnp.uint32)
    level = (bits.astype(weights.dtype) + 0.5) * 2.0**-32 * cumulative[-1]
    sites = jnp.searchsorted(cumulative, level, side="right")
    # Rounding may carry a level to the total: the last site with weight takes it.
    last = n - 1 - jnp.argmax(weights[::-1] > 0)
    choice = with_repeats(jnp.minimum(sites, last), length)
    return choice, repeated_log_prob(log_weights, choice)


def with_repeats(sites: Int[Array, " n"], length: Int[Array, ""]) -> Choice:
    """The choice that takes the first `length` of a sequence of sites, repeats allowed."""
    counted = jnp.arange(sites.size) < length
    chosen = jnp.zeros(sites.size, bool).at[sites].max(counted)
    return Choice(sites=sites.astype(jnp.int32), chosen=chosen, length=length)


def repeated_log_prob(log_weights: Float[Array, " n"], choice: Choice) -> Float[Array, ""]:
    r"""$\log q(u) = \sum_{r=1}^{R} \log w_{u_r} - R \log \sum_i w_i$."""
    counted = jnp.arange(log_weights.size) < choice.length
    along = jnp.where(counted, log_weights.at[choice.sites].get(mode="clip"), 0.0)
    total = jax.nn.logsumexp(log_weights)
    return jnp.sum(along) - choice.length * total


def odd(choice: Choice) -> Bool[Array, " n"]:
    """The sites chosen an odd number of times."""
    counted = (jnp.arange(choice.sites.size) < choice.length).astype(jnp.int32)
    return jnp.zeros(choice.sites.size, jnp.int32).at[choice.sites].add(counted) % 2 == 1


def uniform(key: Key[Array, ""], n: int, length: Int[Array, ""]) -> Choice:
    """`length` sites without replacement, all alike."""
    bits = jax.random.bits(key, (n,), jnp.uint32)
    return in_order(jnp.argsort(bits, stable=True), length)
