"""What a user passes to learning and annealing: what was needed, what came, what to do."""

from typing import Any

from hopscale.kernels import LBP
from hopscale.kernels.kernel import Kernel
from hopscale.target import Target
from hopscale.tune import Adaptive, NoScale, Tuner, fitted
from hopscale.validate import instance, memory


def kernel_and_tuner(kernel: Any, sampler: Any, scale: Any, target: Target) -> tuple[Kernel, Tuner]:
    """The kernel, `LBP("sqrt")` unless given, and a tuner that fits it."""
    if kernel is not None and sampler is not None:
        raise TypeError("kernel and sampler are two names for one argument; give one of them.")
    kernel = sampler if kernel is None else kernel
    kernel = LBP("sqrt") if kernel is None else kernel
    instance("kernel", kernel, Kernel, 'hs.LBP("sqrt")')
    kernel.check(target)
    scales = kernel.scale_range(target)
    if scale is None:
        scale = NoScale() if scales is None else Adaptive()
    instance("scale", scale, Tuner, "hs.Adaptive() or hs.Fixed(R)")
    fitted(scale, scales)  # raises where it does not fit
    return kernel, scale


def check_memory(what: str, needed: float, advice: str) -> None:
    """Raise if more bytes are needed than there are."""
    available = memory()
    if needed > available:
        raise MemoryError(
            f"{what} would need about {needed / 1e9:,.3g} GB; {available / 1e9:,.3g} GB are there. "
            f"{advice}"
        )
