"""Annealing: chains of a target raised to a power that grows from step to step."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hopscale.engine import loop
from hopscale.engine.loop import Chains, Program
from hopscale.kernels.kernel import ChainState
from hopscale.target import State, Target
from hopscale.targets.powered import Powered


class Schedule(NamedTuple):
    """Inverse temperatures, from step number `begin` on, each for `each` steps."""

    betas: Float[Array, " betas"]
    begin: Int[Array, ""]
    each: Int[Array, ""]


class Best(NamedTuple):
    """The most probable state so far."""

    x: State
    log_prob: Float[Array, ""]


def nothing_yet(target: Target) -> Best:
    """A first `Best`, worse than any state."""
    return Best(
        x=jnp.zeros(target.shape, target.state_dtype),
        log_prob=jnp.asarray(-jnp.inf, target.dtype),
    )


def better(best: Best, states: ChainState, counts: bool | Bool[Array, ""] = True) -> Best:
    """The best of all chains, if it counts and is better than the best so far."""
    log_prob = states.evaluation.cache.log_prob
    leader = jnp.argmax(log_prob)
    is_better = (log_prob[leader] > best.log_prob) & counts
    return Best(
        x=jnp.where(is_better, states.x[leader], best.x),
        log_prob=jnp.where(is_better, log_prob[leader], best.log_prob),
    )


@eqx.filter_jit
def anneal(
    program: Program,
    chains: Chains,
    best: Best,
    schedule: Schedule,
    first: Int[Array, ""],
    steps: Int[Array, ""],
) -> tuple[Chains, Best]:
    """Take steps along a schedule, and keep the best state. The program's target is `Powered`."""
    powered = program.target
    assert isinstance(powered, Powered)

    def prepare(number, chains: Chains, best: Best):
        place = jnp.minimum((number - schedule.begin) // schedule.each, schedule.betas.size - 1)
        target = powered.at(schedule.betas[place])
        states = chains.states
        evaluation = jax.vmap(target.combine)(states.evaluation.cache)
        return target, chains._replace(states=states._replace(evaluation=evaluation)), best

    def visit(row, active, chains: Chains, info, best: Best) -> Best:
        return better(best, chains.states, active)

    return loop.scan(
        program,
        chains,
        best,
        first=first,
        steps=steps,
        prepare=prepare,
        visit=visit,
        whole_pages=jax.default_backend() != "cpu",
    )


@eqx.filter_jit
def begin(program: Program, x: State) -> Chains:
    """Chains at these states."""
    return loop.start(program, x)
