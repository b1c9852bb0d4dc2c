"""Spins on an open lattice."""

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from hopscale import native
from hopscale.graphs import lattice
from hopscale.move import Move
from hopscale.target import Evaluation, State, Target, as_parameter, check_ratios
from hopscale.targets.pairwise import spins_given
from hopscale.targets.sweep import SpinSweep


class Ising(Target):
    r"""Spins s = 2x - 1 on an open lattice of any dimension.

    $$\log \pi(x) = \sum_i h_i s_i + \sum_{(i,j)} J_{ij} s_i s_j + \text{const}$$

    where the second sum is over pairs of neighbours. The log-density is linear in each s_i, so the
    gradient form of the ratios, $-2 s_i (h_i + \sum_j J_{ij} s_j)$, is exact.

    Args:
        field: h, one number for each site; its shape is that of the lattice.
        coupling: J; J > 0 aligns neighbours. One number for all bonds, or one entry for each axis
            of the lattice: a number, or an array with the lattice's shape, one shorter along that
            axis, whose entry is the bond between a site and the next.
        ratios: "exact" or "gradient", which are the same here.
    """

    field: Float[Array, "*shape"]
    coupling: tuple[Float[Array, "..."], ...]
    ratios: str = eqx.field(static=True)

    num_states: ClassVar[int] = 2

    def __init__(self, field, coupling, ratios: str = "exact"):
        self.field = as_parameter("field", field)
        if isinstance(coupling, tuple | list):
            bonds = [as_parameter("coupling", c) for c in coupling]
        else:
            bonds = [as_parameter("coupling", coupling)] * self.field.ndim
        self.coupling = tuple(c.astype(self.field.dtype) for c in bonds)
        self.ratios = ratios

    def __check_init__(self):
        check_ratios(self.ratios)
        if self.field.ndim == 0 or self.field.size == 0:
            raise ValueError(f"field must hold one number for each site; got shape {self.shape}.")
        if len(self.coupling) != self.field.ndim:
            raise ValueError(
                f"coupling must be one number or one entry for each of the lattice's "
                f"{self.field.ndim} axes; got {len(self.coupling)} entries."
            )
        for axis, bonds in enumerate(self.coupling):
            needed = tuple(n - (a == axis) for a, n in enumerate(self.shape))
            if bonds.ndim and bonds.shape != needed:
                raise ValueError(
                    f"coupling along axis {axis} must be a number or have shape {needed}, one "
                    f"entry for each bond; got shape {bonds.shape}."
                )

    @property
    def shape(self):
        return self.field.shape

    @property
    def dtype(self):
        return self.field.dtype

    @property
    def _plain(self) -> bool:
        """Whether this is a rectangle with one coupling for each axis, as native kernels need."""
        return len(self.shape) == 2 and all(bonds.ndim == 0 for bonds in self.coupling)

    def sweep(self):
        graph = lattice.graph(self.shape, self.coupling, self.dtype)
        return SpinSweep(self, graph, self.field.reshape(-1))

    def given(self, free, state):
        graph = lattice.graph(self.shape, self.coupling, self.dtype)
        return spins_given(graph, self.field.reshape(-1), free, state)

    def _log_prob(self, x: State):
        if self._plain:
            return native.differentiable_call("ising_log_prob", x, self.field, *self.coupling)
        return self._evaluate(x)[0]

    def updates(self, ratios: bool) -> bool:
        # An update of all ratios would write as many bytes as an evaluation; the sum is one number.
        return self._plain and not ratios

    def _update(self, x: State, evaluation: Evaluation, move: Move):
        if not self.updates(evaluation.log_ratios is not None):
            return super()._update(x, evaluation, move)
        moved = move.moved.reshape(self.shape)
        arrays = (evaluation.log_prob, x, moved, self.field, *self.coupling)
        return Evaluation(log_prob=native.call("ising_update", *arrays), log_ratios=None)

    def _evaluate(self, x: State):
        if self._plain:
            return native.differentiable_call("ising", x, self.field, *self.coupling)
        return lattice.evaluate(x, self.field, self.coupling)
