"""Tuners: how a kernel's scale moves during warm-up.

`Tuned` is the default, `Adaptive` the paper's rule, `Fixed` a scale that stays.
"""

import jax
import jax.numpy as jnp

from hopscale.kernels.kernel import ScaleRange
from hopscale.tune.adaptive import Adaptive
from hopscale.tune.tuned import Tuned
from hopscale.tune.tuner import Fixed, NoScale, Tuner, TunerState

__all__ = ["Adaptive", "Fixed", "NoScale", "Tuned", "Tuner", "TunerState", "default", "fitted"]


def default(scales: ScaleRange | None, moving: bool = False) -> Tuner:
    """The tuner of a kernel with these scales, if none is given.

    It finds the scale of the largest jump. On a target that moves from step to step it holds the
    kernel's best rate, which takes less time to follow.
    """
    if scales is None:
        return NoScale()
    return Tuned(scales.rate if moving else None)


def fitted(tuner: Tuner | None, scales: ScaleRange | None, moving: bool = False) -> Tuner:
    """The tuner for a kernel with these scales: the default if none is given.

    Its numbers become arrays: another rate or scale is then another argument of a compiled
    program, not another program.
    """
    tuner = default(scales, moving) if tuner is None else tuner
    if scales is None:
        if not isinstance(tuner, NoScale):
            raise ValueError(
                f"this kernel has no scale to tune or fix; leave scale out (got {tuner!r})."
            )
        return tuner
    tuner.check(scales)
    return jax.tree.map(jnp.asarray, tuner.with_defaults(scales))
