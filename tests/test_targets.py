"""Log-probabilities and log-ratios against plain loops."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs

RNG = np.random.default_rng(11)


def all_bits(shape):
    n = int(np.prod(shape))
    return np.array(list(itertools.product((0, 1), repeat=n)), np.int8).reshape(-1, *shape)


def bernoulli_log_prob(p, x):
    return sum(np.log(q if bit else 1 - q) for q, bit in zip(p.ravel(), x.ravel(), strict=True))


def ising_log_prob(field, coupling, x):
    s = 2.0 * x - 1.0
    total = np.sum(field * s)
    rows, columns = s.shape
    for i in range(rows):
        for j in range(columns):
            if i + 1 < rows:
                total += coupling[0][i, j] * s[i, j] * s[i + 1, j]
            if j + 1 < columns:
                total += coupling[1][i, j] * s[i, j] * s[i, j + 1]
    return total


def fhmm_log_prob(y, w, b, sigma, stay, first, axis, x):
    total = sum(-((y[t] - x[t] @ w - b) ** 2) / (2 * sigma**2) for t in range(len(y)))
    chains = x.T if axis == "time" else x
    for chain in chains:
        total += np.log(first if chain[0] else 1 - first)
        for before, after in itertools.pairwise(chain):
            total += np.log(stay if before == after else 1 - stay)
    return total


P = RNG.uniform(0.1, 0.9, size=5)
FIELD = RNG.normal(size=(2, 3))
BONDS = (RNG.normal(size=(1, 3)), RNG.normal(size=(2, 2)))
Y, W = RNG.normal(size=3), RNG.normal(size=2)

CASES = {
    "bernoulli": (lambda r: hs.Bernoulli(P, ratios=r), lambda x: bernoulli_log_prob(P, x)),
    "ising": (
        lambda r: hs.Ising(FIELD, BONDS, ratios=r),
        lambda x: ising_log_prob(FIELD, BONDS, x),
    ),
    "uniform ising": (
        lambda r: hs.Ising(FIELD, 0.3, ratios=r),
        lambda x: ising_log_prob(FIELD, (np.full((1, 3), 0.3), np.full((2, 2), 0.3)), x),
    ),
    "fhmm": (
        lambda r: hs.FHMM(Y, W, 0.3, 0.8, 0.7, 0.2, ratios=r),
        lambda x: fhmm_log_prob(Y, W, 0.3, 0.8, 0.7, 0.2, "time", x),
    ),
    "fhmm along factors": (
        lambda r: hs.FHMM(Y, W, 0.3, 0.8, 0.7, 0.2, axis="factor", ratios=r),
        lambda x: fhmm_log_prob(Y, W, 0.3, 0.8, 0.7, 0.2, "factor", x),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_log_prob_agrees_with_the_formula_up_to_a_constant(x64, name):
    make, formula = CASES[name]
    target = make("exact")
    states = all_bits(target.shape)
    ours = np.array([float(target.log_prob(x)) for x in states])
    theirs = np.array([formula(x) for x in states])
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-12)


def test_bernoulli_is_normalised(x64):
    total = sum(np.exp(float(hs.Bernoulli(P).log_prob(x))) for x in all_bits((5,)))
    assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_exact_ratios_are_differences_of_log_prob(x64, name):
    make, _ = CASES[name]
    target = make("exact")
    for x in all_bits(target.shape)[::5]:
        log_prob, ratios, _ = target.evaluate(x)
        np.testing.assert_allclose(log_prob, target.log_prob(x), atol=1e-12)
        np.testing.assert_allclose(ratios, target.log_ratios(x), atol=1e-12)
        for site in np.ndindex(*target.shape):
            y = x.copy()
            y[site] = 1 - y[site]
            np.testing.assert_allclose(ratios[site], target.log_prob(y) - log_prob, atol=1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "ising"])
def test_gradient_ratios_are_exact_for_multilinear_targets(x64, name):
    make, _ = CASES[name]
    x = all_bits(make("exact").shape)[13]
    np.testing.assert_array_equal(make("exact").log_ratios(x), make("gradient").log_ratios(x))


def test_gradient_ratios_of_the_fhmm_are_its_gradient(x64):
    def log_density(x):
        s = 2 * x - 1
        bond, start = 0.5 * np.log(0.7 / 0.3), 0.5 * np.log(0.2 / 0.8)
        residual = Y - x @ W - 0.3
        prior = start * jnp.sum(s[0]) + bond * jnp.sum(s[1:] * s[:-1])
        return prior - jnp.sum(residual**2) / (2 * 0.8**2)

    target = CASES["fhmm"][0]("gradient")
    generic = hs.LogDensity(log_density, target.shape, ratios="gradient")
    exact = hs.LogDensity(log_density, target.shape, ratios="exact")
    for x in all_bits(target.shape)[::7]:
        np.testing.assert_allclose(target.log_ratios(x), generic.log_ratios(x), atol=1e-12)
        np.testing.assert_allclose(
            CASES["fhmm"][0]("exact").log_ratios(x), exact.log_ratios(x), atol=1e-12
        )
        assert np.abs(np.asarray(target.log_ratios(x) - exact.log_ratios(x))).max() > 1e-3


def test_categorical_ratios(x64):
    field, bond = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 4))

    def log_density(code):
        return jnp.sum(field * code) + code[0, 0] @ bond @ code[1, 2]

    gradient = hs.LogDensity(log_density, (2, 3), num_states=4, ratios="gradient")
    exact = hs.LogDensity(log_density, (2, 3), num_states=4, ratios="exact")
    x = RNG.integers(0, 4, size=(2, 3)).astype(np.int8)
    # Linear in each site's code, so both forms are exact.
    np.testing.assert_allclose(gradient.log_ratios(x), exact.log_ratios(x), atol=1e-12)
    y = x.copy()
    y[1, 2] = (x[1, 2] + 3) % 4
    change = exact.log_prob(y) - exact.log_prob(x)
    np.testing.assert_allclose(exact.log_ratios(x)[1, 2, y[1, 2]], change, atol=1e-12)
    np.testing.assert_allclose(exact.log_ratios(x)[1, 2, x[1, 2]], 0.0, atol=1e-12)


def test_states_are_small_integers():
    assert hs.Bernoulli(P).state_dtype == np.int8
    assert hs.LogDensity(jnp.sum, (3,), num_states=127).state_dtype == np.int8
    assert hs.LogDensity(jnp.sum, (3,), num_states=300).state_dtype == np.int16


def test_ising_takes_any_dimension(x64):
    chain = hs.Ising(np.array([0.1, -0.2, 0.3]), 0.5)
    assert float(chain.log_prob(np.array([1, 1, 0]))) == pytest.approx(0.1 - 0.2 - 0.3 + 0.0)
    cube = hs.Ising(np.zeros((2, 2, 2)), 1.0)
    assert float(cube.log_prob(np.ones((2, 2, 2), np.int8))) == pytest.approx(12.0)


def test_targets_are_pytrees_of_their_parameters():
    leaves = jax.tree.leaves(hs.Ising(FIELD, 0.3))
    assert all(isinstance(leaf, jax.Array) for leaf in leaves)


def test_gradients_with_respect_to_parameters():
    """As training needs them; kernels must not be in the way."""
    x = jnp.asarray([[1, 0, 1], [0, 0, 1]])
    slope = jax.grad(lambda h: hs.Ising(h, 0.1).log_prob(x))(jnp.zeros((2, 3)))
    np.testing.assert_array_equal(slope, 2.0 * x - 1.0)
    bond = jax.grad(lambda j: hs.Ising(jnp.zeros((2, 3)), j).log_prob(x))(0.1)
    assert float(bond) == pytest.approx(ising_log_prob(0.0, [np.ones((2, 3))] * 2, np.asarray(x)))
    ratios = jax.jacobian(lambda h: hs.Ising(h, 0.1).log_ratios(x))(jnp.zeros((2, 3)))
    diagonal = np.asarray(ratios).reshape(6, 6).diagonal()
    np.testing.assert_array_equal(diagonal, -2.0 * (2.0 * np.asarray(x).ravel() - 1.0))


def test_targets_can_be_built_inside_a_program():
    x = jnp.asarray([[1, 0], [0, 1], [1, 1]])
    inside = jax.jit(lambda y, s: hs.FHMM(y, W, 0.1, s).log_prob(x))(Y, 0.8)
    assert float(inside) == pytest.approx(float(hs.FHMM(Y, W, 0.1, 0.8).log_prob(x)), rel=1e-5)
    fields = jnp.asarray(RNG.normal(size=(4, 2, 3)), jnp.float32)
    states = jnp.asarray(all_bits((2, 3))[5])
    many = jax.vmap(lambda h: hs.Ising(h, 0.2).log_prob(states))(fields)
    each = [float(hs.Ising(h, 0.2).log_prob(states)) for h in fields]
    np.testing.assert_allclose(many, each, rtol=1e-5)


def test_half_precision_parameters_are_widened():
    assert hs.Bernoulli(jnp.asarray([0.25, 0.5], jnp.bfloat16)).dtype == jnp.float32


def test_neighbours_that_are_not_numbers_get_no_weight(x64):
    target = hs.LogDensity(
        lambda x: jnp.where(x[0] == 1, jnp.nan, jnp.sum(x)), (3,), ratios="exact"
    )
    assert target.log_ratios(np.array([0, 0, 1])).tolist() == [-np.inf, 1.0, -1.0]


def test_sizes_may_be_numpy_integers():
    target = hs.LogDensity(jnp.sum, (np.int64(4),), num_states=np.int64(3))  # pyright: ignore
    assert (target.shape, target.num_states) == ((4,), 3)
    assert hs.LogDensity(jnp.sum, 4).shape == (4,)


@pytest.mark.parametrize("kind", [np.int32, np.uint8, bool])
def test_chains_begin_at_integers_of_any_kind(kind):
    target = hs.Pairwise([(0, 1, 1.0), (1, 2, 1.0)])
    for kernel in (hs.Gibbs(), hs.LBP(), hs.RWM()):
        state = kernel.init(target, jnp.asarray([1, 0, 1]).astype(kind))
        assert state.x.dtype == np.int8
        np.testing.assert_allclose(state.log_prob, target.log_prob(np.array([1, 0, 1])))
