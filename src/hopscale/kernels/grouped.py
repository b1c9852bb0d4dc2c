"""Choosing sites within groups, each by weight without replacement, and the probability of it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import select
from hopscale.move import Choice


def partners(
    key: Key[Array, ""],
    log_weights: Float[Array, " n"],
    counted: Bool[Array, " n"],
    groups: Int[Array, " n"],
    choice: Choice,
) -> Int[Array, " n"]:
    """For each chosen site another of its group, by weight without replacement.

    If a group runs out of sites, it gives sites that do not count, and the move has probability 0.
    """
    n = groups.size
    times = -log_weights - jax.random.gumbel(key, (n,), log_weights.dtype)
    label = jnp.where(counted, groups, n)
    order = jnp.lexsort((times, label))
    first = jnp.searchsorted(label[order], groups[choice.sites])
    return order[jnp.minimum(first + _rank(groups[choice.sites], choice.length), n - 1)]


def _rank(label: Int[Array, " n"], length) -> Int[Array, " n"]:
    """For each entry, how many earlier ones among the first `length` have the same label."""
    n = label.size
    label = jnp.where(jnp.arange(n) < length, label, n)
    order = jnp.argsort(label, stable=True)
    sorted_label = label[order]
    place = jnp.arange(n) - jnp.searchsorted(sorted_label, sorted_label)
    return jnp.zeros(n, place.dtype).at[order].set(place)


def order_log_prob(
    log_weights: Float[Array, " n"],
    sites: Int[Array, " n"],
    length: Int[Array, ""],
    groups: Int[Array, " n"],
    backwards: bool,
) -> Float[Array, ""]:
    """Log-probability that sites are chosen in this order, each within its group.

    As in `select.order_log_prob`, the remaining weight of a group at r is that of the sites never
    chosen and of those chosen from r on. It is a sum, without subtraction, so that small weights
    are not lost. `backwards`: the last site comes first.
    """
    n = groups.size
    counted = jnp.arange(n) < length
    chosen = select.listed(sites, length).chosen
    top = jnp.max(log_weights)
    weights = jnp.exp(log_weights - jnp.where(jnp.isfinite(top), top, 0.0))
    rest = jnp.zeros(n, weights.dtype).at[groups].add(jnp.where(chosen, 0.0, weights))
    label = jnp.where(counted, groups[sites], n)
    along = jnp.where(counted, weights[sites], 0.0)
    # By group, in the order in which the sums run: from the last drawn to the first.
    turn = jnp.arange(n) if backwards else jnp.arange(n)[::-1]
    order = turn[jnp.argsort(label[turn], stable=True)]
    label, along, counted = label[order], along[order], counted[order]
    begins = jnp.concatenate([jnp.ones(1, bool), label[1:] != label[:-1]])

    def add(left, right):
        (a, start_a), (b, start_b) = left, right
        return jnp.where(start_b, b, a + b), start_a | start_b

    summed, _ = jax.lax.associative_scan(add, (along, begins))
    summed = summed + rest[jnp.minimum(label, n - 1)]
    return jnp.sum(jnp.where(counted, jnp.log(along) - jnp.log(summed), 0.0))
