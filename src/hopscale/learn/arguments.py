"""Checks of the arguments that users pass to learning and annealing."""

from typing import Any

from hopscale.kernels import LBP
from hopscale.kernels.kernel import Kernel
from hopscale.runs.arguments import chosen
from hopscale.target import Target
from hopscale.tune import Tuner, default, fitted
from hopscale.validate import instance


def kernel_and_tuner(
    kernel: Any, sampler: Any, scale: Any, target: Target, moving: bool = False
) -> tuple[Kernel, Tuner]:
    """The kernel, `LBP("sqrt")` unless given, and a tuner that fits it."""
    kernel = chosen(kernel, sampler)
    kernel = LBP("sqrt") if kernel is None else kernel
    instance("kernel", kernel, Kernel, 'hs.LBP("sqrt")')
    kernel.check(target)
    scales = kernel.scale_range(target)
    scale = default(scales, moving) if scale is None else scale
    instance("scale", scale, Tuner, "hs.Tuned() or hs.Fixed(R)")
    fitted(scale, scales)  # raises if it does not fit
    return kernel, scale
