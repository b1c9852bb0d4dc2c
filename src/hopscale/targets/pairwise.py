"""Spins with pairwise couplings on any graph."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale import native
from hopscale.graphs.graph import Graph, Pairs, hint, make_graph, read_pairs
from hopscale.move import Move, apply
from hopscale.target import Evaluation, State, Target, as_float, as_parameter, has_values
from hopscale.targets.absorb import in_precision, part
from hopscale.targets.sweep import SpinSweep


class Pairwise(Target):
    r"""Spins s = 2x - 1 with couplings between any pairs of sites.

    $$\log \pi(x) = \sum_{i<j} J_{ij} s_i s_j + \sum_i h_i s_i$$

    With `bits=True`, x takes the place of s (a QUBO with the opposite sign). Only pairs with a
    coupling are stored, so a sparse graph of 10^6 sites needs memory for its edges only. The cost
    of a step that changes a few sites is that of their neighbours. `hs.Gibbs` draws all sites,
    those of one colour at once.

    Args:
        couplings: J, in one of these forms: a square matrix or SciPy sparse matrix, symmetric (each
            pair then counts once) or triangular; a list of tuples (i, j, J), or (i, j) for J = 1,
            with each pair once, in either direction; an array with such rows (a square array is
            taken as a matrix); a tuple of arrays (i, j, J) or (i, j); a dictionary {(i, j): J}; a
            set or generator of tuples; a pandas table with the columns i, j, J, or i, j; or a
            NetworkX graph, whose nodes become sites in their order, with J the edge attribute
            "weight", or 1.
        field: h, one number for all sites or one for each. Its shape is that of a state, whose
            sites are numbered row by row in `couplings`. None: 0.
        bits: whether couplings and field are those of x; a diagonal of J then adds to the field.

    Examples:
        >>> target = hs.Pairwise([(0, 1, 1.0), (1, 2, -0.5)], field=[0.0, 0.0, 0.2])
        >>> print(target.log_prob([1, 1, 0]), target.log_ratios([1, 1, 0]))
        1.3 [-2.  -3.  -0.6]
    """

    graph: Graph
    field: Float[Array, "*shape"]  # of the spins
    offset: Float[Array, ""]
    bits: bool = eqx.field(static=True)

    num_states: ClassVar[int] = 2
    ratios: ClassVar[str] = "exact"

    def __init__(self, couplings: Any, field: Any = None, bits: bool = False):
        given = np.zeros(()) if field is None else np.asarray(as_parameter("field", field))
        given = given.astype(np.float64)
        if not isinstance(bits, bool):
            raise TypeError(f"bits must be True or False; got {bits!r}.")
        pairs = read_pairs(couplings, given.size if given.ndim else None)
        if not bits and np.any(pairs.diagonal):
            site = int(np.flatnonzero(pairs.diagonal)[0])
            raise ValueError(
                f"site {site} is coupled to itself: s_i s_i = 1 is a constant of spins. Leave the "
                f"diagonal out; with bits=True it adds to the field.{hint(pairs.num_sites)}"
            )
        shape = given.shape or (pairs.num_sites,)
        given = np.broadcast_to(given, shape).reshape(-1)
        coupling, linear, offset = pairs.coupling, given, 0.0
        if bits:
            coupling, linear, offset = _spins_of_bits(pairs, given)
        self.graph = make_graph(pairs._replace(coupling=coupling))
        self.field = as_parameter("field", linear.reshape(shape))
        self.offset = jnp.asarray(offset, self.field.dtype)
        self.bits = bits

    @property
    def shape(self):
        return self.field.shape

    @property
    def dtype(self):
        return self.field.dtype

    @property
    def num_pairs(self) -> int:
        """The number of pairs that have a coupling."""
        return self.graph.num_pairs

    def shifted(self, by: float) -> "Pairwise":
        """The same distribution, with a constant added to its log-probabilities."""
        return eqx.tree_at(lambda t: t.offset, self, self.offset + by)

    @staticmethod
    def from_dimod(bqm: Any, beta: float = 1.0) -> "Pairwise":
        r"""The Boltzmann distribution of a dimod model, $\log \pi(x) = -\beta E(x)$."""
        from hopscale.adapters import dimod

        return dimod.from_bqm(bqm, beta)

    def to_dimod(self, variables: Any = None) -> Any:
        """A dimod model whose energy is minus the log-probability.

        Args:
            variables: names of the variables in the order of sites, such as those of the model from
                which this target was made. None: 0, 1, 2, ...
        """
        from hopscale.adapters import dimod

        return dimod.to_bqm(self, variables)

    def terms(self) -> tuple[Pairs, Float[np.ndarray, " n"], float]:
        """The couplings J_ij, fields h_i and constant; of bits if it was made with `bits=True`."""
        pairs = self.graph.pairs()
        field, offset = np.asarray(self.field, np.float64).reshape(-1), float(self.offset)
        if not self.bits:
            return pairs, field, offset
        coupling = 4.0 * pairs.coupling.astype(np.float64)
        pairs = pairs._replace(coupling=coupling)
        linear = 2.0 * field - 0.5 * _degrees(pairs)
        return pairs, linear, offset - 0.5 * linear.sum() - 0.25 * coupling.sum()

    def sweep(self):
        return SpinSweep(self, self.graph, self.field.reshape(-1))

    def given(self, free, state):
        return spins_given(self.graph, self.field.reshape(-1), free, state)

    def _log_prob(self, x: State):
        return self._evaluate_log_prob(x).log_prob

    def _evaluate(self, x: State):
        return self._given(x, self._fields(x), ratios=True)

    def _evaluate_log_prob(self, x: State):
        return self._given(x, self._fields(x), ratios=False)

    def _update(self, x: State, evaluation: Evaluation, move: Move):
        before = (evaluation.cache, x.reshape(-1), move.moved)
        fields = native.call("pair_update", *before, *self._rows, degree=self.graph.degree)
        return self._given(apply(x, move), fields, ratios=evaluation.log_ratios is not None)

    @property
    def _rows(self):
        graph = self.graph
        return self.field.reshape(-1), graph.start, graph.neighbour, graph.weight

    def _fields(self, x: State) -> Float[Array, " n"]:
        r"""$h_i + \sum_j J_{ij} s_j$ at every site."""
        return native.call("pair_fields", x.reshape(-1), *self._rows, degree=self.graph.degree)

    def _given(self, x: State, fields: Float[Array, " n"], ratios: bool) -> Evaluation:
        """The evaluation, given the fields at all sites."""
        s = as_float(2 * x.reshape(-1) - 1, self.dtype)
        # Each pair is seen from both of its ends.
        log_prob = self.offset + 0.5 * jnp.sum(s * (fields + self.field.reshape(-1)))
        found = (-2.0 * s * fields).reshape(self.shape) if ratios else None
        return Evaluation(log_prob=log_prob, log_ratios=found, cache=fields)


def spins_given(graph: Graph, field: Array, free, state) -> Target | None:
    """The spins of free sites, in the fields of their clamped neighbours."""
    if not (has_values(graph.weight) and has_values(field)):
        return None
    parted = part(graph.pairs(), free)
    pull = parted.coupling * (2.0 * state[parted.clamped] - 1.0)
    own = np.asarray(field, np.float64)[free]
    own = own + np.bincount(parted.free, pull, minlength=len(free))
    i, j, coupling, _ = parted.inside
    return in_precision(Pairwise((i, j, coupling), own), field.dtype)


def _degrees(pairs: Pairs) -> Float[np.ndarray, " n"]:
    """The sum of the couplings at each site."""
    ends = np.concatenate([pairs.i, pairs.j])
    return np.bincount(ends, np.tile(pairs.coupling, 2), minlength=pairs.num_sites)


def _spins_of_bits(pairs: Pairs, linear: np.ndarray):
    """Couplings, field and constant of s = 2x - 1, given those of x."""
    linear = linear + pairs.diagonal
    field = 0.5 * linear + 0.25 * _degrees(pairs)
    offset = 0.5 * linear.sum() + 0.25 * pairs.coupling.sum()
    return 0.25 * pairs.coupling, field, offset
