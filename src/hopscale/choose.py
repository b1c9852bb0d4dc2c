"""Which kernel for which target, where nobody said."""

from typing import Any, NamedTuple

from hopscale.kernels import LBP, Gibbs
from hopscale.kernels.kernel import Kernel
from hopscale.sweep import PairSweep
from hopscale.target import Target
from hopscale.targets.rbm import RBM

DENSE = 0.25  # of all other sites: with more neighbours on average, a site depends on most of them
SMALL = 64  # sites, of which sweeps are quick in any case


class Chosen(NamedTuple):
    """A kernel, and why; the reason is empty where the user chose."""

    kernel: Kernel
    reason: str


def choose(target: Target, scale: Any = None) -> Chosen:
    """Sweeps where a site depends on few others, blocks where there are, else LBP.

    Args:
        target: what to sample.
        scale: a tuner that was asked for; sweeps have no scale.
    """
    if scale is not None:
        return Chosen(LBP(), "a scale was given, and sweeps have none")
    if isinstance(target, RBM):
        return Chosen(Gibbs(), "all hidden units can be drawn at once, then all visible ones")
    sweep = target.sweep()
    if not isinstance(sweep, PairSweep) or not sweep.graph.num_pairs:
        return Chosen(LBP(), "one evaluation prices every change of one site")
    graph = sweep.graph
    others = 2 * graph.num_pairs / graph.num_sites
    if graph.num_sites > SMALL and others > DENSE * graph.num_sites:
        return Chosen(LBP(), f"a site depends on {others:.0f} others on average: most of them")
    return Chosen(
        Gibbs(), f"a site depends on {others:.3g} others on average, so sweeps cost little"
    )


def choose_kernel(target: Any, kernel: Any, scale: Any = None) -> Chosen:
    """The kernel that was given, or else the one that suits the target."""
    if kernel is not None:
        return Chosen(kernel, "")
    return choose(target, scale) if isinstance(target, Target) else Chosen(LBP(), "")
