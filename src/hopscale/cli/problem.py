"""Problems in files: couplings as a list of edges, in MatrixMarket, or as a QUBO."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

KINDS = ("ising", "maxcut", "qubo")
QUBO_FILES = (".qubo", ".coo")


class Problem(NamedTuple):
    """Weights of pairs of sites, i = j allowed, numbered from 0."""

    i: np.ndarray
    j: np.ndarray
    weight: np.ndarray
    num_sites: int


def load_problem(path: Path, kind: str | None, beta: float):
    """The target of a file, and its kind.

    With weights w of the file's pairs, spins s and bits x, its log-density is

        ising    beta * sum w_ij s_i s_j
        maxcut   beta * sum of w_ij over pairs with s_i != s_j
        qubo    -beta * sum w_ij x_i x_j
    """
    import hopscale as hs

    if kind is None:
        kind = "qubo" if path.suffix in QUBO_FILES else "ising"
    if kind not in KINDS:
        raise ValueError(f"--kind must be one of {', '.join(KINDS)}; got {kind!r}.")
    problem = read(path)
    factor = {"ising": beta, "maxcut": -beta / 2, "qubo": -beta}[kind]
    pairs = problem.i != problem.j
    diagonal = np.bincount(problem.i[~pairs], problem.weight[~pairs], minlength=problem.num_sites)
    if kind != "qubo" and np.any(diagonal):
        raise ValueError(
            f"{path} has weights of a site with itself, a constant for spins; --kind qubo reads "
            "the weights as those of bits."
        )
    couplings = (problem.i[pairs], problem.j[pairs], factor * problem.weight[pairs])
    pairwise: Any = hs.Pairwise
    return pairwise(couplings, factor * diagonal, bits=kind == "qubo"), kind


def read(path: Path) -> Problem:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    if path.suffix == ".mtx":
        return _matrix_market(path)
    return _edges(path)


def _matrix_market(path: Path) -> Problem:
    from scipy import io, sparse

    try:
        found: Any = sparse.coo_array(io.mmread(path))
    except Exception as error:  # SciPy raises several
        raise ValueError(f"{path} is not a MatrixMarket file: {error}") from error
    if found.ndim != 2 or found.shape[0] != found.shape[1]:
        raise ValueError(f"{path} must hold a square matrix; it has shape {found.shape}.")
    symmetric = abs(found - found.T).nnz == 0
    chosen: Any = sparse.coo_array(sparse.triu(found)) if symmetric else found
    return Problem(chosen.row, chosen.col, chosen.data.astype(float), found.shape[0])


def _edges(path: Path) -> Problem:
    """Lines of two sites and a weight, 1 if omitted; other lines are comments or a header."""
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.replace(",", " ").split()
        if not words or words[0][0] in "#%" or words[0] in ("c", "p"):
            continue
        words = words[1:] if words[0] in ("e", "a") else words  # DIMACS
        try:
            first, second = int(words[0]), int(words[1])
            weight = float(words[2]) if len(words) > 2 else None
            if weight is not None and not np.isfinite(weight):
                raise ValueError(f"a weight of {weight}")
            rows.append((first, second, np.nan if weight is None else weight))
        except (ValueError, IndexError) as error:
            raise ValueError(
                f"{path}, line {number}: two sites and a weight are needed, as in '0 1 -0.5'; got "
                f"{line!r}."
            ) from error
    if not rows:
        raise ValueError(f"{path} has no edges: lines such as '0 1 -0.5'.")
    rows = rows[1:] if _has_header(rows) else rows
    i, j, weight = np.array(rows).T
    names, places = np.unique(np.concatenate([i, j]).astype(int), return_inverse=True)
    weight = np.where(np.isnan(weight), 1.0, weight)
    return Problem(places[: len(i)], places[len(i) :], weight, len(names))


def _has_header(rows: list) -> bool:
    """Whether the first line gives the numbers of nodes and edges, as in the G-set."""
    nodes, edges, weight = rows[0]
    others = rows[1:]
    return np.isnan(weight) and len(others) == edges and all(max(r[:2]) <= nodes for r in others)
