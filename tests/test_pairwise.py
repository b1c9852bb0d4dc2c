"""Pairwise models: every way to write one down gives the formula."""

import itertools

import jax
import jax.numpy as jnp
import networkx
import numpy as np
import pytest
import scipy.sparse

import hopscale as hs
from hopscale.graphs import colouring
from hopscale.graphs.colouring import colour
from hopscale.graphs.graph import make_graph, read_pairs

RNG = np.random.default_rng(4)
N = 6
UPPER = np.triu(RNG.normal(size=(N, N)) * (RNG.random((N, N)) < 0.6), 1)
FIELD = RNG.normal(size=N)
ROW, COLUMN = np.nonzero(UPPER)
LISTED = [(int(i), int(j), float(UPPER[i, j])) for i, j in zip(ROW, COLUMN, strict=True)]


def network():
    graph = networkx.Graph()
    graph.add_nodes_from(f"node {k}" for k in range(N))
    graph.add_weighted_edges_from((f"node {j}", f"node {i}", c) for i, j, c in LISTED)
    return graph


def in_two_parts():
    """Entries that are listed twice add up, as in all of SciPy; a stored zero is no entry."""
    values = np.concatenate([UPPER[ROW, COLUMN] - 1.0, np.ones(len(ROW)), [0.0]])
    places = np.r_[ROW, ROW, COLUMN[0]], np.r_[COLUMN, COLUMN, ROW[0]]
    return scipy.sparse.coo_array((values, places), shape=UPPER.shape)


FORMS = {
    "upper": UPPER,
    "lower": UPPER.T,
    "symmetric": UPPER + UPPER.T,
    "jax": jnp.asarray(UPPER),
    "rows": UPPER.tolist(),
    "sparse": scipy.sparse.csr_array(UPPER + UPPER.T),
    "sparse matrix": scipy.sparse.coo_matrix(UPPER),
    "sparse, in two parts": in_two_parts(),
    "list": LISTED,
    "list, turned": [(j, i, c) for i, j, c in LISTED[::-1]],
    "rows of an array": np.array(LISTED),
    "rows of a JAX array": jnp.asarray(LISTED),
    "lists": [list(pair) for pair in LISTED],
    "tuple of tuples": tuple(LISTED),
    "arrays": (ROW, COLUMN, UPPER[ROW, COLUMN]),
    "dictionary": {(i, j): c for i, j, c in LISTED},
    "set": set(LISTED),
    "generator": (pair for pair in LISTED),
    "edges with data": networkx.Graph(
        [(i, j, {"weight": c}) for i, j, c in LISTED],
    ).edges(data=True),
    "networkx": network(),
}


def formula(x, bits=False):
    s = x if bits else 2 * x - 1
    pairs = sum(UPPER[i, j] * s[i] * s[j] for i, j in itertools.combinations(range(N), 2))
    return pairs + FIELD @ s


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_model(form):
    target = hs.Pairwise(FORMS[form], FIELD)
    model = hs.Pairwise(UPPER, FIELD)
    jax.tree.map(np.testing.assert_array_equal, target, model)


def test_tables_are_columns_of_pairs_or_matrices():
    pandas = pytest.importorskip("pandas")
    model, names = hs.Pairwise(UPPER, FIELD), [f"site {k}" for k in range(N)]
    tables = (
        pandas.DataFrame(LISTED, columns=["i", "j", "J"]),
        pandas.DataFrame(UPPER, index=names, columns=names),
    )
    for table in tables:
        jax.tree.map(np.testing.assert_array_equal, hs.Pairwise(table, FIELD), model)
    three = pandas.DataFrame({"i": [0, 1, 0], "j": [1, 2, 2]})
    assert hs.Pairwise(three).num_pairs == 3
    with pytest.raises(ValueError, match="the columns i, j, J or i, j"):
        hs.Pairwise(pandas.DataFrame(np.ones((5, 4))))


def test_three_tuples_of_three_are_pairs():
    pairs = ((0, 1, 5), (2, 3, 7), (1, 2, 4))
    listed, arrays = hs.Pairwise(list(pairs)), tuple(np.array(pairs).T)
    for form in (pairs, arrays):
        jax.tree.map(np.testing.assert_array_equal, hs.Pairwise(form), listed)


def test_tuples_within_a_tuple_are_pairs_too():
    triangle = hs.Pairwise([(0, 1), (1, 2), (0, 2)])
    columns = (np.array([0, 1, 0]), np.array([1, 2, 2]))
    for form in (((0, 1), (1, 2), (0, 2)), columns):
        jax.tree.map(np.testing.assert_array_equal, hs.Pairwise(form), triangle)


def test_pairs_without_a_coupling_have_one_of_1():
    pairs = [(i, j) for i, j, _ in LISTED]
    ones = hs.Pairwise([(i, j, 1.0) for i, j in pairs], FIELD)
    graph = networkx.Graph(pairs)
    for form in (pairs, np.array(pairs), [list(pair) for pair in pairs]):
        jax.tree.map(np.testing.assert_array_equal, hs.Pairwise(form, FIELD), ones)
    assert hs.Pairwise(graph).num_pairs == len(pairs)
    weighted = networkx.Graph()
    weighted.add_weighted_edges_from(LISTED)
    by_weight = hs.Pairwise(list(weighted.edges(data=True)), FIELD)
    jax.tree.map(np.testing.assert_array_equal, by_weight, hs.Pairwise(LISTED, FIELD))
    assert hs.Potts(np.array(pairs), 3).graph.num_pairs == len(pairs)


@pytest.mark.parametrize("bits", [False, True])
def test_log_prob_and_ratios_are_the_formulas(x64, bits):
    target = hs.Pairwise(UPPER, FIELD, bits=bits)
    for x in np.random.default_rng(1).integers(0, 2, (5, N)):
        np.testing.assert_allclose(target.log_prob(x), formula(x, bits), atol=1e-12)
        flips = [formula(np.where(np.arange(N) == i, 1 - x, x), bits) for i in range(N)]
        np.testing.assert_allclose(
            target.log_ratios(x), np.array(flips) - formula(x, bits), atol=1e-12
        )


def test_terms_are_what_the_model_was_made_of(x64):
    for bits in (False, True):
        pairs, field, offset = hs.Pairwise(UPPER, FIELD, bits=bits).terms()
        np.testing.assert_allclose(pairs.coupling, UPPER[ROW, COLUMN], atol=1e-14)
        np.testing.assert_allclose(field, FIELD, atol=1e-14)
        assert offset == 0


def test_diagonal_of_bits_is_a_field(x64):
    whole = hs.Pairwise(UPPER + np.diag(FIELD), bits=True)
    x = np.array([1, 0, 1, 1, 0, 1])
    np.testing.assert_allclose(whole.log_prob(x), formula(x, bits=True), atol=1e-12)


def test_a_lattice_is_the_ising_model():
    field, (down, right) = (
        RNG.normal(size=(3, 4)),
        (RNG.normal(size=(2, 4)), RNG.normal(size=(3, 3))),
    )
    sites = np.arange(12).reshape(3, 4)
    i = np.concatenate([sites[:-1].ravel(), sites[:, :-1].ravel()])
    j = np.concatenate([sites[1:].ravel(), sites[:, 1:].ravel()])
    target = hs.Pairwise((i, j, np.concatenate([down.ravel(), right.ravel()])), field)
    assert target.shape == (3, 4)
    x = RNG.integers(0, 2, (3, 4))
    ising = hs.Ising(field, (down, right))
    np.testing.assert_allclose(target.log_prob(x), ising.log_prob(x), rtol=1e-5)
    np.testing.assert_allclose(target.log_ratios(x), ising.log_ratios(x), rtol=1e-4, atol=1e-5)


def test_a_hub_among_many_sites_needs_no_table():
    """A star: the padded table would hold n^2 entries, sums by rows hold the edges."""
    n = 3000
    star = hs.Pairwise((np.zeros(n - 1, int), np.arange(1, n), np.full(n - 1, 0.01)))
    x = RNG.integers(0, 2, n).astype(np.int8)
    s = 2.0 * x - 1
    expected = 0.01 * s[0] * s[1:].sum()
    assert float(star.log_prob(x)) == pytest.approx(expected, abs=1e-3)
    kernel = hs.Gibbs(implementation="reference")
    state, _ = kernel.step(jax.random.key(0), star, kernel.init(star, jnp.asarray(x)), jnp.ones(()))
    assert float(state.log_prob) == pytest.approx(float(star.log_prob(state.x)), abs=1e-3)


GRAPHS = {
    "path": (networkx.path_graph(9), 2),
    "even cycle": (networkx.cycle_graph(8), 2),
    "odd cycle": (networkx.cycle_graph(7), 3),
    "two parts": (networkx.disjoint_union(networkx.path_graph(3), networkx.star_graph(4)), 2),
    "complete": (networkx.complete_graph(5), 5),
    "no edges": (networkx.empty_graph(4), 1),
    "regular": (networkx.random_regular_graph(3, 50, seed=1), 4),
    "random": (networkx.gnp_random_graph(60, 0.2, seed=2), 13),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_neighbours_differ_in_colour(name):
    network, most = GRAPHS[name]
    pairs = read_pairs(network)
    graph = make_graph(pairs)
    colours = colour(np.asarray(graph.start), np.asarray(graph.neighbour))
    assert np.all(colours[pairs.i] != colours[pairs.j])
    assert colours.max() < most


def test_colouring_looks_at_each_pair_twice(monkeypatch):
    """Where every site has its own colour, rounds that look at all pairs take minutes."""
    looked, rows_of = [], colouring._rows

    def rows(*given):
        looked.append(rows_of(*given))
        return looked[-1]

    monkeypatch.setattr(colouring, "_rows", rows)
    graph = make_graph(read_pairs(np.ones((40, 40)) - np.eye(40)))
    assert graph.blocks.shape == (40, 1)
    assert sum(entries.size for _, entries in looked) == graph.neighbour.size == 40 * 39


FULL = UPPER + 2 * UPPER.T
BAD = {
    "asymmetric": (lambda: hs.Pairwise(FULL), ValueError, r"symmetric.*np\.triu\(J \+ J\.T, 1\)"),
    "self loop": (lambda: hs.Pairwise([(1, 1, 2.0)]), ValueError, "coupled to itself"),
    "diagonal": (lambda: hs.Pairwise(np.eye(3)), ValueError, "bits=True it adds to the field"),
    "nan": (lambda: hs.Pairwise([(0, 1, np.nan)]), ValueError, "NaN or infinity"),
    "nan in a matrix": (lambda: hs.Pairwise(np.full((2, 2), np.nan)), ValueError, "NaN or inf"),
    "out of range": (lambda: hs.Pairwise([(0, 7, 1.0)], np.zeros(3)), ValueError, r"0 \.\.\. 2"),
    "negative site": (lambda: hs.Pairwise([(-1, 1, 1.0)]), ValueError, "from -1 to 1"),
    "twice": (lambda: hs.Pairwise([(0, 1, 1.0), (1, 0, 1.0)]), ValueError, "more than once"),
    "labels": (lambda: hs.Pairwise([("a", "b", 1.0)]), TypeError, "sites are integers"),
    "short pairs": (lambda: hs.Pairwise([(0,)]), ValueError, r"a pair is \(i, j, J\)"),
    "not square": (lambda: hs.Pairwise(np.ones((4, 5))), ValueError, "must be square"),
    "lengths": (lambda: hs.Pairwise(([0], [1], [1.0, 2.0])), ValueError, "of one length"),
    "no sites": (lambda: hs.Pairwise([]), ValueError, "at least one site"),
    "field of another size": (lambda: hs.Pairwise(UPPER, np.zeros(3)), ValueError, "must agree"),
    "a word for a weight": (
        lambda: hs.Pairwise(networkx.Graph([(0, 1, {"weight": "heavy"})])),
        TypeError,
        "weights of edges must be real numbers",
    ),
    "directed": (lambda: hs.Pairwise(networkx.DiGraph([(0, 1)])), TypeError, "to_undirected"),
    "a number": (lambda: hs.Pairwise(3.0), TypeError, "couplings must be a square matrix"),
    "bits": (lambda: hs.Pairwise(UPPER, bits=1), TypeError, "bits must be"),  # pyright: ignore
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_a_model_is_refused(name):
    make, error, words = BAD[name]
    with pytest.raises(error, match=words):
        make()
