"""The Potts model: sites of several values on any graph, whose neighbours agree or differ."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hopscale import native, validate
from hopscale.graphs import lattice
from hopscale.graphs.graph import Graph, make_graph, read_pairs
from hopscale.target import (
    Evaluation,
    State,
    Target,
    as_parameter,
    has_values,
    values_there_are,
)
from hopscale.targets.absorb import in_precision, part
from hopscale.targets.sweep import PottsSweep


class Potts(Target):
    r"""The Potts model: sites of `num_states` values on any graph.

    $$\log \pi(x) = \sum_{i<j} J_{ij} [x_i = x_j] + \sum_i h_i(x_i)$$

    J > 0 makes neighbours agree. `hs.Gibbs` draws all sites of a colour at once; `hs.LBP` treats
    the model like any other target of categories.

    Args:
        couplings: J, in any of the forms that `hs.Pairwise` takes.
        num_states: the number of values of a site: one number, or one for each site, of the shape
            of a state.
        field: h, of shape (values,) for all sites, or (*shape, values). Here `shape` is that of a
            state, whose sites are numbered row by row in `couplings`, and `values` is the largest
            number of values of a site. Entries for values that a site lacks are ignored. None: 0.

    Examples:
        >>> target = hs.Potts([(0, 1), (1, 2)], num_states=3)
        >>> print(target.log_prob([2, 2, 0]))
        1.0
        >>> print(target.log_ratios([2, 2, 0]))  # a row for each site, a column for each value
        [[-1. -1.  0.]
         [ 0. -1.  0.]
         [ 0.  0.  1.]]
    """

    graph: Graph
    field: Float[Array, "*shape values"]
    by_site: Int[Array, "*shape"] | None

    ratios: ClassVar[str] = "exact"

    def __init__(self, couplings: Any, num_states: Any, field: Any = None):
        most, by_site = validate.num_states(num_states, np.shape(num_states))
        if field is not None:
            field = _without_what_is_ignored(field, by_site, most)
        h = np.zeros(most) if field is None else np.asarray(as_parameter("field", field))
        if h.ndim == 0 or h.shape[-1] != most:
            raise ValueError(
                f"field must end with an axis of num_states = {most} values, for all sites or for "
                f"each; got shape {h.shape}."
            )
        sites = h.shape[:-1] or np.shape(num_states)
        validate.num_states(num_states, sites)
        pairs = read_pairs(couplings, int(np.prod(sites)) if sites else None)
        if np.any(pairs.diagonal):
            site = int(np.flatnonzero(pairs.diagonal)[0])
            raise ValueError(
                f"site {site} is coupled to itself, which is a constant. Leave the diagonal out."
            )
        shape = (*(sites or (pairs.num_sites,)), most)
        self.field = as_parameter("field", np.broadcast_to(h, shape))
        self.by_site = None
        if by_site is not None:
            self.by_site = jnp.asarray(by_site)
            self.field = jnp.where(values_there_are(self.by_site, most), self.field, -jnp.inf)
        self.graph = make_graph(pairs, self.field.dtype)

    @classmethod
    def lattice(
        cls, shape: tuple[int, ...], num_states: Any, coupling: float = 1.0, field: Any = None
    ) -> "Potts":
        """A Potts model on an open lattice of any dimension, with one coupling for all bonds.

        Args:
            shape: the shape of the lattice.
            num_states, field: as for `Potts`.
            coupling: J, for every bond.
        """
        i, j = lattice.bonds(shape)
        most, _ = validate.num_states(num_states, np.shape(num_states))
        h = np.zeros(most) if field is None else np.asarray(as_parameter("field", field))
        whole = np.broadcast_to(h, (*shape, h.shape[-1] if h.ndim else most))
        return cls((i, j, np.full(len(i), coupling)), num_states, whole)

    @property
    def shape(self):
        return self.field.shape[:-1]

    @property
    def num_states(self):
        return self.field.shape[-1]

    @property
    def num_states_by_site(self):
        return self.num_states if self.by_site is None else self.by_site

    @property
    def dtype(self):
        return self.field.dtype

    def sweep(self):
        return PottsSweep(self, self.graph, self._field_rows)

    def given(self, free, state):
        if not (has_values(self.graph.weight) and has_values(self.field)):
            return None
        parted = part(self.graph.pairs(), free)
        field = np.asarray(self._field_rows, np.float64)[free]
        np.add.at(field, (parted.free, state[parted.clamped]), parted.coupling)
        i, j, coupling, _ = parted.inside
        num_states = self.num_states
        if self.by_site is not None:
            num_states = np.asarray(self.by_site).reshape(-1)[free]
        field = field[:, : np.max(num_states)]
        return in_precision(Potts((i, j, coupling), num_states, field), self.dtype)

    @property
    def _field_rows(self) -> Float[Array, "n values"]:
        return self.field.reshape(-1, self.num_states)

    def _log_prob(self, x: State):
        return self._evaluate(x).log_prob

    def _evaluate_log_prob(self, x: State):
        return self._evaluate(x)._replace(log_ratios=None)

    def _evaluate(self, x: State):
        graph = self.graph
        rows = graph.start, graph.neighbour, graph.weight
        log_prob, ratios = native.call(
            "potts", x.reshape(-1), self._field_rows, *rows, degree=graph.degree
        )
        ratios = ratios.reshape(self.field.shape)
        if self.num_states == 2:  # of the other value
            ratios = jnp.where(x == 1, ratios[..., 0], ratios[..., 1])
        return Evaluation(log_prob=log_prob, log_ratios=ratios)


def _without_what_is_ignored(field: Any, by_site: np.ndarray | None, most: int) -> Any:
    """The field, with 0 for values that a site lacks, which may be given as -inf."""
    if by_site is None or np.shape(field) != (*by_site.shape, most):
        return field
    return np.where(np.arange(most) < by_site[..., None], np.asarray(field), 0.0)
