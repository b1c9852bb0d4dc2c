"""Variable selection: exact by enumeration, updates that are evaluations, runs that find it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.csgraph
import scipy.special
from scipy.special import betaln

import hopscale as hs
from diabetes import NAMES, diabetes
from hopscale.models import GPrior, Inclusion, Slab, VariableSelection
from hopscale.move import apply
from hopscale.select import listed
from runs import errors_away, most_errors

PRIORS = {"g": GPrior(), "g = 7": GPrior(7.0), "slab": Slab(0.5)}


def simulated(n=40, p=6, seed=0):
    """Correlated columns, two of which count."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) + 0.7 * rng.normal(size=(n, 1))
    return x, 1.0 + x[:, 1] - 0.8 * x[:, 3 % p] + rng.normal(size=n)


def log_posterior(x, y, gamma, prior, inclusion):
    """By the book, in plain NumPy: dense matrices of observations."""
    n, p = x.shape
    x, y = x - x.mean(axis=0), y - y.mean()
    x = x / x.std(axis=0)
    used = x[:, gamma == 1]
    k = used.shape[1]
    if isinstance(prior, GPrior):
        g = n if prior.g is None else prior.g
        inner = g * used @ np.linalg.pinv(used.T @ used) @ used.T
    else:
        inner = prior.variance * used @ used.T
    covariance = np.eye(n) + inner
    marginal = -0.5 * np.linalg.slogdet(covariance)[1]
    marginal -= 0.5 * (n - 1) * np.log(y @ np.linalg.solve(covariance, y))
    if np.ndim(inclusion):
        return marginal + betaln(inclusion[0] + k, inclusion[1] + p - k)
    return marginal + k * np.log(inclusion) + (p - k) * np.log1p(-inclusion)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("inclusion", [0.2, (1.0, 3.0)], ids=["fixed", "beta"])
def test_posterior_is_that_of_the_book(x64, prior, inclusion):
    x, y = simulated()
    model = VariableSelection(x, y, prior, inclusion=inclusion)
    states = hs.check.states(model)
    truth = np.array([log_posterior(x, y, s, prior, inclusion) for s in states])
    truth = np.exp(truth - truth.max())
    np.testing.assert_allclose(hs.check.probabilities(model), truth / truth.sum(), atol=1e-8)


def test_ratios_of_a_nearly_perfect_fit_keep_their_digits():
    """What is not explained is a millionth: 1 - (1 - rss) would have one digit of it."""
    x, _ = simulated(n=40, p=4)
    y = x[:, 1] + 1e-3 * np.random.default_rng(1).normal(size=40)
    model = VariableSelection(x, y, Slab(1e4))
    with_it = np.array([0, 1, 0, 0])
    ratios = np.asarray(model.log_ratios(with_it))
    for j in (0, 2, 3):
        other = with_it.copy()
        other[j] = 1
        here, there = (log_posterior(x, y, g, Slab(1e4), (1.0, 1.0)) for g in (with_it, other))
        assert ratios[j] == pytest.approx(there - here, abs=0.02)


@pytest.mark.parametrize("prior", [GPrior(), Slab(0.5)], ids=["g", "slab"])
def test_ratios_and_updates_are_exact(x64, prior):
    x, y = simulated(n=30, p=9)
    model = VariableSelection(x, y, prior, max_size=5)
    assert hs.check.ratios(model, model.starts(jax.random.key(1), 4)).error < 1e-7
    follow = jax.jit(lambda x, at, move: model.update(x, at, move))
    evaluate = jax.jit(lambda x: model.evaluate(x))
    state = jnp.zeros(9, jnp.int8)
    at = evaluate(state)
    for sites in ([0, 4, 7], [4, 2], [0, 1, 3, 2], [7], [0, 4, 5]):
        choice = listed(jnp.asarray([*sites, *range(9 - len(sites))]), jnp.asarray(len(sites)))
        move = hs.Move(choice=choice, moved=choice.chosen, values=None)
        at, state = follow(state, at, move), apply(state, move)
        scratch = evaluate(state)
        np.testing.assert_allclose(at.log_prob, scratch.log_prob, atol=1e-8)
        np.testing.assert_allclose(at.log_ratios, scratch.log_ratios, atol=1e-6)


def test_sizes_are_bounded(x64):
    x, y = simulated(n=30, p=4)
    model = VariableSelection(x, y, max_size=2)
    sizes = hs.check.states(model).sum(axis=1)
    assert np.all(hs.check.probabilities(model)[sizes > 2] == 0)
    possible = np.flatnonzero(sizes <= 2)
    pi = hs.check.probabilities(model)[possible]
    matrix = hs.check.transition_matrix(model, hs.LBP(), 2)[np.ix_(possible, possible)]
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(pi @ matrix, pi, atol=1e-10)
    groups, _ = scipy.sparse.csgraph.connected_components(matrix > 0, connection="strong")
    assert groups == 1


class Broken(VariableSelection):
    """A twin that forgets the penalty of a column in its log-probability, not in its ratios."""

    def _given(self, fit, columns):
        found = super()._given(fit, columns)
        return found._replace(log_prob=found.log_prob + self.penalty * fit.size)


def test_broken_twin_is_found(x64):
    twin = Broken(*simulated())  # pyright: ignore[reportCallIssue]
    assert hs.check.ratios(twin).error > 1


@pytest.fixture(scope="module")
def run():
    x, y = diabetes()
    model = VariableSelection(x, y, names=NAMES)
    # From exact draws: no warm-up, which would be a program of its own.
    pi, states = hs.check.probabilities(model), hs.check.states(model)
    init = states[np.random.default_rng(0).choice(len(pi), 40, p=pi)]
    settings: dict[str, Any] = {"chains": 40, "warmup": 0, "draws": 400, "progress": False}
    record, scale = {"inclusion": Inclusion()}, hs.Fixed(2)
    return hs.sample(model, record=record, keep="all", init=init, scale=scale, **settings)


def test_diabetes_against_enumeration(run):
    model = run.target
    pi, states = hs.check.probabilities(model), hs.check.states(model)
    truth = pi @ states
    found = model.inclusion(run)
    mean = np.array([found[name][0] for name in NAMES])
    error = np.array([found[name][1] for name in NAMES])
    assert np.all(np.abs(mean - truth) < most_errors(10, 40) * error + 1e-4)
    assert {*list(found)[:3]} == {"bmi", "bp", "s5"}
    assert errors_away(run.draws.mean(axis=1)[:, 4:8], truth[4:8]) < most_errors(4, 40)
    # The recorder's means vary less than those of the bits.
    bits = run.draws.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(40)
    assert error[[0, 9]].max() < 0.7 * bits[[0, 9]].min()


def test_twelve_columns_against_enumeration():
    """All 4,096 models; columns are correlated, and chains exchange them."""
    x, y = simulated(n=50, p=12, seed=2)
    model = VariableSelection(x, y, Slab(1.0))
    truth = hs.check.probabilities(model) @ hs.check.states(model)
    settings: dict[str, Any] = {"chains": 40, "warmup": 200, "draws": 600, "progress": False}
    run = hs.sample(model, keep="all", **settings)
    assert isinstance(run.kernel, hs.Exchange)
    assert run.r_hat < 1.1
    assert run.draws is not None
    by_chain, sure = run.draws.mean(axis=1), np.abs(truth - 0.5) > 0.499
    assert errors_away(by_chain[:, ~sure], truth[~sure]) < most_errors(12, 40)
    np.testing.assert_allclose(by_chain.mean(axis=0)[sure], truth[sure], atol=2e-3)


def test_columns_can_be_clamped():
    """Of many columns: chains start at models that are small enough."""
    x, y = simulated(n=60, p=200)
    given = hs.clamp(VariableSelection(x, y), [0, 7], [1, 0])
    run = hs.sample(given, chains=4, warmup=5, draws=5, keep="all", progress=False)
    assert isinstance(run.kernel, hs.Exchange)
    assert run.draws is not None
    assert np.all(given.full(run.draws)[..., [0, 7]] == [1, 0])


def test_models_are_ranked(run):
    model = run.target
    pi, states = hs.check.probabilities(model), hs.check.states(model)
    best = model.ranking(run, top=3)
    assert len(best) == 3
    assert best[0].probability >= best[1].probability
    truth = pi[np.all(states == best[0].x, axis=1)][0]
    assert abs(best[0].probability - truth) < most_errors(1, 40) * best[0].error
    assert best[0].columns == tuple(np.array(NAMES)[best[0].x == 1])


def test_a_run_goes_on_from_its_file(run, tmp_path):
    run.save(tmp_path / "run")
    target = hs.load(tmp_path / "run").target
    assert isinstance(target, VariableSelection)
    assert target.names == NAMES


def test_repeated_columns_are_no_error():
    x, y = simulated()
    model = VariableSelection(np.concatenate([x, x], axis=1), y)
    found = model.evaluate(np.ones(12, int))
    assert np.isfinite(found.log_prob)
    assert np.all(np.isfinite(np.asarray(found.log_ratios)))


@pytest.mark.parametrize("prior", [GPrior(), Slab(1.0), Slab(100.0), Slab(1e4)], ids=repr)
def test_repeated_columns_are_followed_in_single_precision(prior):
    """One of six columns stands there three times; two change at a time, a thousand times."""
    x, y = simulated()
    model = VariableSelection(np.concatenate([x, x[:, [1, 1]]], axis=1), y, prior)

    def follow(carry, key):
        state, at = carry
        choice = listed(jax.random.permutation(key, 8), jnp.asarray(2))
        move = hs.Move(choice=choice, moved=choice.chosen, values=None)
        at, state = model.update(state, at, move), apply(state, move)
        return (state, at), (at, model.evaluate(state))

    def walk(state):
        keys = jax.random.split(jax.random.key(0), 1000)
        return jax.lax.scan(follow, (state, model.evaluate(state)), keys)[1]

    found, scratch = jax.jit(walk)(jnp.zeros(8, jnp.int8))
    np.testing.assert_allclose(found.log_prob, scratch.log_prob, atol=0.05)


def test_inclusion_of_repeated_columns_is_right():
    """In single precision, with a slab so wide that their log-ratios are mostly rounding."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 6))
    x[:, 5], x[:, 3] = x[:, 4], 2 - 3 * x[:, 4]
    y = 0.6 * x[:, 4] + 0.4 * x[:, 0] + rng.normal(size=60)
    model = VariableSelection(x, y, Slab(50.0))
    truth = hs.check.probabilities(model) @ hs.check.states(model)
    settings: dict[str, Any] = {"chains": 100, "warmup": 150, "draws": 600, "progress": False}
    mean, error = hs.sample(model, record={"in": Inclusion()}, **settings).recorded["in"]
    assert np.max(np.abs(mean - truth) / error) < most_errors(6, 100)
    given = hs.clamp(model, [1], [0])
    truth = hs.check.probabilities(given) @ hs.check.states(given)
    mean, error = hs.sample(given, record={"in": Inclusion()}, **settings).recorded["in"]
    assert np.max(np.abs(mean - truth) / error) < most_errors(5, 100)


def test_clamped_columns_count_where_chains_start():
    x, y = simulated()
    given = hs.clamp(VariableSelection(x, y, max_size=3), [0, 3], [1, 1])
    run = hs.sample(given, chains=20, warmup=5, draws=5, progress=False)
    assert run.num_draws == 5


X, Y = simulated()
BAD: dict[str, Any] = {
    "shapes": (lambda: VariableSelection(X, Y[:-1]), ValueError, r"\(n, p\)"),
    "transposed": (lambda: VariableSelection(X.T, Y), ValueError, r"got \(6, 40\)"),
    "constant": (lambda: VariableSelection(np.ones_like(X), Y), ValueError, "is constant"),
    "nan": (lambda: VariableSelection(X * np.nan, Y), ValueError, "finite"),
    "words": (lambda: VariableSelection([["a"]], ["b"]), TypeError, "real numbers"),
    "prior": (lambda: VariableSelection(X, Y, 3), TypeError, "GPrior"),  # pyright: ignore
    "g": (lambda: VariableSelection(X, Y, GPrior(-1.0)), ValueError, "g must lie"),
    "slab": (lambda: VariableSelection(X, Y, Slab(0.0)), ValueError, "variance must lie"),
    "inclusion": (lambda: VariableSelection(X, Y, inclusion=1.5), ValueError, "inclusion must"),
    "size": (lambda: VariableSelection(X, Y, max_size=7), ValueError, "at most 6"),
    "names": (lambda: VariableSelection(X, Y, names=["a"]), ValueError, "one for each of 6"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_work_is_refused(name):
    make, error, message = BAD[name]
    with pytest.raises(error, match=message):
        make()


def powers_of_x():
    """Eight powers of one variable, of which five count: the last leave 1e-9 of each other."""
    x = np.linspace(0, 1, 60)
    powers = np.stack([x**k for k in range(1, 9)], axis=1)
    noise = 0.05 * np.random.default_rng(3).normal(size=60)
    return powers, powers[:, :5] @ [1, -3, 4, 1, -3] + noise


def differences():
    """Four columns, the same with a little noise, and a response that depends on a difference."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    x = np.concatenate([x, x + 1e-3 * rng.normal(size=(60, 4))], axis=1)
    return x, 1e3 * (x[:, 0] - x[:, 4]) + x[:, 1] + rng.normal(size=60)


@pytest.mark.parametrize("prior", [GPrior(), Slab(1e4)], ids=repr)
@pytest.mark.parametrize("data", [powers_of_x, differences])
def test_columns_that_nearly_repeat_others_are_right_in_single_precision(data, prior):
    """After a thousand changes, too, and in a program that is batched from outside."""
    x, y = data()
    model = VariableSelection(x, y, prior)

    def follow(carry, key):
        state, at = carry
        choice = listed(jax.random.permutation(key, 8), jnp.asarray(1))
        at, state = model.update(state, at, hs.Move(choice, choice.chosen, None)), state
        state = state ^ choice.chosen.astype(state.dtype)
        return (state, at), (state, at.log_prob)

    def walk(seed):
        state = jnp.zeros(8, jnp.int8)
        keys = jax.random.split(jax.random.key(seed), 1000)
        return jax.lax.scan(follow, (state, model.evaluate(state)), keys)[1]

    states, found = jax.jit(jax.vmap(walk))(jnp.arange(2))
    states, found = np.asarray(states[:, -40:]).reshape(-1, 8), np.asarray(found[:, -40:])
    truth = np.array([log_posterior(x, y, s, prior, (1.0, 1.0)) for s in states])
    off = found.reshape(-1) - truth
    assert np.ptp(off) < 0.05


def test_a_run_on_columns_that_nearly_repeat_others_is_right():
    x, y = differences()
    model = VariableSelection(x[:, [0, 1, 4, 5]], y)
    states = hs.check.states(model)
    truth = np.array(
        [log_posterior(x[:, [0, 1, 4, 5]], y, s, GPrior(), (1.0, 1.0)) for s in states]
    )
    truth = scipy.special.softmax(truth) @ states
    settings: dict[str, Any] = {"chains": 40, "warmup": 50, "draws": 200, "progress": False}
    run = hs.sample(model, hs.LBP(), scale=hs.Fixed(2), record={"in": Inclusion()}, **settings)
    mean, error = run.recorded["in"]
    assert np.all(np.abs(mean - truth) < most_errors(4, 40) * error + 1e-3)


def test_a_ridge_that_changes_the_posterior_is_named():
    """A difference of a millionth counts; columns that repeat others exactly do no harm."""
    rng = np.random.default_rng(3)
    columns, _ = simulated()
    close = columns[:, :1] + 1e-6 * rng.normal(size=(40, 1))
    x = np.concatenate([columns, close], axis=1)
    y = 1e6 * (x[:, 0] - x[:, 6]) + rng.normal(size=40)
    (sentence,) = VariableSelection(x, y).cautions()
    assert "ridge of 1e-12" in sentence
    settings: dict[str, Any] = {"chains": 2, "warmup": 0, "draws": 1, "progress": False}
    assert sentence in hs.sample(VariableSelection(x, y), hs.RWM(), **settings).warnings
    assert VariableSelection(x, y, Slab(1.0)).cautions() == ()
    columns, response = simulated()
    sums = columns[:, [1]] + columns[:, [2]]
    repeated = np.concatenate([columns, columns[:, [1, 1]], sums], axis=1)
    assert VariableSelection(repeated, response).cautions() == ()
    assert VariableSelection(*diabetes()).cautions() == ()
    assert VariableSelection(*powers_of_x()).cautions() == ()
