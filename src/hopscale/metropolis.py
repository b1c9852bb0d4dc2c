"""Accept or reject, written once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import scale as scaling
from hopscale.sampler import ChainState, Proposal, Sampler
from hopscale.target import Target


class Noise(NamedTuple):
    """The randomness of a step, drawn ahead: a key for the proposal, uniforms for the rest."""

    propose: Key[Array, ""]
    rounding: Float[Array, ""]
    accept: Float[Array, ""]


def noise(key: Key[Array, ""], dtype) -> Noise:
    """The randomness of one step of one chain."""
    key_propose, key_uniform = jax.random.split(key)
    rounding, accept = jax.random.uniform(key_uniform, (2,), dtype)
    return Noise(propose=key_propose, rounding=rounding, accept=accept)


class Info(NamedTuple):
    """What an observer wants of a step: `invalid` marks a log-density of NaN or +inf at y."""

    accept_prob: Float[Array, ""]
    distance: Int[Array, ""]
    invalid: Bool[Array, ""]


def acceptance(state: ChainState, proposal: Proposal) -> tuple[Array, Array]:
    r"""The probability of accepting a proposal, and whether it was invalid.

    $$1 \wedge \frac{\pi(y)\, q(x \mid y)}{\pi(x)\, q(y \mid x)}$$

    A proposal where the density is NaN or +inf, or whose way back is NaN, is rejected and
    marked. One that leads to zero density, or that the race was forced into for want of sites
    with weight, is rejected as any other.
    """
    log_prob = proposal.state.log_prob
    nowhere = log_prob == -jnp.inf
    invalid = jnp.isnan(log_prob) | (log_prob == jnp.inf)
    invalid = invalid | (jnp.isnan(proposal.log_backward) & ~nowhere)
    log_ratio = log_prob - state.log_prob + proposal.log_backward - proposal.log_forward
    possible = jnp.isfinite(proposal.log_forward) & ~nowhere & ~invalid
    return jnp.where(possible, jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0), invalid


def step(
    noise: Noise,
    target: Target,
    state: ChainState,
    scale: Float[Array, ""],
    sampler: Sampler,
) -> tuple[ChainState, Proposal, Info]:
    """One step of one chain: round the scale, propose, accept or stay."""
    length = scaling.round_randomly(noise.rounding, scale)
    proposal = sampler.propose(noise.propose, target, state, length)
    accept_prob, invalid = acceptance(state, proposal)
    accept = noise.accept < accept_prob
    info = Info(
        accept_prob=accept_prob,
        distance=jnp.where(accept, proposal.distance, 0),
        invalid=invalid,
    )
    kept = jax.tree.map(lambda y, x: jnp.where(accept, y, x), proposal.state, state)
    return kept, proposal, info
