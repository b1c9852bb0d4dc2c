"""The number of levels of parallel tempering, found by a short run if none was given."""

import dataclasses
from typing import Any

import numpy as np

from hopscale.kernels import Kernel, Tempering
from hopscale.kernels.tempering import DEFAULT_LEVELS, path_to
from hopscale.results.tempering import levels_for
from hopscale.runs import host
from hopscale.target import Target
from hopscale.tune.ladder import FIRST_ROUND
from hopscale.validate import instance

PILOT = FIRST_ROUND * 15  # steps of the short run: four rounds of tuning
NEARLY = 0.6  # share of the levels tried, from which compiling for fewer is not worthwhile


def subject(target: Any, temper: Any) -> Any:
    """What the kernel has to move: the target or, with tempering, the path that leads to it."""
    return path_to(target) if temper is not None and isinstance(target, Target) else target


def around(temper: Any, kernel: Any) -> Tempering:
    """Tempering around a kernel."""
    instance("temper", temper, Tempering, "hs.Tempering()")
    instance("kernel", kernel, Kernel, "hs.LBP()")
    if isinstance(kernel, Tempering):
        raise TypeError("the kernel is tempered already; give temper= or hs.Tempering(kernel=).")
    return dataclasses.replace(temper, kernel=kernel)


def with_levels(plan: Any, progress: bool) -> Any:
    """The plan with its number of levels, found by a short run if it was left open."""
    kernel = plan.kernel
    if not isinstance(kernel, Tempering) or kernel.levels is not None:
        return plan
    levels, steps = DEFAULT_LEVELS, min(PILOT, plan.warmup // 2)
    while steps >= FIRST_ROUND:
        tried = levels
        levels = levels_for(_rejections(_with(plan, tried), steps, progress))
        if NEARLY * tried <= levels <= tried:
            levels = tried  # its program is already compiled
        if levels <= 2 * tried:  # neighbours swapped often enough for an estimate
            break
    return _with(plan, levels)


def _with(plan: Any, levels: int) -> Any:
    kernel = dataclasses.replace(plan.kernel, levels=levels)
    tuner = kernel.tuner_for(plan.targets[0], plan.tuners[0].inner)
    plan = dataclasses.replace(plan, kernel=kernel, tuners=(tuner,))
    plan.check_memory()
    return plan


def _rejections(plan: Any, steps: int, progress: bool) -> np.ndarray:
    """How often neighbouring levels reject swaps after some steps of warm-up."""
    job = dataclasses.replace(plan, warmup=steps).begin()
    outcome = host.drive(job, chunk=steps, progress=progress, tell=lambda _: job.at[1] < steps)
    if outcome == "interrupted":
        raise host.Interrupted("stopped before warm-up, while the number of levels was sought")
    return np.asarray(job.chains.tuner.rejections)
