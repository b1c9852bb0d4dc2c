"""The loop: warm up, freeze, draw.

One compiled program advances all chains by any number of steps; the number is an argument, so
chunks of every length, warm-up and drawing share it. Python looks in between chunks: to fold
what was recorded, to show progress, and to see whether it was asked to stop.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import metropolis, native, validate
from hopscale.observe import Moments, Trace
from hopscale.progress import watch
from hopscale.results import Run
from hopscale.sampler import ChainState, Sampler
from hopscale.samplers import LBP
from hopscale.scale import Adaptive, Tuner, TunerState
from hopscale.target import State, Target

Statistic = Callable[[State], Float[Array, ""]]

CHUNK_SECONDS = 0.25
RECORD_ENTRIES = 2**21  # of each buffer, at most
STATE_BYTES = 2**26
NOISE_STEPS = 32


class Program(NamedTuple):
    """What a run is made of. Numbers in it are arguments of the compiled loop, not constants."""

    key: Key[Array, ""]
    target: Target
    sampler: Sampler
    tuner: Tuner
    statistic: Statistic
    implementation: str


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
    """All that evolves: chains, tuner, and the first state whose log-density was invalid."""

    chains: ChainState
    tuner: TunerState
    offender: State
    found: Bool[Array, ""]


class Records(NamedTuple):
    """Buffers that a chunk of steps fills, one row a step."""

    accept_prob: Float[Array, "rows chains"]
    distance: Int[Array, "rows chains"]
    statistic: Float[Array, "rows chains"]
    invalid: Int[Array, " rows"]
    states: State | None


class Hamming(eqx.Module):
    """The paper's statistic: Hamming distance to a fixed random state."""

    origin: State

    def __call__(self, x: State) -> Float[Array, ""]:
        return jnp.sum(x != self.origin, dtype=jnp.int32).astype(jnp.float32)


@eqx.filter_jit
def _start(target: Target, sampler: Sampler, x: State) -> ChainState:
    return jax.vmap(lambda one: sampler.init(target, one))(x)


@eqx.filter_jit(donate="all-except-first")
def _advance(fixed: tuple[Program, Span], carry: Carry, records: Records) -> tuple[Carry, Records]:
    """Take the steps of the span, recording into rows 0, 1, ..."""
    (key, target, sampler, tuner, statistic, implementation), span = fixed
    chains = jnp.arange(records.accept_prob.shape[1])

    def noise(step, chain):
        return metropolis.noise(jax.random.fold_in(jax.random.fold_in(key, step), chain), dtype)

    def one(noise, state, scale):
        return metropolis.step(noise, target, state, scale, sampler)

    dtype = target.dtype
    scale_axis = 0 if carry.tuner.scale.ndim else None
    all_noise = jax.vmap(jax.vmap(noise, in_axes=(None, 0)), in_axes=(0, None))
    all_chains = jax.vmap(one, in_axes=(0, 0, scale_axis))

    def page(number, loop):
        """A few steps, with their noise drawn together: one array instead of many scalars."""
        start = number * NOISE_STEPS
        drawn = all_noise(span.first + start + jnp.arange(NOISE_STEPS), chains)

        def step(row, loop):
            return body(row, jax.tree.map(lambda x: x[row - start], drawn), loop)

        return jax.lax.fori_loop(start, jnp.minimum(start + NOISE_STEPS, span.steps), step, loop)

    def body(row, noise, loop):
        carry, records = loop
        states, proposals, info = all_chains(noise, carry.chains, carry.tuner.scale)
        tuned = tuner.update(carry.tuner, info.accept_prob, target.num_sites)
        any_invalid = jnp.any(info.invalid)
        carry = Carry(
            chains=states,
            tuner=jax.tree.map(lambda new, old: jnp.where(span.warm, new, old), tuned, carry.tuner),
            offender=jax.lax.cond(
                any_invalid & ~carry.found,
                lambda: proposals.state.x[jnp.argmax(info.invalid)],
                lambda: carry.offender,
            ),
            found=carry.found | any_invalid,
        )
        group = (row + span.offset) // span.thin
        records = Records(
            accept_prob=records.accept_prob.at[row].set(info.accept_prob),
            distance=records.distance.at[row].set(info.distance),
            statistic=records.statistic.at[row].set(
                jax.vmap(statistic)(states.x).astype(jnp.float32)
            ),
            invalid=records.invalid.at[row].set(jnp.sum(info.invalid, dtype=jnp.int32)),
            # Each step overwrites its group's row, so the last of the group stays.
            states=None if records.states is None else records.states.at[group].set(states.x),
        )
        return carry, records

    with native.use(implementation):
        pages = (span.steps + NOISE_STEPS - 1) // NOISE_STEPS
        return jax.lax.fori_loop(0, pages, page, (carry, records))


def sample(
    target: Target,
    sampler: Sampler | None = None,
    *,
    chains: int = 100,
    warmup: int = 2_000,
    draws: int = 2_000,
    key: int | Key[Array, ""] = 0,
    scale: Tuner | None = None,
    init=None,
    keep: str | int | None = None,
    statistic: Statistic | None = None,
    progress: bool = True,
    chunk: int | None = None,
) -> Run:
    """Draw from a target: tune the scale during warm-up, freeze it, and draw.

    Args:
        target: what to sample.
        sampler: how; `LBP()` unless said.
        chains: how many independent chains run side by side.
        warmup: steps that tune the scale and are not kept.
        draws: steps whose statistics are kept.
        key: a seed or a JAX key. The same key gives the same run, bit for bit.
        scale: `Adaptive()` unless said, or `Fixed(R)`.
        init: where chains start: one state for all, or one for each chain. None: random states,
            each value equally likely.
        keep: which states to return in `run.draws`: "all", "last", or n for every n-th.
            None keeps statistics only, and memory does not grow with the run.
        statistic: a function of one state whose effective sample size and R-hat are reported.
            None: the Hamming distance to a fixed random state.
        progress: show a progress bar where there is a terminal.
        chunk: steps between two looks at the run. None: about a quarter of a second.

    Returns:
        A `Run`. After Ctrl-C, what was drawn until then.

    Raises:
        ValueError, TypeError: for arguments that cannot work, before anything is compiled.
        InvalidDensityError: if the log-density was NaN or +inf at every proposal.
    """
    sampler = LBP() if sampler is None else sampler
    scale = Adaptive() if scale is None else scale
    validate.arguments(target, sampler, scale, chains, warmup, draws, chunk)
    thin = validate.thinning(keep, draws)
    key_init, key_origin, key_run = jax.random.split(validate.as_key(key), 3)
    x = validate.initial_states(target, chains, init, key_init)
    if statistic is None:
        origin = jax.random.randint(key_origin, target.shape, 0, target.num_states)
        statistic = Hamming(origin.astype(target.state_dtype))
    else:
        validate.statistic(statistic, target)

    driver = _Driver(target, sampler, scale, statistic, key_run, x, thin)
    with watch(progress, {"warm-up": warmup, "draws": draws}) as watched:
        for phase, steps in (("warm-up", warmup), ("draws", draws)):
            driver.enter(phase)
            while driver.done < steps and not watched.stopped:
                driver.advance(min(steps - driver.done, chunk or driver.chunk))
                watched.show(phase, driver.done, driver.status())
    return driver.result(keep=keep, interrupted=watched.stopped)


class _Driver:
    """The host's side of a run: calls the compiled loop and folds in what it recorded."""

    def __init__(self, target, sampler, tuner, statistic, key, x, thin):
        began = time.perf_counter()
        self.chains = x.shape[0]
        tuner = jax.tree.map(jnp.asarray, tuner.ready(sampler))
        self.program = Program(key, target, sampler, tuner, statistic, native.in_use())
        self.thin = thin
        self.carry = Carry(
            chains=_start(target, sampler, x),
            tuner=tuner.init(target.num_sites, self.chains, target.dtype),
            offender=jnp.zeros_like(x[0]),
            found=jnp.asarray(False),
        )
        validate.finite_start(self.carry.chains)
        self.records = self._buffers()
        self.steps = self.warmed = self.invalid = 0
        self.enter("warm-up")
        self._call(0)  # compiles, and takes no step
        self.compile_seconds = time.perf_counter() - began
        self.run_seconds = 0.0
        self.chunk = 8

    def _buffers(self) -> Records:
        target = self.program.target
        rows = min(max(RECORD_ENTRIES // self.chains, 1), 4096)
        states = None
        if self.thin:
            rows = min(rows, max(STATE_BYTES // (self.chains * target.num_sites), 1))
            states = jnp.zeros((rows, self.chains, *target.shape), target.state_dtype)
        return Records(
            accept_prob=jnp.zeros((rows, self.chains), target.dtype),
            distance=jnp.zeros((rows, self.chains), jnp.int32),
            statistic=jnp.zeros((rows, self.chains), jnp.float32),
            invalid=jnp.zeros(rows, jnp.int32),
            states=states,
        )

    def enter(self, phase: str) -> None:
        """Begin to warm up; or freeze the scale and begin to draw."""
        self.warm = phase == "warm-up"
        self.warmed, self.done = self.steps, 0
        self.accept_prob, self.distance = Moments(self.chains), Moments(self.chains)
        self.statistic, self.trace = Moments(self.chains), Trace(self.chains)
        self.kept: list[np.ndarray] = []

    def _call(self, steps: int) -> None:
        thin = self.thin or 1
        span = Span(
            first=jnp.asarray(self.steps),
            steps=jnp.asarray(steps),
            warm=jnp.asarray(self.warm),
            thin=jnp.asarray(thin),
            offset=jnp.asarray(self.done % thin),
        )
        self.carry, self.records = _advance((self.program, span), self.carry, self.records)
        jax.block_until_ready(self.carry)

    def advance(self, steps: int) -> None:
        """Take steps, at most as many as the buffers hold, and fold in what they recorded."""
        steps = min(steps, self.records.invalid.size)
        began = time.perf_counter()
        self._call(steps)
        self._fold(steps)
        took = time.perf_counter() - began
        self.run_seconds += took
        self.chunk = max(1, int(steps * min(CHUNK_SECONDS / max(took, 1e-9), 8.0)))
        self._check_valid()

    def _fold(self, steps: int) -> None:
        # Sliced by NumPy: a slice by JAX would compile for each number of steps.
        seen = jax.tree.map(lambda buffer: np.asarray(buffer)[:steps], self.records)
        self.accept_prob.add(seen.accept_prob)
        self.distance.add(seen.distance)
        self.invalid += int(seen.invalid.sum())
        if not self.warm:
            self.statistic.add(seen.statistic)
            self.trace.add(seen.statistic)
            if seen.states is not None:
                finished = (self.done + steps) // self.thin - self.done // self.thin
                self.kept.append(seen.states[:finished].copy())
        self.done += steps
        self.steps += steps

    def _check_valid(self) -> None:
        if self.steps >= 100 and self.invalid == self.steps * self.chains:
            validate.all_invalid(self.steps * self.chains, np.asarray(self.carry.offender))

    def status(self) -> dict[str, float]:
        """What the progress bar shows."""
        return {
            "R": float(np.mean(self.carry.tuner.scale)),
            "acceptance": float(self.accept_prob.mean.mean()),
            "EJD": float(self.distance.mean.mean()),
        }

    def result(self, keep, interrupted: bool) -> Run:
        """Everything the user gets."""
        if self.steps and self.invalid == self.steps * self.chains:
            validate.all_invalid(self.invalid, np.asarray(self.carry.offender))
        draws = None
        if self.thin:
            draws = np.moveaxis(np.concatenate(self.kept), 0, 1) if self.kept else None
        elif keep == "last":
            draws = np.asarray(self.carry.chains.x)[:, None]
        scale = np.asarray(self.carry.tuner.scale, np.float64)
        return Run(
            target=self.program.target,
            sampler=self.program.sampler,
            chains=self.chains,
            warmup=self.warmed,
            num_draws=self.done,
            scale=scale if scale.ndim else float(scale),
            accept_prob_by_chain=self.accept_prob.mean,
            distance_by_chain=self.distance.mean,
            statistic_mean=self.statistic.mean,
            statistic_variance=self.statistic.variance,
            trace=self.trace.values,
            block=self.trace.block,
            draws=draws,
            last=np.asarray(self.carry.chains.x),
            invalid=self.invalid,
            offender=np.asarray(self.carry.offender) if self.invalid else None,
            evaluations=(self.steps + 1) * self.chains,
            compile_seconds=self.compile_seconds,
            run_seconds=self.run_seconds,
            interrupted=interrupted,
        )
