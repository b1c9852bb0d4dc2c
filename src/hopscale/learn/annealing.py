"""Chains that walk from the base to a target: the compiled part of annealed importance sampling.

A chain carries what the target says of its state, so that another beta needs no evaluation. Where
weights have become uneven, chains are drawn anew in proportion to them.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from hopscale import metropolis, native
from hopscale.learn.compiling import compiled
from hopscale.learn.ebm import draw_base
from hopscale.sampler import Move, Sampler
from hopscale.scale import Tuner, TunerState
from hopscale.target import Ratios, State, Target
from hopscale.targets import Bernoulli


class OnPath(NamedTuple):
    """A `ChainState` at one beta, and the target's part of it."""

    x: State
    log_prob: Float[Array, ""]
    log_ratios: Ratios | None
    full: Float[Array, ""]
    full_ratios: Ratios | None


class AtBeta(Sampler):
    """A sampler of the distribution at one beta."""

    inner: Sampler
    base: Bernoulli
    beta: Float[Array, ""]

    name: ClassVar[str] = "path"
    rate: ClassVar[float] = float("nan")
    informed: ClassVar[bool] = True
    replacement: ClassVar[bool] = False

    def choose(self, key, target, state, length):
        return self.inner.choose(key, target, state, length)

    def score(self, target, state, move: Move, way_back: bool):
        return self.inner.score(target, state, move, way_back)

    def distance(self, move: Move):
        return self.inner.distance(move)

    def init(self, target: Target, x: State) -> Any:
        if self.inner.informed:
            full, full_ratios = target.evaluate(x)
        else:
            full, full_ratios = target.log_prob(x), None
        return self.temper(x, full, full_ratios)

    def temper(self, x: State, full, full_ratios) -> OnPath:
        """The state at this beta of what the target says of it."""
        log_prob, log_ratios = self.base.evaluate(x)
        tempered = None
        if full_ratios is not None:
            tempered = log_ratios + self.beta * (full_ratios - log_ratios)
        return OnPath(
            x=x,
            log_prob=log_prob + self.beta * (full - log_prob),
            log_ratios=tempered,
            full=full,
            full_ratios=full_ratios,
        )


class Program(NamedTuple):
    target: Target
    base: Bernoulli
    sampler: Sampler
    tuner: Tuner
    betas: Float[Array, " betas"]
    implementation: str
    resample: float = 0.0


class Carry(NamedTuple):
    """All that a step changes; `ancestors`: which draw of the base a chain descends from."""

    key: Key[Array, ""]
    chains: OnPath
    log_weights: Float[Array, " chains"]
    ancestors: Int[Array, " chains"]
    tuner: TunerState
    scales: Float[Array, " betas"]
    accepted: Float[Array, ""]


@compiled()
def start(program: Program, key: Key[Array, ""], chains: int) -> Carry:
    """Exact draws of the base."""
    key_base, key_walk = jax.random.split(key)
    x = draw_base(key_base, program.base, chains)
    at = AtBeta(program.sampler, program.base, program.betas[0])
    dtype = program.target.dtype
    return Carry(
        key=key_walk,
        chains=jax.vmap(lambda one: at.init(program.target, one))(x),
        log_weights=jnp.zeros(chains, dtype),
        ancestors=jnp.arange(chains),
        tuner=program.tuner.init(program.target.num_sites, chains, dtype),
        scales=jnp.ones_like(program.betas),
        accepted=jnp.zeros((), dtype),
    )


@compiled()
def anneal(fixed: tuple[Program, tuple[Array, Array, Array]], carry: Carry) -> Carry:
    """Take the steps from one number up to another; a pilot tunes the scales, others follow."""
    program, (begin, end, pilot) = fixed

    def stage(k, carry: Carry) -> Carry:
        rise = program.betas[k] - program.betas[k - 1]
        carry = _weigh(program, rise, carry)
        if program.resample:
            carry = _resample(program.resample, k, carry)
        return _move(program, k, pilot, carry)

    with native.use(program.implementation):
        return jax.lax.fori_loop(begin, end, stage, carry)


def _weigh(program: Program, rise: Float[Array, ""], carry: Carry) -> Carry:
    """What the weights gain as beta rises, where the chains are."""
    at_base = jax.vmap(program.base.log_prob)(carry.chains.x)
    gain = rise * (carry.chains.full - at_base)
    return carry._replace(log_weights=carry.log_weights + gain)


def _resample(share: float, k: Int[Array, ""], carry: Carry) -> Carry:
    r"""Draw chains anew if $(\sum w)^2 / \sum w^2$ is below a share of them.

    Each then has the mean weight. Nothing branches: chains that stay are their own copies.
    """
    log_weights, size = carry.log_weights, len(carry.log_weights)
    weights = jax.nn.softmax(log_weights)
    uneven = 1.0 / jnp.sum(weights**2) < share * size
    key = jax.random.fold_in(jax.random.fold_in(carry.key, 0), k)  # steps fold in 1, 2, ...
    chosen = jnp.where(uneven, systematic(key, weights), jnp.arange(size))
    mean = jax.nn.logsumexp(log_weights) - jnp.log(size)
    return carry._replace(
        chains=jax.tree.map(lambda one: one[chosen], carry.chains),
        log_weights=jnp.where(uneven, mean, log_weights),
        ancestors=carry.ancestors[chosen],
    )


def systematic(key: Key[Array, ""], weights: Float[Array, " n"]) -> Int[Array, " n"]:
    r"""Indices in proportion to weights, by one number $u \in (0, 1]$.

    Copy k is the first i with $n (w_1 + \dots + w_i) / \sum w \geq k + u$, so that each index has
    its expected number of copies, rounded down or up, and an index of no weight has none.
    """
    size = len(weights)
    sums = jnp.cumsum(weights)
    marks = jnp.arange(size) + (1.0 - jax.random.uniform(key, dtype=weights.dtype))
    return jnp.searchsorted(size * (sums / sums[-1]), marks, method="compare_all")


def _move(program: Program, k: Int[Array, ""], pilot, carry: Carry) -> Carry:
    """A step of all chains that leaves the distribution at beta_k invariant."""
    target = program.target
    at = AtBeta(program.sampler, program.base, program.betas[k])
    scale = jnp.where(pilot, carry.tuner.scale, carry.scales[k])

    def one(key, state: OnPath):
        state = at.temper(state.x, state.full, state.full_ratios)
        noise = metropolis.noise(key, target.dtype)
        chain, _, info = metropolis.step(noise, target, state, scale, at)  # type: ignore[arg-type]
        return chain, info.accept_prob

    keys = jax.random.split(jax.random.fold_in(carry.key, k), len(carry.log_weights))
    chains, accept_prob = jax.vmap(one)(keys, carry.chains)
    return carry._replace(
        chains=chains,
        tuner=program.tuner.update(carry.tuner, accept_prob, target.num_sites),
        scales=carry.scales.at[k].set(scale),
        accepted=carry.accepted + jnp.mean(accept_prob),
    )
