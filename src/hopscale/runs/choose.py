"""Which kernel for which target, where nobody said.

The rules are those of measurements, `benchmarks/samplers.py`, on CPUs and on a GPU: see
docs/samplers.md.
"""

from typing import Any, NamedTuple

import jax

from hopscale.kernels import LBP, Gibbs
from hopscale.kernels.kernel import Kernel
from hopscale.native import cpu
from hopscale.target import Target
from hopscale.targets.clamp import as_rbm
from hopscale.targets.sweep import PairSweep

# Drawn one after the other, which a kernel on a CPU does not mind and a GPU does: on an H200 sweeps
# of 18 colours have 4 times the effective draws of LBP, and those of 64 next to none.
COLOURS = 32


class Chosen(NamedTuple):
    """A kernel, and why; the reason is empty where the user chose."""

    kernel: Kernel
    reason: str


def choose(target: Target, scale: Any = None) -> Chosen:
    """Sweeps where a target knows its pairs of sites, blocks where there are, else LBP.

    Args:
        target: what to sample.
        scale: a tuner that was asked for; sweeps have no scale.
    """
    suited = target.suited()
    if suited is not None:
        return Chosen(*suited)
    if scale is not None:
        return Chosen(LBP(), "a scale was given, and sweeps have none")
    if as_rbm(target) is not None:
        return Chosen(Gibbs(), "all hidden units can be drawn at once, then all visible ones")
    sweep = target.sweep()
    if not isinstance(sweep, PairSweep):
        return Chosen(LBP(), "each step prices every change of one site, and makes the likeliest")
    if not sweep.graph.num_pairs:
        return Chosen(Gibbs(), "no site depends on another, so a sweep draws all of them afresh")
    graph, colours = sweep.graph, sweep.blocks.shape[0]
    each = f"{2 * graph.num_pairs / graph.num_sites:.3g} neighbours each"
    if colours > COLOURS and not _swept_by_kernels():
        return Chosen(LBP(), f"sites have {each}, so a sweep would take {colours:,} turns")
    return Chosen(Gibbs(), f"a sweep draws all sites for about one evaluation ({each})")


def _swept_by_kernels() -> bool:
    """Whether sweeps run in C++: turns cost nothing there."""
    return jax.default_backend() == "cpu" and cpu.ready()[0]


def choose_kernel(target: Any, kernel: Any, scale: Any = None) -> Chosen:
    """The kernel that was given, or else the one that suits the target."""
    if kernel is not None:
        return Chosen(kernel, "")
    return choose(target, scale) if isinstance(target, Target) else Chosen(LBP(), "")
