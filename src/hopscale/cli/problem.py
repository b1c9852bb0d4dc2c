"""Problems in files: couplings as a list of edges, in MatrixMarket, or as a QUBO."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

KINDS = ("ising", "maxcut", "qubo")
QUBO_FILES = (".qubo", ".coo")
MATRIX_MARKET = b"%%MatrixMarket"
MOST_NODES = 10**9


class Problem(NamedTuple):
    """Weights of pairs of sites, i = j allowed; sites are numbered from 0, and named."""

    i: np.ndarray
    j: np.ndarray
    weight: np.ndarray
    names: np.ndarray


class Loaded(NamedTuple):
    """The target of a file, its kind, and what its sites are called in the file."""

    target: Any
    kind: str
    names: np.ndarray


def load_problem(path: Path, kind: str | None, beta: float) -> Loaded:
    """The target of a file.

    With weights w of the file's pairs, spins s and bits x, its log-density is

        ising    beta * sum w_ij s_i s_j
        maxcut   beta * sum of w_ij over pairs with s_i != s_j
        qubo    -beta * sum w_ij x_i x_j
    """
    import hopscale as hs

    if kind is None:
        kind = "qubo" if path.suffix.lower() in QUBO_FILES else "ising"
    if kind not in KINDS:
        raise ValueError(f"--kind must be one of {', '.join(KINDS)}; got {kind!r}.")
    problem = read(path)
    factor = {"ising": beta, "maxcut": -beta / 2, "qubo": -beta}[kind]
    pairs, sites = problem.i != problem.j, len(problem.names)
    weight = problem.weight[pairs]
    diagonal = np.bincount(problem.i[~pairs], problem.weight[~pairs], minlength=sites)
    if kind != "qubo" and np.any(diagonal):
        raise ValueError(
            f"{path} has weights of a site with itself, a constant for spins; --kind qubo reads "
            "the weights as those of bits."
        )
    couplings = (problem.i[pairs], problem.j[pairs], factor * weight)
    pairwise: Any = hs.Pairwise
    target = pairwise(couplings, factor * diagonal, bits=kind == "qubo")
    if kind == "maxcut":
        target = target.shifted(beta / 2 * weight.sum())
    return Loaded(target, kind, problem.names)


def read(path: Path) -> Problem:
    if not path.is_file():
        what = f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
        raise FileNotFoundError(f"{what}; give a file of couplings.")
    with path.open("rb") as file:
        begins = file.read(len(MATRIX_MARKET))
    if begins == MATRIX_MARKET or path.suffix.lower() == ".mtx" or path.name.endswith(".mtx.gz"):
        return _matrix_market(path)
    return _edges(path)


def _matrix_market(path: Path) -> Problem:
    from scipy import io, sparse

    try:
        with path.open("rb") as file:  # by name, SciPy would ask for the suffix .mtx
            source = path if path.suffix == ".gz" else file
            found: Any = sparse.coo_array(io.mmread(source, spmatrix=False))
    except Exception as error:  # SciPy raises several
        raise ValueError(f"{path} is not a MatrixMarket file: {error}") from error
    if found.ndim != 2 or found.shape[0] != found.shape[1]:
        raise ValueError(f"{path} must hold a square matrix; it has shape {found.shape}.")
    if np.iscomplexobj(found.data):
        raise ValueError(f"{path} must hold real numbers; it has complex ones.")
    if found.nnz and abs(found + found.T).nnz == 0:
        raise ValueError(f"{path} is skew-symmetric: w_ij and w_ji cancel in each pair.")
    if abs(found - found.T).nnz == 0:
        found = sparse.coo_array(sparse.triu(found))  # each pair once
    return Problem(found.row, found.col, found.data.astype(float), np.arange(1, found.shape[0] + 1))


def _edges(path: Path) -> Problem:
    """Lines of two sites and a weight, 1 if omitted; other lines are comments or a header."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}.") from error
    rows, nodes, dimacs = [], 0, False
    for number, line in enumerate(text.splitlines(), 1):
        words = line.replace(",", " ").split()
        if not words or words[0][0] in "#%" or words[0] == "c":
            continue
        if words[0] == "p":
            nodes, dimacs = _nodes_of_dimacs(words), True
            continue
        if words[0] in ("e", "a"):
            words, dimacs = words[1:], True
        try:
            rows.append(_edge(words))
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: two whole numbers and a weight are needed, as in "
                f"'0 1 -0.5'; got {line!r}{error}."
            ) from None
    if not rows:
        raise ValueError(f"{path} has no edges: lines such as '0 1 -0.5'.")
    if not dimacs and _has_header(path, rows):
        nodes, edges, _ = rows.pop(0)
        if all(np.isnan(weight) for _, _, weight in rows):  # it might be an edge
            print(
                f"hopscale: the first line of {path} is read as {nodes} nodes and {edges} edges",
                file=sys.stderr,
            )
    i, j, weight = (np.array(column) for column in zip(*rows, strict=True))
    names = np.unique(np.concatenate([i, j]))
    if nodes > MOST_NODES:
        raise ValueError(f"{path} has {nodes:,} nodes; at most {MOST_NODES:,} can be read.")
    if nodes and names[0] >= 0 and names[-1] <= nodes:  # those without an edge too
        first = int(names[0] > 0)
        names = np.arange(first, max(nodes + first, names[-1] + 1))
    places = np.searchsorted(names, i), np.searchsorted(names, j)
    return Problem(*places, np.where(np.isnan(weight), 1.0, weight), names)


def _nodes_of_dimacs(words: list[str]) -> int:
    """The number of nodes in a line "p edge NODES EDGES"; 0 for other forms, such as QUBOs."""
    graph = len(words) == 4 and words[1] in ("edge", "col") and words[2].isdecimal()
    return int(words[2]) if graph else 0


def _edge(words: list[str]) -> tuple[int, int, float]:
    """Two sites and a weight, NaN if there is none; an error says what is wrong."""
    if not 2 <= len(words) <= 3:
        raise ValueError(f", {len(words)} words")
    sites = [int(word) if word.removeprefix("-").isdecimal() else None for word in words[:2]]
    for word, site in zip(words, sites, strict=False):
        if site is None or abs(site) > np.iinfo(np.int64).max:
            raise ValueError(f", where {word!r} is no number of a site")
    try:
        weight = float(words[2]) if len(words) > 2 else 0.0
    except ValueError:
        weight = np.nan
    if abs(weight) <= float(np.finfo(np.float32).max):
        return sites[0], sites[1], weight if len(words) > 2 else np.nan  # type: ignore[return-value]
    raise ValueError(f", where {words[2]!r} is no weight")


def _has_header(path: Path, rows: list) -> bool:
    """Whether the first line gives the numbers of nodes and edges, as in the G-set."""
    nodes, edges, weight = rows[0]
    others = rows[1:]
    if not others or not np.isnan(weight):
        return False
    if len(others) == edges and all(max(row[:2]) <= nodes for row in others):
        return True
    if not any(np.isnan(weight) for _, _, weight in others):  # the first line alone has none
        raise ValueError(
            f"the first line of {path}, '{nodes} {edges}', has no weight, and is not the number of "
            f"nodes and of edges, of which there are {len(others):,}: is the file whole?"
        )
    return False
