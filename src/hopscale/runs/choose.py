"""The kernel that suits a target, if none was given.

The rules follow measurements on CPUs and on a GPU (`benchmarks/samplers.py`): see docs/samplers.md.
"""

from typing import Any, NamedTuple

import jax

from hopscale.kernels import LBP, Gibbs
from hopscale.kernels.kernel import Kernel
from hopscale.native import cpu
from hopscale.target import Target
from hopscale.targets.clamp import as_rbm
from hopscale.targets.sweep import PairSweep

# The most colours for sweeps without C++ kernels. Colours are drawn one after another, which costs
# the kernel on a CPU nothing but slows a GPU: on an H200, sweeps of 18 colours have 4 times the
# effective draws of LBP, and sweeps of 64 colours almost none.
COLOURS = 32


class Chosen(NamedTuple):
    """A kernel, and why it was chosen; the reason is empty if the user chose it."""

    kernel: Kernel
    reason: str


def choose(target: Target, scale: Any = None) -> Chosen:
    """Sweeps for a target with known pairs of sites, blocks for an RBM, else LBP.

    Args:
        target: what to sample.
        scale: the tuner that was asked for, if any; sweeps have no scale.
    """
    suited = target.suited()
    if suited is not None:
        return Chosen(*suited)
    if scale is not None:
        return Chosen(LBP(), "a scale or a rate was given, and sweeps have none")
    if as_rbm(target) is not None:
        return Chosen(Gibbs(), "all hidden units can be drawn at once, then all visible ones")
    sweep = target.sweep()
    if not isinstance(sweep, PairSweep):
        return Chosen(LBP(), "each step weighs all changes of one site and makes several")
    if not sweep.graph.num_pairs:
        return Chosen(Gibbs(), "no site depends on another, so a sweep draws all of them afresh")
    graph, colours = sweep.graph, sweep.blocks.shape[0]
    each = f"{2 * graph.num_pairs / graph.num_sites:.3g} neighbours each"
    if colours > COLOURS and not _swept_by_kernels():
        return Chosen(LBP(), f"sites have {each}, so a sweep would take {colours:,} turns")
    return Chosen(Gibbs(), f"a sweep draws all sites for about one evaluation ({each})")


def _swept_by_kernels() -> bool:
    """Whether sweeps run in C++, where more colours cost nothing."""
    return jax.default_backend() == "cpu" and cpu.ready()[0]


def choose_kernel(target: Any, kernel: Any, scale: Any = None) -> Chosen:
    """The kernel that was given, or else the one that suits the target."""
    if kernel is not None:
        return Chosen(kernel, "")
    return choose(target, scale) if isinstance(target, Target) else Chosen(LBP(), "")
