"""The compiled loop: all chains, any number of steps.

`scan` is the only place where chains are stepped: sampling, many programs side by side, the walks
of persistent contrastive divergence, annealing and the checks of exactness all call it. The number
of steps is an argument, so warm-up, drawing and chunks of every length share one program.

Random numbers depend only on the key, the step and the chain: a chain's step has the key
`fold_in(fold_in(key, step), chain)`. A run therefore does not depend on how it was cut into chunks,
nor on how many devices hold its chains. Each device runs this loop over its own chains; the tuner,
which needs all chains, receives the results of all devices.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from hopscale import native
from hopscale.devices import all_chains, chain_count, chain_numbers, own_chains
from hopscale.kernels.kernel import ChainState, Info, Kernel, where
from hopscale.target import Preparable, State, Target
from hopscale.tune import Tuner, TunerState

NOISE_STEPS = 32  # steps whose noise is drawn together
UNROLL = 4  # steps that a GPU launches at once: launching costs as much as a short step
MOST_IN_PAGE = 128  # steps of a page whose length is compiled in
FRESH_STEPS = 1024  # steps between evaluations from scratch: a multiple of NOISE_STEPS

Steps = int | Int[Array, ""]
T = TypeVar("T", bound=Target)


class Program(NamedTuple):
    """The parts of a run. Numbers in it are arguments of the compiled loop, not constants.

    `axis` is the mesh axis along which chains are divided among devices; None on one device.
    """

    key: Key[Array, ""]
    target: Target
    kernel: Kernel
    tuner: Tuner
    axis: str | None = None


class Chains(NamedTuple):
    """Everything that changes from step to step: the states of all chains and of the tuner."""

    states: ChainState
    tuner: TunerState


# After a step: (row, active, chains, info, memory) -> memory. Row 0 is the scan's first step.
Visit = Callable[[Array, Array, Chains, Info, Any], Any]
# Before a step: (step, chains, memory) -> (target, chains, memory).
Prepare = Callable[[Array, Chains, Any], tuple[Target, Chains, Any]]


def start(program: Program, x: State) -> Chains:
    """Chains at these states, and the tuner before its first step."""
    target, kernel = program.target, program.kernel
    scales, chains = kernel.scale_range(target), chain_count(len(x), program.axis)
    return Chains(
        states=jax.vmap(lambda one: kernel.init(target, one))(x),
        tuner=program.tuner.init(scales, chains, target.dtype),  # type: ignore[arg-type]
    )


def scan(
    program: Program,
    chains: Chains,
    memory: Any = None,
    *,
    first: Steps = 0,
    steps: Steps,
    tune: bool | Bool[Array, ""] = True,
    visit: Visit | None = None,
    prepare: Prepare | None = None,
    whole_pages: bool = False,
) -> tuple[Chains, Any]:
    """Take `steps` steps of all chains, from step number `first` on.

    Args:
        program: target, kernel, tuner and key.
        chains: the states of the chains and of the tuner.
        memory: whatever `visit` keeps.
        first: the number of the first step; random numbers depend on it.
        steps: how many steps. Small Python integers are compiled in, which is faster on a GPU.
        tune: whether the tuner moves the scale.
        visit: called after each step, to record results.
        prepare: called before each step, for a target that changes from step to step.
        whole_pages: take steps in whole pages of 32, with idle steps before the first and after
            the last. A GPU then need not ask after every step whether to continue.
    """
    program = program._replace(target=prepared(program.target))
    # A few steps, with their number known at compile time, are one page of that length.
    page_steps, one_page = NOISE_STEPS, False
    if isinstance(steps, int) and steps <= MOST_IN_PAGE:
        page_steps, one_page = steps, True
    last = first + steps

    def page(number, carry):
        origin = first if one_page else number * page_steps
        begin = jnp.maximum(first - origin, 0)
        end = jnp.minimum(last - origin, page_steps)
        noise = _noise(program, chains, origin, page_steps)
        stepped, memory = carry
        if program.kernel.updates(program.target) and not one_page:
            fresh = (begin == 0) & (origin % FRESH_STEPS == 0) & (origin > 0)
            stepped = stepped._replace(states=_refreshed(program, stepped.states, fresh))

        def step(i, carry):
            active = (begin <= i) & (i < end) if whole_pages else True
            now = jax.tree.map(lambda a: a[i], noise)
            return _step(program, now, origin + i, first, active, tune, visit, prepare, *carry)

        if whole_pages:
            return jax.lax.fori_loop(0, page_steps, step, (stepped, memory), unroll=UNROLL)
        bounds = (0, page_steps) if one_page else (begin, end)
        return jax.lax.fori_loop(*bounds, step, (stepped, memory))

    if one_page:
        return page(0, (chains, memory))
    return jax.lax.fori_loop(first // page_steps, -(-last // page_steps), page, (chains, memory))


def prepared(target: T) -> T:
    """The target for many steps: its parts that are `Preparable` are prepared.

    It is for what steps would otherwise compute again each time, such as another order of weights.
    """

    def can(part) -> bool:
        return isinstance(part, Preparable)

    return jax.tree.map(lambda part: part.prepared() if can(part) else part, target, is_leaf=can)


def to_end_of_page(first: int, steps: int) -> int:
    """The number of steps, reduced to end with a page of noise if they would run into the next.

    A device that takes whole pages would otherwise go through that next page twice, partly idle.
    """
    beyond = (first + steps) % NOISE_STEPS
    return steps - beyond if beyond < steps else steps


def _step(program, noise, number, first, active, tune, visit, prepare, chains: Chains, memory):
    """One step of all chains."""
    target, before, remembered = program.target, chains, memory
    if prepare is not None:
        target, chains, memory = prepare(number, chains, memory)
    states, info = step_chains(program, target, noise, chains, active)
    scales = program.kernel.scale_range(target)

    def tuned(before: TunerState) -> TunerState:
        return program.tuner.update(before, all_chains(info, program.axis), scales)  # type: ignore[arg-type]

    tuner = _if(tune, active is True, tuned, chains.tuner)
    after = Chains(states=states, tuner=where(active, tuner, chains.tuner))
    if visit is not None:
        memory = visit(number - first, active, after, info, memory)
    if prepare is not None:  # idle steps undo it
        after, memory = where(active, (after, memory), (before, remembered))
    return after, memory


def step_chains(
    program: Program, target: Target, noise, chains: Chains, active: bool | Bool[Array, ""] = True
) -> tuple[ChainState, Info]:
    """A step of all chains, with one scale for all or one for each."""

    def one(noise, state, scale):
        return program.kernel.advance(noise, target, state, scale, active)

    def own(axis, scale):
        return scale if axis is None else own_chains(scale, program.axis)

    scale, axes = program.kernel.scale_of(chains.tuner)
    scale = jax.tree.map(own, axes, scale, is_leaf=lambda axis: axis is None)
    return jax.vmap(one, in_axes=(0, 0, axes))(noise, chains.states, scale)


def first_step(program: Program, x: State) -> tuple[ChainState, Info]:
    """The result of the first step of chains at these states."""
    chains = start(program, x)
    noise = jax.tree.map(lambda a: a[0], _noise(program, chains, 0, 1))
    return step_chains(program, program.target, noise, chains)


def _noise(program: Program, chains: Chains, origin, steps: int):
    """The random numbers of a page of steps."""

    def one(step, chain):
        key = step_key(program.key, step, chain)
        return program.kernel.noise(key, program.target)

    numbers = (origin + jnp.arange(steps)).astype(jnp.int32)
    own = chain_numbers(len(chains.states.x), program.axis)
    return jax.vmap(lambda step: jax.vmap(lambda chain: one(step, chain))(own))(numbers)


def step_key(key: Key[Array, ""], step: Int[Array, ""], chain: Int[Array, ""]) -> Key[Array, ""]:
    """`fold_in(fold_in(key, step), chain)`, by a kernel: XLA compiles it slowly on a CPU."""
    words = native.call("step_key", key, step, chain)
    return jax.random.wrap_key_data(words, impl=jax.random.key_impl(key))


def _refreshed(program: Program, states: ChainState, fresh: Bool[Array, ""]) -> ChainState:
    """The states, evaluated from scratch if `fresh`, which removes rounding errors of updates."""

    def again(states: ChainState) -> ChainState:
        return jax.vmap(lambda one: program.kernel.refreshed(program.target, one))(states)

    return jax.lax.cond(fresh, again, lambda same: same, states)


def _if(condition, branch: bool, function: Callable, value):
    """function(value) if the condition holds, else the value.

    A branch that is not taken costs nothing, but a GPU would have to ask the host which to take.
    On a GPU both results are computed instead.
    """
    if isinstance(condition, bool):
        return function(value) if condition else value
    if branch:
        return jax.lax.cond(condition, function, lambda same: same, value)
    return where(condition, function(value), value)


@eqx.filter_jit
def proposals(program: Program, chains: Chains, step: Int[Array, ""]) -> tuple[State, Array]:
    """The proposals of all chains at this step, and which of them are invalid."""
    noise = jax.tree.map(lambda a: a[0], _noise(program, chains, step, 1))
    _, info = step_chains(program, program.target, noise, chains)
    return info.proposal, info.invalid
