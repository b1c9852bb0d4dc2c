"""Sampling: warm up, freeze the scale, draw; one run, or many of one shape side by side."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hopscale import arguments, host, sampling, validate
from hopscale import record as record_module
from hopscale.host import Interrupted
from hopscale.kernels import LBP
from hopscale.kernels.kernel import Kernel
from hopscale.loop import Program
from hopscale.record import STEP_NUMBERS, Hamming, Moments, Recorder, Statistics, Trace
from hopscale.results import MAIN, ConvergenceWarning, Run, Statistic, history_by_name
from hopscale.sampling import Sampling
from hopscale.target import State, Target
from hopscale.tune import Tuner, fitted

DIRECTIONS = 3  # random states, the distances to which tell whether chains agree

Record = Callable | Recorder | Mapping[str, Callable | Recorder]


def sample(
    target: Target,
    kernel: Kernel | None = None,
    *,
    chains: int = 100,
    warmup: int = 2_000,
    draws: int = 2_000,
    key: int | Key[Array, ""] = 0,
    scale: Tuner | None = None,
    record: Record | None = None,
    init: Any = None,
    keep: str | int | None = None,
    checkpoint: Any = None,
    progress: bool = True,
    chunk: int | None = None,
    sampler: Kernel | None = None,
) -> Run:
    """Draw from a target: tune the scale during warm-up, freeze it, and draw.

    Args:
        target: what to sample.
        kernel: how; `LBP()` unless said.
        chains: how many independent chains run side by side.
        warmup: steps that tune the scale and are not kept.
        draws: steps whose statistics are kept.
        key: a seed or a JAX key. The same key gives the same run, bit for bit.
        scale: `Adaptive()` unless said, or `Fixed(R)`.
        record: what else to remember: a function of (state, info) that gives a number or several,
            a recorder such as `hs.record.SiteMeans()`, or several of these by name.
        init: where chains start: one state for all, or one for each chain. None: random states,
            each value equally likely.
        keep: which states to return in `run.draws`: "all", "last", or n for every n-th.
            None keeps statistics only, and memory does not grow with the run.
        checkpoint: a file that is written every two minutes. If it is there, the run goes on from
            it, bit for bit as if it had not been stopped; a file of another run is refused.
        progress: show a progress bar where there is a terminal.
        chunk: steps between two looks at the run. None: about a quarter of a second.
        sampler: another name for `kernel`.

    Returns:
        A `Run`. Its `warnings`, also issued as a `ConvergenceWarning`, say why its draws should
        not be trusted, if so.

    Raises:
        ValueError, TypeError: for arguments that cannot work, before anything is compiled.
        MemoryError: if what is to be kept cannot fit.
        InvalidDensityError: if the log-density was NaN or +inf at every proposal.
        Interrupted: after Ctrl-C or SIGTERM, a KeyboardInterrupt with the partial run as `.run`.
    """
    if kernel is not None and sampler is not None:
        raise TypeError("kernel and sampler are two names for one argument; give one of them.")
    kernel = kernel or sampler or LBP()
    plan = Plan.of(
        [target], kernel, [key], [scale], chains, warmup, draws, [record], init, keep, chunk
    )
    return run_plan(plan, None, progress, chunk, checkpoint)


def sample_many(
    targets: Target | Sequence[Target],
    kernel: Kernel | None = None,
    *,
    keys: Sequence[Any],
    scale: Tuner | Sequence[Tuner | None] | None = None,
    chains: int = 100,
    warmup: int = 2_000,
    draws: int = 2_000,
    record: Record | Sequence[Record | None] | None = None,
    chunk: int | None = None,
    progress: bool = True,
    tell: Callable[[int], bool] | None = None,
) -> list[Run]:
    """Many runs of one shape side by side, as one compiled program.

    Targets, keys and tuners (rates, scales) may differ from run to run; shapes, the kernel and the
    kinds of target and tuner may not. Each run is the one that `sample` would give, up to rounding.

    Args:
        targets: one for each run, or one for all.
        kernel: as for `sample`, for all.
        keys: one for each run: how many there are is how many runs there are.
        scale: a tuner for each run, or one for all.
        chains, warmup, draws, chunk, progress: as for `sample`.
        record: as for `sample`, for all runs or, functions only, one for each.
        tell: called after each chunk of steps with their number; False stops all runs.

    Returns:
        A `Run` for each key. No warnings are issued; each run has its own in `run.warnings`.
    """
    runs = len(keys)
    targets = [targets] * runs if isinstance(targets, Target) else list(targets)
    scales = list(scale) if isinstance(scale, Sequence) else [scale] * runs
    if not runs or len(targets) != runs or len(scales) != runs:
        raise ValueError(
            f"one target and one scale are needed for each of {runs} keys; got {len(targets)} "
            f"targets and {len(scales)} scales."
        )
    plan = Plan.of(targets, kernel or LBP(), keys, scales, chains, warmup, draws, record)
    job = plan.begin()
    outcome = host.drive(job, chunk=chunk, progress=progress, tell=tell)
    results = make_runs(job, None, interrupted=outcome == "interrupted")
    if outcome == "interrupted":
        raise Interrupted("stopped by Ctrl-C; .partial holds the runs so far", results)
    return results


def extend(
    run: Run,
    draws: int,
    *,
    progress: bool = True,
    chunk: int | None = None,
    checkpoint: Any = None,
) -> Run:
    """`Run.extend`."""
    validate.count("draws", draws, least=1)
    if run.resumable is None:
        raise ValueError("this run cannot go on: it is one of several that ran side by side.")
    plan, counters, arrays = run.resumable
    if plan.targets[0] is None:
        raise ValueError(
            "this run was loaded without its target, which its file could not hold: "
            "hs.load(path, target=...)."
        )
    plan = dataclasses.replace(plan, draws=run.num_draws + draws)
    arguments.check(plan.targets[0], plan.kernel, None, plan.chains, plan.warmup, plan.draws, chunk)
    plan.check_memory()
    return run_plan(plan, (counters, arrays), progress, chunk, checkpoint)


# -- What runs are made of. ----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Plan:
    """All settings of one run, or of many side by side, checked."""

    targets: tuple[Target, ...]
    kernel: Kernel
    keys: tuple[Key[Array, ""], ...]
    tuners: tuple[Tuner, ...]
    functions: tuple[Mapping[str, Callable], ...]
    recorders: Mapping[str, Recorder]
    chains: int
    warmup: int
    draws: int
    init: Any
    keep: str | int | None
    defaults: bool = True  # whether the statistics that are always there are

    @staticmethod
    def of(
        targets: Sequence[Target],
        kernel: Kernel,
        keys: Sequence[Any],
        scales: Sequence[Tuner | None],
        chains: int,
        warmup: int,
        draws: int,
        record: Any = None,
        init: Any = None,
        keep: str | int | None = None,
        chunk: int | None = None,
        defaults: bool = True,
    ) -> "Plan":
        for target, scale in zip(targets, scales, strict=True):
            arguments.check(target, kernel, scale, chains, warmup, draws, chunk)
        arguments.thinning(keep, draws)
        each = record if isinstance(record, list | tuple) else [record] * len(targets)
        if len(each) != len(targets):
            raise ValueError(f"record must hold one entry for each of {len(targets)} runs.")
        split = [split_record(one) for one in each]
        if isinstance(record, list | tuple) and len(each) > 1 and any(own for _, own in split):
            raise ValueError(
                "recorders are the same for all runs side by side: give one record for all; only "
                "functions may differ from run to run."
            )
        plan = Plan(
            targets=tuple(targets),
            kernel=kernel,
            keys=tuple(map(validate.as_key, keys)),
            tuners=tuple(
                fitted(scale, kernel.scale_range(target))
                for target, scale in zip(targets, scales, strict=True)
            ),
            functions=tuple(functions for functions, _ in split),
            recorders=split[0][1],
            chains=chains,
            warmup=warmup,
            draws=draws,
            init=init,
            keep=keep,
            defaults=defaults,
        )
        plan.check_memory()
        return plan

    @property
    def thin(self) -> int | None:
        return arguments.thinning(self.keep, self.draws)

    def check_memory(self) -> None:
        """Raise if what the run needs is more than there is."""
        target, runs = self.targets[0], len(self.targets)
        states = runs * self.chains * target.num_sites
        # A state, its log-ratios at x and at y, and about as much again while a step is computed.
        values = max(target.num_states, 1) if target.num_states > 2 else 1
        needed = states * (4 * target.state_dtype.itemsize + 6 * 4 * values)
        kept = states * (self.draws // self.thin) * target.state_dtype.itemsize if self.thin else 0
        available = validate.memory()
        if needed + kept > available:
            advice = (
                "Keep fewer of them (keep=n for every n-th), or record statistics instead."
                if kept > needed
                else "Use fewer chains."
            )
            raise MemoryError(
                f"the run would need about {_bytes(needed)} for its chains and {_bytes(kept)} for "
                f"kept states; {_bytes(available)} are there. {advice}"
            )

    def begin(self, compiled: bool = True) -> Sampling:
        """The run before its first step, compiled unless that is to wait for the first one."""
        programs, states, statistics = [], [], []
        for target, key, tuner, functions in zip(
            self.targets, self.keys, self.tuners, self.functions, strict=True
        ):
            key_init, key_origin, key_run = jax.random.split(key, 3)
            programs.append(Program(key=key_run, target=target, kernel=self.kernel, tuner=tuner))
            states.append(arguments.initial_states(target, self.chains, self.init, key_init))
            default = _default_functions(target, key_origin) if self.defaults else {}
            watched = {**default, **functions}
            statistics.append(_statistics(watched, programs[-1]))
        return Sampling(
            programs,
            states,
            statistics,
            self.recorders,
            self.warmup,
            self.draws,
            self.thin,
            compiled,
        )


def _default_functions(target: Target, key: Key[Array, ""]) -> dict[str, Callable]:
    """What is always watched: the log-probability, and distances to random states."""
    found: dict[str, Callable] = {"log_prob": record_module.log_prob}
    for i in range(DIRECTIONS):
        name = MAIN if i == 0 else f"{MAIN}_{i + 1}"
        found[name] = Hamming(_uniform(target, key if i == 0 else jax.random.fold_in(key, i)))
    return found


def random_state(target: Target, key: Any) -> State:
    """The state to which the statistic "hamming" of a run with this key is the distance."""
    return _uniform(target, jax.random.split(validate.as_key(key), 3)[1])


def _uniform(target: Target, key: Key[Array, ""]) -> State:
    drawn = jax.random.randint(key, target.shape, 0, target.num_states)
    return drawn.astype(target.state_dtype)


def split_record(record: Any) -> tuple[dict[str, Callable], dict[str, Recorder]]:
    """What the user asked to remember, by name."""
    if record is None:
        return {}, {}
    if isinstance(record, list | tuple):
        raise TypeError(
            f"record takes several things by name, as in {{'ones': ones}}; got {record!r}."
        )
    if not isinstance(record, Mapping):
        record = {getattr(record, "__name__", type(record).__name__): record}
    for name in record:
        if not isinstance(name, str) or name == "log_prob" or name.startswith(MAIN):
            raise ValueError(
                f"record names things by strings other than 'log_prob' and '{MAIN}...', which are "
                f"always recorded; got {name!r}."
            )
    recorders = {name: value for name, value in record.items() if isinstance(value, Recorder)}
    return {n: v for n, v in record.items() if n not in recorders}, recorders


def _statistics(functions: Mapping[str, Callable], program: Program) -> Statistics:
    """The functions, and the names of the numbers they give for this program."""

    def one(key):
        x = jnp.zeros(program.target.shape, program.target.state_dtype)
        state = program.kernel.init(program.target, x)
        scale = jnp.ones((), program.target.dtype)
        return program.kernel.step(key, program.target, state, scale)

    state, info = eqx.filter_eval_shape(one, program.key)
    return Statistics(functions, state, info)


# -- Running. ------------------------------------------------------------------------------------


def run_plan(plan: Plan, resumed: Any, progress: bool, chunk: int | None, checkpoint: Any) -> Run:
    """Run a plan, from the beginning or from where it was left, to its end."""
    save = None
    if checkpoint is not None:
        from hopscale import saving

        resumed, save = saving.enter(checkpoint, plan, resumed)
    job = plan.begin()
    if resumed is not None:
        job.restore(*resumed)
    outcome = host.drive(
        job,
        chunk=chunk,
        progress=progress,
        save=None if save is None else lambda: save(job),
    )
    (run,) = make_runs(job, plan, interrupted=outcome == "interrupted")
    steps = run.warmup + run.num_draws
    if steps and run.invalid == steps * run.chains:
        arguments.all_invalid(run.invalid, run.offender)
    if outcome == "interrupted":
        where = "" if checkpoint is None else f"; {checkpoint} has it, the same call goes on"
        raise Interrupted(
            f"stopped after {run.num_draws:,} of {plan.draws:,} draws; the partial run is in .run "
            f"of this error{where}",
            run,
        )
    if run.warnings:
        warnings.warn("\n".join(run.warnings), ConvergenceWarning, stacklevel=3)
    return run


def make_runs(job: Sampling, plan: Plan | None, interrupted: bool = False) -> list[Run]:
    """What the user gets of each run; with its plan, a run can go on."""
    began = time.perf_counter()
    moments, trace, history = job.flush()
    if job.phase == "draws":
        invalid = job.invalid_in_warmup + sampling.invalid_count(moments)
        warmup_history = job.warmup_history or Trace((len(job.programs), len(STEP_NUMBERS)), 2)
    else:  # stopped before the first draw
        invalid, warmup_history = sampling.invalid_count(moments), history
        moments, trace = Moments(moments.mean.shape), Trace(trace.values.shape[1:], 2)
        history = Trace(history.values.shape[1:], 2)
    job.run_seconds += time.perf_counter() - began
    parts = (moments, trace, warmup_history, history)
    return [_make_run(job, i, plan, parts, invalid, interrupted) for i in range(len(job.programs))]


def _make_run(job: Sampling, i: int, plan, parts, invalid: int, interrupted: bool) -> Run:
    moments, trace, warmup_history, history = parts
    mean, variance = moments.mean[i], moments.variance[i]
    first = len(STEP_NUMBERS)
    statistics = {
        name: Statistic(
            name=name,
            trace=np.ascontiguousarray(trace.values[:, i, k].T),
            block=trace.block,
            mean_by_chain=mean[first + k],
            variance_by_chain=variance[first + k],
        )
        for k, name in enumerate(job.names)
    }
    num_draws = job.done if job.phase == "draws" else 0
    pick = (lambda a: a[i]) if job.many else (lambda a: a)
    scale = np.asarray(pick(job.chains.tuner.scale), np.float64)
    last = np.asarray(pick(job.chains.states.x))
    draws = None
    if job.kept_states is not None and job.thin:
        draws = job.kept_states[i][:, : num_draws // job.thin]
    elif plan is not None and plan.keep == "last" and num_draws:
        draws = last[:, None]
    memories = jax.tree.map(pick, job.records.memories)
    recorded = {
        name: recorder.result(memories[name], num_draws)
        for name, recorder in job.observed.recorders.items()
    }
    return Run(
        target=job.programs[i].target,
        kernel=job.programs[i].kernel,
        tuner=job.programs[i].tuner,
        chains=job.chains_each,
        warmup=job.step - num_draws,
        num_draws=num_draws,
        scale=None if job.scales is None else scale if scale.ndim else float(scale),
        accept_prob_by_chain=mean[STEP_NUMBERS.index("accept_prob")],
        distance_by_chain=mean[STEP_NUMBERS.index("distance")],
        statistics=statistics,
        recorded=recorded,
        warmup_history=history_by_name(warmup_history.values[:, i]),
        history=history_by_name(history.values[:, i]),
        draws=draws,
        last=last,
        invalid=invalid,
        offender=job.offender,
        evaluations=(job.step + 1) * job.chains_each,
        compile_seconds=job.compile_seconds,
        run_seconds=job.run_seconds / len(job.programs),
        interrupted=interrupted,
        resumable=None if plan is None else (plan, job.counters(), job.arrays()),
    )


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
