"""Weighted pairs of sites: read from many forms, stored as rows of neighbours.

Everything here runs once, on the host, before anything is compiled.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hopscale.graphs.colouring import blocks_of, colour
from hopscale.target import as_parameter

FORMS = (
    "a square matrix, a SciPy sparse matrix, a list, set or generator of (i, j, J) or (i, j), an "
    "array of such rows, arrays (i, j, J) or (i, j), a dictionary {(i, j): J}, a table with "
    "columns i, j, J or a NetworkX graph"
)


class Pairs(NamedTuple):
    """Pairs i < j with their couplings, and the diagonal, with an entry for each site."""

    i: Int[np.ndarray, " pairs"]
    j: Int[np.ndarray, " pairs"]
    coupling: Float[np.ndarray, " pairs"]
    diagonal: Float[np.ndarray, " n"]

    @property
    def num_sites(self) -> int:
        return len(self.diagonal)


class Graph(eqx.Module):
    """Neighbours of every site, and blocks of sites in which no two are neighbours.

    Site i has the neighbours `neighbour[start[i]:start[i + 1]]`, with couplings `weight`. A row of
    `blocks` lists sites that can be drawn at once; shorter rows are padded with the number of
    sites.
    """

    start: Int[Array, " n+1"]
    neighbour: Int[Array, " entries"]
    weight: Float[Array, " entries"]
    blocks: Int[Array, "blocks size"]
    degree: int = eqx.field(static=True)  # the largest number of neighbours

    @property
    def num_sites(self) -> int:
        return self.start.size - 1

    @property
    def num_pairs(self) -> int:
        return self.neighbour.size // 2

    def pairs(self) -> Pairs:
        """The pairs, each once."""
        start, neighbour, weight = map(np.asarray, (self.start, self.neighbour, self.weight))
        row = np.repeat(np.arange(self.num_sites), np.diff(start))
        once = row < neighbour
        return Pairs(row[once], neighbour[once], weight[once], np.zeros(self.num_sites))


def make_graph(pairs: Pairs, dtype=None) -> Graph:
    """Rows of neighbours, and blocks by colour."""
    n = pairs.num_sites
    row = np.concatenate([pairs.i, pairs.j])
    order = np.lexsort((np.concatenate([pairs.j, pairs.i]), row))
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))])
    neighbour = np.concatenate([pairs.j, pairs.i])[order]
    weight = as_parameter("couplings", np.concatenate([pairs.coupling] * 2)[order])
    return Graph(
        start=jnp.asarray(start, jnp.int32),
        neighbour=jnp.asarray(neighbour, jnp.int32),
        weight=weight if dtype is None else weight.astype(dtype),
        blocks=jnp.asarray(blocks_of(colour(start, neighbour))),
        degree=int(np.diff(start).max(initial=0)),
    )


def no_pairs(n: int, dtype) -> Graph:
    """Sites that do not depend on each other."""
    return Graph(
        start=jnp.zeros(n + 1, jnp.int32),
        neighbour=jnp.zeros(0, jnp.int32),
        weight=jnp.zeros(0, dtype),
        blocks=jnp.arange(n, dtype=jnp.int32)[None, :],
        degree=0,
    )


# -- Reading. -------------------------------------------------------------------------------------


def read_pairs(couplings: Any, num_sites: int | None = None) -> Pairs:
    """Pairs of sites from any of the supported forms.

    A matrix is triangular or symmetric; a symmetric one counts each pair once.
    """
    if hasattr(couplings, "tocoo"):
        csr = couplings.tocsr(copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        coo = csr.tocoo()
        _square(coo.shape)
        return _from_matrix(coo.row, coo.col, coo.data, coo.shape[0], num_sites)
    if hasattr(couplings, "edges") and hasattr(couplings, "nodes"):
        return _from_networkx(couplings, num_sites)
    if hasattr(couplings, "columns") and hasattr(couplings, "iloc"):
        couplings = _from_table(couplings)
    elif isinstance(couplings, Mapping):
        couplings = [(*pair, value) for pair, value in couplings.items()]
    elif _lists_pairs(couplings):
        couplings = list(couplings)
    listed = _listed(couplings)
    if listed is not None:
        return _from_list(*listed, num_sites)
    if isinstance(couplings, jax.Array | np.ndarray | list | tuple):
        matrix = _numbers("couplings", couplings)
        _square(matrix.shape)
        row, column = np.nonzero(matrix)  # NaN is not zero
        return _from_matrix(row, column, matrix[row, column], len(matrix), num_sites)
    of_dimod = type(couplings).__module__.startswith("dimod")
    hint = " Use hs.Pairwise.from_dimod(bqm)." if of_dimod else ""
    raise TypeError(f"couplings must be {FORMS}; got {type(couplings).__name__}.{hint}")


def _lists_pairs(couplings: Any) -> bool:
    """Whether pairs are to be iterated over: a set, a generator, NetworkX's edges with data."""
    itself = isinstance(couplings, jax.Array | np.ndarray | list | tuple | str | bytes)
    of_dimod = type(couplings).__module__.startswith("dimod")
    return isinstance(couplings, Iterable) and not itself and not of_dimod


def _from_table(table: Any) -> Any:
    """The columns of a pandas table; its matrix if rows and columns have the same names."""
    if list(table.index) == list(table.columns):
        return table.to_numpy()
    if len(table.columns) not in (2, 3):
        raise ValueError(
            f"a table of couplings has the columns i, j, J or i, j; got {list(table.columns)!r:.80}"
        )
    named = {"i", "j"} <= set(table.columns)
    columns = table[[n for n in ("i", "j", "J") if n in table.columns]] if named else table
    i, j, *weights = (columns.iloc[:, k].to_numpy() for k in range(len(columns.columns)))
    return _whole(i), _whole(j), *weights


def _whole(values: np.ndarray) -> np.ndarray:
    """Whole numbers as integers: a table or an array with couplings may hold sites as floats."""
    if not np.issubdtype(values.dtype, np.floating):
        return values
    with np.errstate(invalid="ignore"):  # NaN and infinity are refused where sites are read
        sites = values.astype(np.int64)
    return sites if np.array_equal(sites, values) else values


def hint(num_sites: int) -> str:
    """A hint for a matrix that may have been meant as two pairs (i, j) or three (i, j, J)."""
    return " If its rows are pairs, pass a list of tuples." if num_sites in (2, 3) else ""


def _square(shape) -> None:
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise ValueError(f"a matrix of couplings must be square; got shape {tuple(shape)}.")


def _listed(couplings: Any) -> tuple[Any, Any, Any] | None:
    """The columns i, j and J of listed pairs; None for anything else.

    Pairs are tuples in a list, rows of an array that is not square, or arrays i, j and J in a
    tuple. Without J, couplings are 1.
    """
    if not isinstance(couplings, jax.Array | np.ndarray | list | tuple):
        return None
    array = isinstance(couplings, jax.Array | np.ndarray)
    tuples = not array and all(isinstance(pair, tuple) for pair in couplings)
    columns: list[Any]
    if (
        isinstance(couplings, tuple)
        and len(couplings) in (2, 3)
        and all(map(np.ndim, couplings))
        and not (tuples and len(couplings[0]) in (2, 3))  # those are pairs
    ):
        columns = list(couplings)
    elif tuples:
        odd = [p for p in couplings if len(p) not in (2, 3) or len(p) != len(couplings[0])]
        if odd:
            raise ValueError(
                f"a pair is (i, j, J), two sites and a coupling, or all are (i, j); got {odd[0]!r}."
            )
        columns = list(zip(*couplings, strict=True)) or [(), ()]
    else:
        rows = _numbers("couplings", couplings)
        if rows.ndim != 2 or rows.shape[1] not in (2, 3) or len(rows) == rows.shape[1]:
            return None
        columns = [*_whole(rows[:, :2]).T, *rows[:, 2:].T]
    i, j, *value = columns
    if value and all(isinstance(entry, Mapping) for entry in value[0]):  # NetworkX's edges
        value = [[entry.get("weight", 1.0) for entry in value[0]]]
    return i, j, value[0] if value else np.ones(len(i))


def _numbers(name: str, values: Any) -> Float[np.ndarray, "..."]:
    try:
        array = np.asarray(values)
        if array.dtype == bool or np.iscomplexobj(array):
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be real numbers; got {values!r:.80}.") from error


def _sites(values: Any) -> Int[np.ndarray, " pairs"]:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != 1:
        raise TypeError(
            f"sites are integers 0, 1, ..., one for each pair; got {values!r:.80}. Number the "
            "sites of labelled pairs first."
        )
    return array.astype(np.int64)


def _from_list(i, j, coupling, num_sites: int | None) -> Pairs:
    i, j, coupling = _sites(i), _sites(j), _numbers("couplings", coupling)
    if not len(i) == len(j) == coupling.size:
        raise ValueError(
            f"i, j and J must be of one length; got {len(i)}, {len(j)} and {coupling.size}."
        )
    last = int(max(i.max(initial=-1), j.max(initial=-1)))
    n = last + 1 if num_sites is None else num_sites
    if min(i.min(initial=0), j.min(initial=0)) < 0 or last >= n:
        low = int(min(i.min(initial=0), j.min(initial=0)))
        raise ValueError(
            f"sites must lie in 0 ... {n - 1}; the pairs name sites from {low} to {last}."
        )
    off = i != j
    low, high = np.minimum(i, j)[off], np.maximum(i, j)[off]
    order = np.lexsort((high, low))
    low, high, values = low[order], high[order], coupling[off][order]
    twice = np.flatnonzero((np.diff(low) == 0) & (np.diff(high) == 0))
    if twice.size:
        raise ValueError(
            f"the pair ({low[twice[0]]}, {high[twice[0]]}) is listed more than once: list each "
            "pair once, in either direction, with the sum of its couplings."
        )
    diagonal = np.bincount(i[~off], coupling[~off], minlength=n).astype(np.float64)
    return _checked(Pairs(low, high, values, diagonal))


def _from_matrix(row, column, values, n: int, num_sites: int | None) -> Pairs:
    if num_sites is not None and num_sites != n:
        raise ValueError(
            f"field has {num_sites} sites and the matrix of couplings {n}: they must agree."
        )
    values = _numbers("couplings", values)
    upper, lower = row < column, row > column
    if upper.any() and lower.any():
        _check_symmetric(row, column, values, n)
        keep = upper | (row == column)
    else:
        keep = np.ones(len(row), bool)
    return _from_list(row[keep].astype(np.int64), column[keep].astype(np.int64), values[keep], n)


def _check_symmetric(row, column, values, n: int) -> None:
    from scipy.sparse import coo_array

    matrix = coo_array((values, (row, column)), shape=(n, n)).tocsr()
    difference = abs(matrix - matrix.T).tocoo()
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    if difference.nnz and difference.data.max(initial=0.0) > 1e-6 * largest:
        worst = int(np.argmax(difference.data))
        i, j = int(difference.coords[0][worst]), int(difference.coords[1][worst])
        raise ValueError(
            "a matrix of couplings must be symmetric, where each pair counts once, or triangular; "
            f"J[{i}, {j}] is {matrix[i, j]:g} and J[{j}, {i}] is {matrix[j, i]:g}. If the two "
            "halves are to be added, pass np.triu(J + J.T, 1), plus np.diag(np.diag(J)) if J has "
            f"a diagonal.{hint(n)}"
        )


def _from_networkx(graph: Any, num_sites: int | None) -> Pairs:
    if graph.is_directed():
        raise TypeError("the pairs of a model have no direction: pass graph.to_undirected().")
    place = {node: k for k, node in enumerate(graph.nodes)}
    found: dict[tuple[int, int], float] = {}
    edges = list(graph.edges(data="weight", default=1.0))
    weights = _numbers("weights of edges", [weight for *_, weight in edges])
    for (a, b, _), weight in zip(edges, weights, strict=True):
        pair = (min(place[a], place[b]), max(place[a], place[b]))
        found[pair] = found.get(pair, 0.0) + weight  # several edges add up
    i, j = (np.array([pair[k] for pair in found], np.int64) for k in (0, 1))
    return _from_list(i, j, np.array(list(found.values())), num_sites or len(place))


def _checked(pairs: Pairs) -> Pairs:
    values = np.concatenate([pairs.coupling, pairs.diagonal])
    if not np.all(np.isfinite(values)):
        raise ValueError("couplings must be finite; they hold NaN or infinity.")
    if pairs.num_sites == 0:
        raise ValueError("a model needs at least one site; pass field=np.zeros(n) with no pairs.")
    some = pairs.coupling != 0
    return Pairs(pairs.i[some], pairs.j[some], pairs.coupling[some], pairs.diagonal)
