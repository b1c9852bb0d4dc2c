"""The compiled loop: all chains, any number of steps.

The number of steps is an argument, so warm-up, drawing and chunks of every length share one
program. Nothing is summed over time inside: each step writes what it did into a row of a buffer.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import metropolis, native
from hopscale.sampler import ChainState, Sampler
from hopscale.scale import Tuner, TunerState
from hopscale.target import State, Target

Statistic = Callable[[State], Float[Array, ""]]

PAGE = 32  # steps whose noise is drawn together


class Program(NamedTuple):
    """What a run is made of. Numbers in it are arguments of the compiled loop, not constants.

    `whole_pages` makes the loop take its steps in whole pages, idle beyond the last: a GPU then
    need not ask after every step whether to go on.
    """

    key: Key[Array, ""]
    target: Target
    sampler: Sampler
    tuner: Tuner
    statistic: Statistic
    implementation: str
    whole_pages: bool


class Span(NamedTuple):
    """Which steps to take: `steps` of them from step number `first`, tuning if `warm`.

    Draw number d goes to row d // thin of the kept states; `offset` is where the first of these
    steps falls in its group of `thin`.
    """

    first: Int[Array, ""]
    steps: Int[Array, ""]
    warm: Bool[Array, ""]
    thin: Int[Array, ""]
    offset: Int[Array, ""]


class Carry(NamedTuple):
    """All that evolves."""

    chains: ChainState
    tuner: TunerState


class Records(NamedTuple):
    """Buffers with a row for each step: accept_prob, distance, statistic, invalid; and states."""

    numbers: Float[Array, "rows 4 chains"]
    states: State | None


class Hamming(eqx.Module):
    """The paper's statistic: Hamming distance to a fixed random state."""

    origin: State

    def __call__(self, x: State) -> Float[Array, ""]:
        return native.call("hamming", x, self.origin)


@eqx.filter_jit
def start(target: Target, sampler: Sampler, x: State) -> ChainState:
    """Evaluate the target where the chains start."""
    return jax.vmap(lambda one: sampler.init(target, one))(x)


def records(target: Target, chains: int, rows: int, states: bool) -> Records:
    """Empty buffers for so many steps."""
    shape = (rows, chains, *target.shape)
    return Records(
        numbers=jnp.zeros((rows, 4, chains), target.dtype),
        states=jnp.zeros(shape, target.state_dtype) if states else None,
    )


@eqx.filter_jit(donate="all-except-first")
def advance(fixed: tuple[Program, Span], carry: Carry, records: Records) -> tuple[Carry, Records]:
    """Take the steps of the span, recording into rows 0, 1, ..."""
    program, span = fixed

    def page(number, loop):
        begin = number * PAGE
        end = jnp.minimum(begin + PAGE, span.steps)
        noise = _noise(program, carry, span.first + begin)
        if program.whole_pages:
            # No step can be accepted beyond the last: chains stay where they are.
            idle = begin + jnp.arange(PAGE) >= end
            noise = noise._replace(accept=jnp.where(idle[:, None], 2.0, noise.accept))

        def step(i, loop):
            row, now = begin + i, jax.tree.map(lambda x: x[i], noise)
            return _step(program, span, row, now, *loop)

        return jax.lax.fori_loop(0, PAGE if program.whole_pages else end - begin, step, loop)

    with native.use(program.implementation):
        return jax.lax.fori_loop(0, -(-span.steps // PAGE), page, (carry, records))


@eqx.filter_jit
def proposals(program: Program, carry: Carry, step: Int[Array, ""]) -> tuple[State, Array]:
    """Where the chains would go at this step, and which of that is invalid."""
    with native.use(program.implementation):
        noise = jax.tree.map(lambda x: x[0], _noise(program, carry, step))
        _, proposed, info = _all_chains(program, carry)(noise, carry.chains, carry.tuner.scale)
    return proposed.state.x, info.invalid


def _noise(program: Program, carry: Carry, first: Int[Array, ""]) -> metropolis.Noise:
    """The randomness of a page of steps: it depends on key, step and chain alone."""

    def one(step, chain):
        key = jax.random.fold_in(jax.random.fold_in(program.key, step), chain)
        return metropolis.noise(key, program.target.dtype)

    steps, chains = first + jnp.arange(PAGE), jnp.arange(carry.chains.log_prob.size)
    return jax.vmap(lambda step: jax.vmap(lambda chain: one(step, chain))(chains))(steps)


def _all_chains(program: Program, carry: Carry):
    """A step of all chains, with one scale for all or one for each."""

    def one(noise, state, scale):
        return metropolis.step(noise, program.target, state, scale, program.sampler)

    return jax.vmap(one, in_axes=(0, 0, 0 if carry.tuner.scale.ndim else None))


def _step(program: Program, span: Span, row, noise, carry: Carry, records: Records):
    """One step of all chains; what it did goes to `row` of the records."""
    chains, _, info = _all_chains(program, carry)(noise, carry.chains, carry.tuner.scale)
    tuned = program.tuner.update(carry.tuner, info.accept_prob, program.target.num_sites)
    warm = span.warm & (row < span.steps)
    tuner = jax.tree.map(lambda new, old: jnp.where(warm, new, old), tuned, carry.tuner)
    statistic = jax.vmap(program.statistic)(chains.x)
    numbers = (info.accept_prob, info.distance, statistic, info.invalid)
    numbers = jnp.stack([number.astype(records.numbers.dtype) for number in numbers])
    update = jax.lax.dynamic_update_index_in_dim
    states = records.states
    if states is not None:
        # Each step overwrites its group's row, so the last of the group stays.
        states = update(states, chains.x, (row + span.offset) // span.thin, axis=0)
    records = Records(numbers=update(records.numbers, numbers, row, axis=0), states=states)
    return Carry(chains=chains, tuner=tuner), records
