"""Sampling: warm up, freeze the scale, draw; one run, or many of one shape side by side."""

import dataclasses
import inspect
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from hopscale import validate
from hopscale.deprecated import renamed
from hopscale.devices import default
from hopscale.engine.pages import STEP_NUMBERS, Moments, Trace
from hopscale.kernels import Kernel, Tempering
from hopscale.results.run import ConvergenceWarning, Run, history_by_name
from hopscale.results.statistic import Statistic
from hopscale.runs import arguments, host, levels, sampling
from hopscale.runs.choose import choose_kernel
from hopscale.runs.host import Interrupted
from hopscale.runs.plan import Plan, Record
from hopscale.runs.sampling import Sampling
from hopscale.target import Target
from hopscale.targets.neighbours import undefined_neighbours
from hopscale.tune import Tuner


@renamed(statistic="record")
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
    temper: Tempering | None = None,
    init: Any = None,
    keep: str | int | None = None,
    checkpoint: Any = None,
    devices: Any = None,
    progress: bool = True,
    chunk: int | None = None,
    sampler: Kernel | None = None,
) -> Run:
    """Draw from a target: tune the scale during warm-up, freeze it, and draw.

    Args:
        target: what to sample.
        kernel: how to move. None: what suits the target, which is sweeps if each site depends on
            few others, else `LBP()`; `run.reason` says why.
        chains: the number of independent chains, run side by side.
        warmup: steps that tune the scale and are not kept.
        draws: steps whose statistics are kept.
        key: a seed or a JAX key. The same key gives the same run, bit for bit.
        scale: the tuner. None: `Tuned()`, which seeks the scale with the largest jump distance.
            Others are `Tuned(rate)`, the paper's rule `Adaptive()`, and `Fixed(R)`.
        record: what else to record: a function of (state, info) that gives one or several numbers,
            a recorder such as `hs.record.SiteMeans()`, or several of these by name.
        temper: `hs.Tempering()` for parallel tempering around the kernel, if chains would not
            cross between modes. Draws and records are those of the coldest level, the target;
            `run.tempering` has the rest, including log Z.
        init: where chains start: one state for all, or one for each chain. None: random states,
            each value equally likely; those of zero density are drawn again, up to a hundred times.
        keep: which states to return in `run.draws`: "all", "last", or n for every n-th.
            None keeps statistics only, and memory does not grow with the run.
        checkpoint: a file, written every two minutes. If it exists, the run continues from it, bit
            for bit as if it had not been stopped; a file of another run is refused.
        devices: the JAX device to run on, such as `jax.devices("cpu")[0]`, or a list of devices of
            one platform, over which chains are divided evenly. None: JAX's default. The run is the
            same on any number of devices, bit for bit, except for large matrix products in the
            density and for `VariableSelection`: rounding depends on how many chains a device has.
        progress: show a progress bar in a terminal or a notebook.
        chunk: steps before the host looks at the run again. None: about half a second's worth.
        sampler: another name for `kernel`.

    Returns:
        A `Run`. If its draws should not be trusted, its `warnings`, also issued as a
        `ConvergenceWarning`, say why.

    Raises:
        ValueError, TypeError: for arguments that cannot work, before anything is compiled.
        MemoryError: if what is to be kept cannot fit.
        InvalidDensityError: if the log-density was NaN or +inf at every proposal.
        Interrupted: after Ctrl-C or SIGTERM, a KeyboardInterrupt with the partial run as `.run`.
    """
    chosen, reason = choose_kernel(
        levels.subject(target, temper), arguments.chosen(kernel, sampler), scale
    )
    if temper is not None:
        chosen = levels.around(temper, chosen)
    plan = Plan.of(
        [target],
        chosen,
        [key],
        [scale],
        chains,
        warmup,
        draws,
        [record],
        init,
        keep,
        chunk,
        devices=devices,
    )
    with default(plan.devices):
        plan = levels.with_levels(dataclasses.replace(plan, reason=reason), progress)
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
        keys: one for each run; their number is the number of runs.
        scale: a tuner for each run, or one for all.
        chains, warmup, draws, chunk, progress: as for `sample`.
        record: as for `sample`, one for all runs; or one for each run, of functions only.
        tell: called after each chunk of steps with their number; False stops all runs.

    Returns:
        A `Run` for each key. No warnings are issued; each run has its own in `run.warnings`.
    """
    if not isinstance(keys, Sequence | np.ndarray | jax.Array) or isinstance(keys, str):
        raise TypeError(f"keys must be a list of seeds or keys, one for each run; got {keys!r}.")
    runs = len(keys)
    targets = [targets] * runs if isinstance(targets, Target) else list(targets)
    scales = list(scale) if isinstance(scale, Sequence) else [scale] * runs
    if not runs or len(targets) != runs or len(scales) != runs:
        raise ValueError(
            f"one target and one scale are needed for each of {runs} keys; got {len(targets)} "
            f"targets and {len(scales)} scales."
        )
    kernel, _ = choose_kernel(targets[0], kernel, scales[0])
    plan = Plan.of(targets, kernel, keys, scales, chains, warmup, draws, record, chunk=chunk)
    job = plan.begin()
    outcome = host.drive(job, chunk=chunk, progress=progress, tell=tell)
    results = make_runs(job, None, interrupted=outcome == "interrupted")
    if outcome == "interrupted":
        raise Interrupted("stopped", results, ".partial holds the runs so far")
    return results


def extend(
    run: Run,
    draws: int,
    *,
    progress: bool = True,
    chunk: int | None = None,
    checkpoint: Any = None,
    devices: Any = None,
) -> Run:
    """Implements `Run.extend`."""
    validate.count("draws", draws, minimum=1)
    if run.resumable is None:
        raise ValueError("this run cannot go on: it is one of several that ran side by side.")
    plan, counters, arrays = run.resumable
    if plan.targets[0] is None:
        raise ValueError(
            "this run was loaded without its target, which its file could not hold: "
            "hs.load(path, target=...)."
        )
    where = plan.devices if devices is None else arguments.devices(devices, plan.chains)
    plan = dataclasses.replace(plan, draws=run.num_draws + draws, devices=where)
    arguments.check(plan.targets[0], plan.kernel, None, plan.chains, plan.warmup, plan.draws, chunk)
    plan.check_memory()
    return run_plan(plan, (counters, arrays), progress, chunk, checkpoint)


def run_plan(plan: Plan, resumed: Any, progress: bool, chunk: int | None, checkpoint: Any) -> Run:
    """Run a plan on its devices, from the beginning or from where it stopped, to its end."""
    with default(plan.devices):
        return _run_plan(plan, resumed, progress, chunk, checkpoint)


def _run_plan(plan: Plan, resumed: Any, progress: bool, chunk: int | None, checkpoint: Any) -> Run:
    save = None
    if checkpoint is not None:
        from hopscale.runs import saving

        resumed, save = saving.enter(checkpoint, plan, resumed)
    if plan.cautions and resumed is None:
        _tell(plan.cautions)
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
    if steps and run.invalid == steps * run.chains * plan.kernel.replicas:
        arguments.all_invalid(run.invalid, run.offender)
    if outcome == "interrupted":
        where = "" if checkpoint is None else f"; {checkpoint} has it, the same call goes on"
        raise Interrupted(
            f"stopped after {run.num_draws:,} of {plan.draws:,} draws",
            run,
            f"the partial run is in .run of this error{where}",
        )
    found = [sentence for sentence in run.warnings if sentence not in plan.cautions]
    if found:
        _tell(found)
    return run


def _tell(sentences: Sequence[str]) -> None:
    """Issue one warning that points at the call from outside the package."""
    package, frame, level = f"{Path(__file__).parents[1]}{os.sep}", inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn("\n".join(sentences), ConvergenceWarning, stacklevel=level)


def make_runs(job: Sampling, plan: Plan | None, interrupted: bool = False) -> list[Run]:
    """The `Run` of each of the runs; with its plan, a run can be continued."""
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
    parts = (moments, trace, warmup_history, history, job.settled.scale)
    return [_make_run(job, i, plan, parts, invalid, interrupted) for i in range(len(job.programs))]


def _make_run(job: Sampling, i: int, plan, parts, invalid: int, interrupted: bool) -> Run:
    moments, trace, warmup_history, history, scales = parts
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
    scale = np.asarray(pick(scales), np.float64)
    last = np.asarray(pick(job.chains.states.x))
    draws = None
    if job.kept is not None:
        draws = job.kept.of(num_draws)[i]
    elif plan is not None and plan.keep == "last" and num_draws:
        draws = last[:, None]
    memories = jax.tree.map(pick, job.records.memories)
    recorded = {
        name: recorder.result(memories[name], num_draws)
        for name, recorder in job.observed.recorders.items()
    }
    kernel = job.programs[i].kernel
    return Run(
        target=job.programs[i].target,
        kernel=kernel,
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
        undefined=undefined_neighbours(jax.tree.map(pick, job.chains.states.evaluation.cache)),
        evaluations=job.chains_each * (kernel.replicas + job.step * kernel.evaluations(job.target)),
        compile_seconds=job.compile_seconds,
        run_seconds=job.run_seconds / len(job.programs),
        interrupted=interrupted,
        resumable=None if plan is None else (plan, job.counters(), job.arrays()),
        cautions=() if plan is None else plan.cautions,
        reason="" if plan is None else plan.reason,
        every=job.thin or max(num_draws, 1),
    )
