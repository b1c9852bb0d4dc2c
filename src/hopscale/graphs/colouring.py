"""Colours of sites such that neighbours differ: sites of one colour can be drawn at once."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int


def colour(start: np.ndarray, neighbour: np.ndarray) -> Int[np.ndarray, " n"]:
    """A colour for each site, different from its neighbours': two if two suffice, else a few."""
    parity = _two_colours(start, neighbour)
    return _greedy(start, neighbour) if parity is None else parity


def _two_colours(start: np.ndarray, neighbour: np.ndarray) -> Int[np.ndarray, " n"] | None:
    """The parity of each site's depth in a spanning tree; None if some neighbours share it."""
    from scipy.sparse import block_array, csgraph, csr_array

    n = len(start) - 1
    matrix = csr_array((np.ones(len(neighbour), np.int8), neighbour, start), shape=(n, n))
    _, component = csgraph.connected_components(matrix, directed=False)
    _, roots = np.unique(component, return_index=True)
    # One tree for all components: its root is an extra site, tied to one site of each.
    ties = csr_array((np.ones(len(roots), np.int8), (np.zeros_like(roots), roots)), shape=(1, n))
    tied = block_array([[matrix, ties.T], [ties, None]], format="csr")
    _, up = csgraph.breadth_first_order(tied, n, directed=False)
    up[n] = n
    parity = np.ones(n + 1, np.int32)
    parity[n] = 0
    while np.any(up != n):  # each round doubles the part of the path to the root that counts
        parity, up = parity ^ parity[up], up[up]
    parity = parity[:n] ^ 1
    rows = np.repeat(np.arange(n), np.diff(start))
    return None if np.any(parity[rows] == parity[neighbour]) else parity


def _greedy(start: np.ndarray, neighbour: np.ndarray) -> Int[np.ndarray, " n"]:
    """Greedy colouring in rounds.

    In a round, sites that come before all their uncoloured neighbours take the smallest colour that
    no neighbour has. Sites with more neighbours come first, those with equally many in random
    order.
    """
    n, degrees = len(start) - 1, np.diff(start)
    rank = np.empty(n, np.int64)
    rank[np.lexsort((np.random.default_rng(0).random(n), degrees))] = np.arange(n)
    rows = np.repeat(np.arange(n), degrees)
    ahead = np.bincount(rows, rank[neighbour] > rank[rows], minlength=n).astype(np.int64)
    colours = np.full(n, -1, np.int32)
    now = np.flatnonzero(ahead == 0)
    while now.size:
        rows, entries = _rows(start, now)
        others = neighbour[entries]
        colours[now] = _smallest_free(rows, colours[others], len(now))
        # Only these sites' neighbours have one less ahead, so that all rounds together look at each
        # pair twice.
        waiting = others[colours[others] < 0]
        np.subtract.at(ahead, waiting, 1)
        now = np.unique(waiting[ahead[waiting] == 0])
    return colours


def _rows(start: np.ndarray, sites: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each entry of these sites, which of the sites it belongs to, and its place."""
    counts = start[sites + 1] - start[sites]
    rows = np.repeat(np.arange(len(sites)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, start[sites][rows] + within


def _smallest_free(rows: np.ndarray, taken: np.ndarray, count: int) -> Int[np.ndarray, " count"]:
    """The smallest colour that none of a row's entries has."""
    most = int(taken.max(initial=0)) + 1
    row, colour = np.divmod(np.unique((rows * most + taken)[taken >= 0]), most)
    # A row's colours in order are 0, 1, 2, ... up to the first that is missing.
    place = np.arange(len(row)) - np.searchsorted(row, np.arange(count))[row]
    smallest = np.bincount(row, minlength=count)
    np.minimum.at(smallest, row[colour != place], place[colour != place])
    return smallest.astype(np.int32)


def blocks_of(colours: Iterable[int] | np.ndarray) -> Int[np.ndarray, "blocks size"]:
    """The sites of each colour, in order; shorter rows are padded with the number of sites."""
    colours = np.asarray(colours)
    rows = [np.flatnonzero(colours == c) for c in range(int(colours.max()) + 1)]
    blocks = np.full((len(rows), max(map(len, rows))), len(colours), np.int32)
    for row, sites in zip(blocks, rows, strict=True):
        row[: len(sites)] = sites
    return blocks
