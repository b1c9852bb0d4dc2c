"""A run: warm up, freeze, draw.

Python calls the compiled loop for a chunk of steps at a time. In between it folds what was
recorded, shows progress, and sees whether it was asked to stop.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hopscale import loop, native, validate
from hopscale.loop import Carry, Hamming, Program, Span, Statistic
from hopscale.observe import Moments, Trace
from hopscale.progress import watch
from hopscale.results import Run
from hopscale.sampler import Sampler
from hopscale.samplers import LBP
from hopscale.scale import Adaptive, Tuner
from hopscale.target import Target

CHUNK_SECONDS = 0.25
RECORD_ENTRIES = 2**21  # a chain and step each, at most
STATE_BYTES = 2**26


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
                watched.show(phase, driver.done, driver.status)
    return driver.result(keep=keep, interrupted=watched.stopped)


class _Driver:
    """The host's side of a run: calls the compiled loop and folds in what it recorded."""

    def __init__(self, target, sampler, tuner, statistic, key, x, thin):
        began = time.perf_counter()
        self.chains, self.thin = x.shape[0], thin
        self.program = Program(
            key=key,
            target=target,
            sampler=sampler,
            # Numbers as arrays: another rate or scale is another argument, not another program.
            tuner=jax.tree.map(jnp.asarray, tuner.ready(sampler)),
            statistic=statistic,
            implementation=native.in_use(),
            whole_pages=jax.default_backend() != "cpu",
        )
        self.carry = Carry(
            chains=loop.start(target, sampler, x),
            tuner=tuner.init(target.num_sites, self.chains, target.dtype),
        )
        validate.finite_start(self.carry.chains)
        rows = min(max(RECORD_ENTRIES // self.chains, 1), 4096)
        if thin:
            size = self.chains * target.num_sites * target.state_dtype.itemsize
            rows = min(rows, max(STATE_BYTES // size, 1))
        if self.program.whole_pages:
            rows = -(-rows // loop.PAGE) * loop.PAGE
        self.records = self._records(rows)
        self.steps = self.warmed = self.invalid = 0
        self.offender: np.ndarray | None = None
        self.enter("warm-up")
        self._call(0)  # compiles, and takes no step
        jax.block_until_ready(self.carry)
        self.compile_seconds = time.perf_counter() - began
        self.run_seconds = 0.0
        self.chunk = 8

    def _records(self, rows: int) -> loop.Records:
        return loop.records(self.program.target, self.chains, rows, states=bool(self.thin))

    def enter(self, phase: str) -> None:
        """Begin to warm up; or freeze the scale and begin to draw."""
        self.warm = phase == "warm-up"
        self.warmed, self.done = self.steps, 0
        self.seen: loop.Records | None = None
        self.accept_prob, self.distance = Moments(self.chains), Moments(self.chains)
        self.statistic, self.trace = Moments(self.chains), Trace(self.chains)
        self.kept: list[np.ndarray] = []

    def _call(self, steps: int) -> None:
        thin = self.thin or 1
        self.span = Span(
            first=jnp.asarray(self.steps),
            steps=jnp.asarray(steps),
            warm=jnp.asarray(self.warm),
            thin=jnp.asarray(thin),
            offset=jnp.asarray(self.done % thin),
        )
        self.carry, self.records = loop.advance((self.program, self.span), self.carry, self.records)

    def advance(self, steps: int) -> None:
        """Take steps, at most as many as the buffers hold, and fetch what they recorded."""
        steps = min(steps, len(self.records.numbers))
        began = time.perf_counter()
        before = jax.tree.map(jnp.copy, self.carry) if self.offender is None else None
        self._call(steps)
        self.fold()  # what the chunk before recorded, while this one runs
        # Sliced by NumPy: JAX would compile for each number of steps. Copied: the buffers go on.
        seen = jax.tree.map(lambda buffer: np.asarray(buffer)[:steps].copy(), self.records)
        if seen.states is not None and self.thin:
            finished = (self.done + steps) // self.thin - self.done // self.thin
            seen = seen._replace(states=seen.states[:finished])
        invalid = seen.numbers[:, 3] > 0
        if before is not None and invalid.any():
            self.offender = self._replay(before, int(invalid.any(axis=1).argmax()))
        self.seen = seen
        self.invalid += int(invalid.sum())
        self.done += steps
        self.steps += steps
        took = time.perf_counter() - began
        self.run_seconds += took
        self.chunk = max(1, int(steps * min(CHUNK_SECONDS / max(took, 1e-9), 8.0)))
        if self.steps >= 100 and self.invalid == self.steps * self.chains:
            validate.all_invalid(self.invalid, self.offender)

    def _replay(self, before: Carry, row: int) -> np.ndarray:
        """The first invalid proposal of a chunk: take its steps again, up to that one."""
        span = self.span._replace(steps=jnp.asarray(row))
        rows = len(self.records.numbers)
        carry, _ = loop.advance((self.program, span), before, self._records(rows))
        x, invalid = loop.proposals(self.program, carry, span.first + row)
        return np.asarray(x[int(np.argmax(invalid))])

    def fold(self) -> None:
        """Fold in what the last chunk recorded, once."""
        if self.seen is None:
            return
        accept_prob, distance, statistic, _ = np.moveaxis(np.asarray(self.seen.numbers), 1, 0)
        self.accept_prob.add(accept_prob)
        self.distance.add(distance)
        if not self.warm:
            self.statistic.add(statistic)
            self.trace.add(statistic)
            if self.seen.states is not None:
                self.kept.append(np.asarray(self.seen.states))
        self.seen = None

    def status(self) -> dict[str, float]:
        """What the progress bar shows: the scale, and the last chunk's means."""
        assert self.seen is not None
        accept_prob, distance = np.asarray(self.seen.numbers[:, :2]).mean(axis=(0, 2))
        scale = float(np.mean(self.carry.tuner.scale))
        return {"R": scale, "acceptance": float(accept_prob), "EJD": float(distance)}

    def result(self, keep, interrupted: bool) -> Run:
        """Everything the user gets."""
        began = time.perf_counter()
        self.fold()
        self.run_seconds += time.perf_counter() - began
        if self.steps and self.invalid == self.steps * self.chains:
            validate.all_invalid(self.invalid, self.offender)
        draws = None
        if self.thin and self.done:
            draws = np.moveaxis(np.concatenate(self.kept), 0, 1)
        elif keep == "last" and self.done:
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
            offender=self.offender,
            evaluations=(self.steps + 1) * self.chains,
            compile_seconds=self.compile_seconds,
            run_seconds=self.run_seconds,
            interrupted=interrupted,
        )
