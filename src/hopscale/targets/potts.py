"""Sites of several values on any graph, whose neighbours agree or differ."""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from hopscale import lattice, native
from hopscale.graph import Graph, make_graph, read_pairs
from hopscale.sweep import PottsSweep
from hopscale.target import Evaluation, State, Target, as_parameter, has_values
from hopscale.targets.absorb import in_precision, part
from hopscale.validate import count


class Potts(Target):
    r"""The Potts model: sites of `num_states` values on any graph.

    $$\log \pi(x) = \sum_{i<j} J_{ij} [x_i = x_j] + \sum_i h_i(x_i)$$

    J > 0 makes neighbours agree. `hs.Gibbs` draws all sites of a colour at once; `hs.LBP` treats
    it as any other target of categories.

    Args:
        couplings: J, in any of the forms that `hs.Pairwise` takes.
        num_states: how many values a site can take.
        field: h, of shape (num_states,) for all sites, or (*shape, num_states), where `shape` is
            that of a state and pairs number its sites row by row. None: 0.
    """

    graph: Graph
    field: Float[Array, "*shape values"]

    ratios: ClassVar[str] = "exact"

    def __init__(self, couplings: Any, num_states: int, field: Any = None):
        count("num_states", num_states, minimum=2)
        h = np.zeros(num_states) if field is None else np.asarray(as_parameter("field", field))
        if h.ndim == 0 or h.shape[-1] != num_states:
            raise ValueError(
                f"field must end with an axis of num_states = {num_states} values, for all sites "
                f"or for each; got shape {h.shape}."
            )
        sites = h.shape[:-1]
        pairs = read_pairs(couplings, int(np.prod(sites)) if sites else None)
        if np.any(pairs.diagonal):
            site = int(np.flatnonzero(pairs.diagonal)[0])
            raise ValueError(
                f"site {site} is coupled to itself, which is a constant. Leave the diagonal out."
            )
        shape = (*(sites or (pairs.num_sites,)), num_states)
        self.field = as_parameter("field", np.broadcast_to(h, shape))
        self.graph = make_graph(pairs, self.field.dtype)

    @classmethod
    def lattice(
        cls, shape: tuple[int, ...], num_states: int, coupling: float = 1.0, field: Any = None
    ) -> "Potts":
        """A Potts model on an open lattice of any dimension, with one coupling for all bonds.

        Args:
            shape: of the lattice.
            num_states: how many values a site can take.
            coupling: J.
            field: as for `Potts`.
        """
        i, j = lattice.bonds(shape)
        h = np.zeros(num_states) if field is None else np.asarray(as_parameter("field", field))
        whole = np.broadcast_to(h, (*shape, h.shape[-1] if h.ndim else num_states))
        return cls((i, j, np.full(len(i), coupling)), num_states, whole)

    @property
    def shape(self):
        return self.field.shape[:-1]

    @property
    def num_states(self):
        return self.field.shape[-1]

    @property
    def dtype(self):
        return self.field.dtype

    def sweep(self):
        return PottsSweep(self, self.graph, self._by_site)

    def given(self, free, state):
        if not (has_values(self.graph.weight) and has_values(self.field)):
            return None
        parted = part(self.graph.pairs(), free)
        field = np.asarray(self._by_site, np.float64)[free]
        np.add.at(field, (parted.free, state[parted.clamped]), parted.coupling)
        i, j, coupling, _ = parted.inside
        return in_precision(Potts((i, j, coupling), self.num_states, field), self.dtype)

    @property
    def _by_site(self) -> Float[Array, "n values"]:
        return self.field.reshape(-1, self.num_states)

    def _log_prob(self, x: State):
        return self._evaluate(x).log_prob

    def _evaluate_log_prob(self, x: State):
        return self._evaluate(x)._replace(log_ratios=None)

    def _evaluate(self, x: State):
        graph = self.graph
        rows = graph.start, graph.neighbour, graph.weight
        log_prob, ratios = native.call(
            "potts", x.reshape(-1), self._by_site, *rows, degree=graph.degree
        )
        return Evaluation(log_prob=log_prob, log_ratios=ratios.reshape(self.field.shape))
