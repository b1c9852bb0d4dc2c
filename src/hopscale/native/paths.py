"""The probability of a choice of sites, and acceptance of proposals, in plain JAX."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hopscale import balance as balancing
from hopscale.balance import Balance

Sites = Int[Array, " n"]
Flags = Bool[Array, " n"]


def order_log_prob(
    values: Float[Array, " n"],
    sites: Sites,
    chosen: Flags,
    length: Int[Array, ""],
    *,
    balance: Balance,
    backwards: bool,
) -> Float[Array, ""]:
    """Log-probability that sites are chosen in this order, without replacement."""
    return scored_order(balancing.apply(balance, values), sites, chosen, length, backwards)


def scored_order(log_weights, sites, chosen, length, backwards: bool) -> Float[Array, ""]:
    """The same, by log-weights."""
    counted = jnp.arange(sites.size) < length
    rest = jax.nn.logsumexp(jnp.where(chosen, -jnp.inf, log_weights))
    along = jnp.where(counted, log_weights.at[sites].get(mode="clip"), -jnp.inf)
    left = jax.lax.cumlogsumexp(along, reverse=not backwards)
    # A site without weight has probability 0, even if nothing else is left (-inf - -inf).
    steps = jnp.where(along == -jnp.inf, -jnp.inf, along - jnp.logaddexp(left, rest))
    return jnp.sum(jnp.where(counted, steps, 0.0))


def repeated_log_prob(
    values: Float[Array, " n"], sites: Sites, length: Int[Array, ""], *, balance: Balance
) -> Float[Array, ""]:
    """Log-probability of a sequence of draws with replacement."""
    return scored_draws(balancing.apply(balance, values), sites, length)


def scored_draws(log_weights, sites, length) -> Float[Array, ""]:
    """The same, by log-weights."""
    counted = jnp.arange(sites.size) < length
    along = log_weights.at[sites].get(mode="clip")
    total = jax.nn.logsumexp(log_weights)
    steps = jnp.where(along == -jnp.inf, -jnp.inf, along - total)
    return jnp.sum(jnp.where(counted, steps, 0.0))


def log_acceptance(
    log_prob_here: Float[Array, ""],
    log_prob_there: Float[Array, ""],
    log_forward: Float[Array, ""],
    log_backward: Float[Array, ""],
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """The log of the acceptance ratio of a proposal, and whether the proposal was invalid.

    A proposal at which the density is NaN or +inf, or whose reverse move has probability NaN, is
    rejected and marked as invalid. A proposal of zero density, or one drawn only because no site
    had weight, is an ordinary rejection.
    """
    impossible = log_prob_there == -jnp.inf
    invalid = ~(log_prob_there < jnp.inf) | ((log_backward != log_backward) & ~impossible)
    # Two small differences of large numbers; in another order their digits are lost.
    log_ratio = (log_prob_there - log_prob_here) + (log_backward - log_forward)
    possible = (jnp.abs(log_forward) < jnp.inf) & ~impossible & ~invalid
    return jnp.where(possible, log_ratio, -jnp.inf), invalid


def settle(
    uniform: Float[Array, ""],
    log_forward: Float[Array, ""],
    rest: Float[Array, ""],
    length: Int[Array, ""],
    values: Float[Array, " n"],
    sites: Sites,
    chosen: Flags,
    there: tuple[Array, ...],
    here: tuple[Array, ...],
    *,
    balance: Balance,
    path: str,
    order_log_prob=order_log_prob,
    repeated_log_prob=repeated_log_prob,
) -> tuple[Array, Array, Array, tuple[Array, ...]]:
    """Score the reverse move of a proposal, and accept the proposal or stay.

    Args:
        uniform: accept if it is below the acceptance ratio.
        log_forward: log-probability of the forward move.
        rest: log-probability of what the reverse move chooses besides its sites.
        length, values, sites, chosen: of the reverse move, as `order_log_prob` takes them.
        there, here: the arrays of the proposed and of the present state, log-probabilities first.
        path: "forwards", "backwards" or "repeated".

    Returns:
        The log of the acceptance ratio, whether the proposal was accepted, whether it was invalid,
        and the arrays of the new state.
    """
    if path == "repeated":
        back = repeated_log_prob(values, sites, length, balance=balance)
    else:
        way = {"balance": balance, "backwards": path == "backwards"}
        back = order_log_prob(values, sites, chosen, length, **way)
    return decide(uniform, log_forward, back + rest, there, here)


def decide(uniform, log_forward, log_backward, there: tuple[Array, ...], here: tuple[Array, ...]):
    """Accept a proposal or stay, given the log-probabilities of the forward and reverse moves."""
    log_ratio, invalid = log_acceptance(here[0], there[0], log_forward, log_backward)
    accepted = uniform < jnp.exp(log_ratio)
    new = jax.tree.map(lambda y, x: jnp.where(accepted, y, x), there, here)
    return log_ratio, accepted, invalid, new
