"""Chains that walk between a base and a target: the compiled part of annealed importance sampling.

The target of each step is `Tempered` at its own beta. A chain carries the evaluations of base and
target at its state, so that another beta needs no new evaluation. When weights have become uneven,
chains are resampled in proportion to them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale.engine import loop
from hopscale.engine.compiling import compiled
from hopscale.engine.loop import Chains
from hopscale.kernels.kernel import ChainState, Kernel
from hopscale.target import State
from hopscale.targets import Tempered
from hopscale.tune import Tuner


class Annealing(NamedTuple):
    """The path of distributions that an estimate follows, and how chains move along it.

    Attributes:
        target: the path's ends, at any beta.
        betas: from 0 to 1; from 1 to 0 for chains that walk back.
        resample: chains are resampled when fewer than this share of them is effective; None means
            never.
    """

    target: Tempered
    kernel: Kernel
    tuner: Tuner
    betas: Float[Array, " betas"]
    resample: Float[Array, ""] | None


class Weights(NamedTuple):
    """The results of a walk besides the chains.

    Attributes:
        log_weights: the log-weight of each chain.
        ancestors: the index of the first state that each chain descends from.
        scales: the scale of each step.
        acceptance: the sum over steps of the mean acceptance probability.
    """

    log_weights: Float[Array, " chains"]
    ancestors: Int[Array, " chains"]
    scales: Float[Array, " steps"]
    acceptance: Float[Array, ""]


class Walk(NamedTuple):
    """Everything that changes from step to step."""

    chains: Chains
    weights: Weights


class Span(NamedTuple):
    """Which steps to take, and whether as the pilot, which tunes the scales the others follow."""

    first: Int[Array, ""]
    steps: Int[Array, ""]
    pilot: Bool[Array, ""]


def _program(annealing: Annealing, key: Key[Array, ""]) -> loop.Program:
    return loop.Program(
        key=key, target=annealing.target, kernel=annealing.kernel, tuner=annealing.tuner
    )


@compiled()
def start(annealing: Annealing, key: Key[Array, ""], x: State, scales: Array) -> Walk:
    """Start a walk: the first states, and the scales that walks other than the pilot follow."""
    key_walk, _ = jax.random.split(key)
    dtype = annealing.target.dtype
    beginning = annealing._replace(target=annealing.target.at(annealing.betas[0]))
    return Walk(
        chains=loop.start(_program(beginning, key_walk), x),
        weights=Weights(
            log_weights=jnp.zeros(len(x), dtype),
            ancestors=jnp.arange(len(x)),
            scales=scales,
            acceptance=jnp.zeros((), dtype),
        ),
    )


@compiled()
def anneal(annealing: Annealing, key: Key[Array, ""], span: Span, walk: Walk) -> Walk:
    """Take steps along the path: step k goes from beta_k to beta_{k+1}."""
    key_walk, key_resample = jax.random.split(key)
    annealing = annealing._replace(target=loop.prepared(annealing.target))

    def prepare(step, chains: Chains, weights: Weights):
        rise = annealing.betas[step + 1] - annealing.betas[step]
        weights = _weigh(rise, chains.states, weights)
        states = chains.states
        if annealing.resample is not None:
            key_step = jax.random.fold_in(key_resample, step)
            states, weights = _resample(annealing.resample, key_step, states, weights)
        target = annealing.target.at(annealing.betas[step + 1])
        scale = jnp.where(span.pilot, chains.tuner.scale, weights.scales[step])
        weights = weights._replace(scales=weights.scales.at[step].set(scale))
        chains = Chains(_temper(target, states), chains.tuner._replace(scale=scale))
        return target, chains, weights

    def visit(row, active, chains, info, weights: Weights) -> Weights:
        return weights._replace(acceptance=weights.acceptance + jnp.mean(info.accept_prob))

    program = _program(annealing, key_walk)
    chains, weights = loop.scan(
        program,
        walk.chains,
        walk.weights,
        first=span.first,
        steps=span.steps,
        tune=span.pilot,
        visit=visit,
        prepare=prepare,
    )
    return Walk(chains=chains, weights=weights)


def _temper(target: Tempered, states: ChainState) -> ChainState:
    """The chains evaluated at another beta, from the evaluations that they carry."""

    def one(state: ChainState) -> ChainState:
        return ChainState(x=state.x, evaluation=target.combine(*state.evaluation.cache))

    return jax.vmap(one)(states)


def _weigh(rise: Float[Array, ""], states: ChainState, weights: Weights) -> Weights:
    """Add to the log-weights what they gain at the chains' states as beta changes."""
    base, target = states.evaluation.cache
    # Several steps at one beta do not change a weight, even where a density is zero.
    gain = jnp.where(rise == 0, 0.0, rise * (target.log_prob - base.log_prob))
    return weights._replace(log_weights=weights.log_weights + gain)


def _resample(
    share: Float[Array, ""], key: Key[Array, ""], states: ChainState, weights: Weights
) -> tuple[ChainState, Weights]:
    r"""Draw chains by weight if $(\sum w)^2 / \sum w^2$ is below a share of their number.

    Each then has the mean weight. There is no branch: chains that stay are copied to themselves.
    """
    log_weights, size = weights.log_weights, len(weights.log_weights)
    normalized = jax.nn.softmax(log_weights)
    uneven = 1.0 / jnp.sum(normalized**2) < share * size
    chosen = jnp.where(uneven, systematic(key, normalized), jnp.arange(size))
    mean = jax.nn.logsumexp(log_weights) - jnp.log(size)
    return jax.tree.map(lambda one: one[chosen], states), weights._replace(
        log_weights=jnp.where(uneven, mean, log_weights),
        ancestors=weights.ancestors[chosen],
    )


def systematic(key: Key[Array, ""], weights: Float[Array, " n"]) -> Int[Array, " n"]:
    r"""Draw indices in proportion to weights from one uniform number $u \in (0, 1]$.

    Copy k is the first i with $n (w_1 + \dots + w_i) / \sum w \geq k + u$, so that each index has
    its expected number of copies, rounded down or up, and an index of weight zero has none.
    """
    size = len(weights)
    sums = jnp.cumsum(weights)
    marks = jnp.arange(size) + (1.0 - jax.random.uniform(key, dtype=weights.dtype))
    return jnp.searchsorted(size * (sums / sums[-1]), marks, method="compare_all")
