"""The kernels against double precision, against plain JAX, and against enumeration."""

import itertools
import shutil
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import log_expit, logsumexp

from hopscale.native import cpu, reference
from small import FALSE_ALARM

# Where there is a compiler the package's build makes the kernels, and a failure to is a failure.
HAS_COMPILER = shutil.which("c++") is not None or shutil.which("g++") is not None
pytestmark = pytest.mark.skipif(
    not cpu.ready()[0] and not HAS_COMPILER, reason="there is no compiler to build the kernels"
)

TIE = 1e-5  # a level this close to a sum, relatively, may fall on either side
BALANCES = [None, "barker", "sqrt"]
SIZES = [1, 2, 7, 100, 127, 128, 129, 1000, 10007]


def keys(chains, seed=0):
    return jax.random.split(jax.random.key(seed), chains)


def words(key, n):
    return np.asarray(jax.random.bits(key, (n,), jnp.uint32))


def log_weights(s, balance):
    s = np.asarray(s, np.float64)
    return {None: s, "barker": log_expit(s), "sqrt": s / 2}[balance]


def order_log_prob(lw, sites, chosen, backwards=False):
    along = lw[sites] if backwards else lw[sites][::-1]
    rest = logsumexp(lw[~chosen]) if (~chosen).any() else -np.inf
    left = np.logaddexp(np.logaddexp.accumulate(along), rest)
    return -np.inf if (along == -np.inf).any() else np.sum(along - left)


def check_choice(sites, chosen, length, n, repeats=False):
    assert sites.dtype == np.int32
    assert chosen.dtype == np.bool_
    assert ((sites >= 0) & (sites < n)).all()
    assert (sites[length:] == 0).all()
    assert set(np.flatnonzero(chosen)) == set(sites[:length])
    assert repeats or chosen.sum() == length


def check_race(s, length, out, balance=None):
    sites, chosen, log_prob = map(np.asarray, out)
    check_choice(sites, chosen, length, s.size)
    lw = log_weights(s, balance)
    expected = order_log_prob(lw, sites[:length], chosen)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)
    for backwards in (False, True):
        log_prob = cpu.order_log_prob(
            s, sites, chosen, jnp.int32(length), balance=balance, backwards=backwards
        )
        expected = order_log_prob(lw, sites[:length], chosen, backwards)
        np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)


def lengths(n):
    return sorted({1, min(2, n), max(1, round(n ** (2 / 3))), max(1, n // 2), max(1, n - 1), n})


def ratios(n, kind, seed=3):
    rng = np.random.default_rng(seed)
    return {
        "equal": np.zeros(n),
        "tame": rng.uniform(-2, 2, n),
        "lognormal": rng.normal(0, 3, n),
        "wide": rng.uniform(-150, 150, n),
        "two levels": np.where(rng.random(n) < 0.1, 0.0, np.log(1e-30)),
        "one giant": np.where(np.arange(n) == n // 2, 60.0, rng.normal(size=n)),
        "far down": rng.uniform(-2, 2, n) - 500,
        "far up": rng.uniform(-2, 2, n) + 500,
        "some impossible": np.where(rng.random(n) < 0.5, -np.inf, rng.normal(size=n)),
        "few possible": np.where(np.arange(n) < 3, 0.0, -np.inf),
        "none possible": np.full(n, -np.inf),
    }[kind].astype(np.float32)


KINDS = ["equal", "tame", "lognormal", "wide", "two levels", "one giant", "far down", "far up",
         "some impossible", "few possible", "none possible"]  # fmt: skip


def test_kernels_are_built():
    ready, reason = cpu.ready()
    assert ready, reason


def test_words_and_keys_are_those_of_jax():
    for key in keys(3):
        np.testing.assert_array_equal(cpu.words(key, count=300), words(key, 300))
    key, step, chain = keys(1)[0], jnp.arange(50, dtype=jnp.int32) * 10**7, jnp.arange(50)
    for module in (cpu, reference):
        found = jax.vmap(module.step_key, in_axes=(None, 0, 0))(key, step, chain.astype(jnp.int32))
        for i in (0, 1, 49):
            expected = jax.random.fold_in(jax.random.fold_in(key, step[i]), chain[i])
            np.testing.assert_array_equal(found[i], jax.random.key_data(expected))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("balance", BALANCES)
def test_race_scores_its_choice_as_double_precision_does(n, kind, balance):
    s = ratios(n, kind)
    for length in lengths(n):
        for key in keys(2, seed=n + length):
            check_race(s, length, cpu.race(key, s, jnp.int32(length), balance=balance), balance)


@pytest.mark.parametrize(
    ("n", "balance"), [(1, None), (7, "sqrt"), (129, None), (1000, "barker"), (10007, "barker")]
)
def test_race_and_repeated_draw_the_sites_of_the_reference(n, balance):
    """All kinds of weights, so that rounds and clocks take part, in one batch."""
    cases = [(ratios(n, kind), length) for kind in KINDS for length in lengths(n)]
    s = jnp.asarray(np.stack([s for s, _ in cases]))
    length = jnp.asarray([length for _, length in cases], jnp.int32)
    key = keys(len(cases), seed=n)
    counted = np.arange(n) < np.asarray(length)[:, None]
    for name in ("race", "repeated"):
        ours, theirs = (
            jax.jit(jax.vmap(partial(getattr(module, name), balance=balance)))(key, s, length)
            for module in (cpu, reference)
        )
        # One draw that ties within rounding may shift all that follow.
        agree = ~(np.asarray(ours[0] != theirs[0]) & counted).any(axis=1)
        assert agree.mean() >= 0.9
        np.testing.assert_array_equal(ours[1][agree], theirs[1][agree])
        if name == "race":
            np.testing.assert_allclose(ours[2][agree], theirs[2][agree], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("length", [-5, 0, 1, 9, 10, 11, 2**31 - 1])
def test_length_is_clamped(length):
    s, key = ratios(10, "tame"), keys(1)[0]
    clamped = min(max(length, 0), 10)
    check_race(s, clamped, cpu.race(key, s, jnp.int32(length), balance=None))
    sites, chosen, _ = map(np.asarray, cpu.repeated(key, s, jnp.int32(length), balance=None))
    check_choice(sites, chosen, clamped, 10, repeats=True)
    sites, chosen = map(np.asarray, cpu.uniform(key, jnp.int32(length), n=10))
    check_choice(sites, chosen, clamped, 10)
    assert np.array_equal(cpu.odd(sites, jnp.int32(length)), chosen)


@pytest.mark.parametrize("kind", ["tame", "none possible", "nan"])
@pytest.mark.parametrize("module", [cpu, reference])
def test_no_choice_is_certain(module, kind):
    """Length 0: no site, log-probability 0, whatever the weights."""
    s = jnp.full(10, jnp.nan) if kind == "nan" else jnp.asarray(ratios(10, kind))
    for draw in (module.race, module.repeated):
        _, chosen, log_prob = draw(keys(1)[0], s, jnp.int32(0), balance=None)
        assert (int(chosen.sum()), float(log_prob)) == (0, 0.0)
    path = s, jnp.zeros(10, jnp.int32), jnp.zeros(10, bool), jnp.int32(0)
    assert float(module.order_log_prob(*path, balance=None, backwards=True)) == 0.0


def test_one_long_chain_is_the_same_shared_and_alone():
    """A long chain by itself is split among threads; one of many is not."""
    n = 70_001
    s = jnp.asarray(ratios(n, "lognormal"))
    for one in (partial(cpu.race, balance="barker"), partial(cpu.repeated, balance="sqrt")):
        shared = one(keys(1)[0], s, jnp.int32(3000))
        key = jnp.concatenate([keys(1), keys(39, seed=1)])
        among = jax.vmap(one, in_axes=(0, None, None))(key, s, jnp.int32(3000))
        for x, y in zip(shared, among, strict=True):
            np.testing.assert_array_equal(x, y[0])


@pytest.mark.parametrize("n", [1, 7, 1000])
@pytest.mark.parametrize("balance", BALANCES)
def test_nan_shows_in_the_probability_alone(n, balance):
    s = ratios(n, "tame")
    key = keys(1)[0]
    for where in (slice(n // 2, n // 2 + 1), slice(None)):
        bad = s.copy()
        bad[where] = np.nan
        for length in lengths(n):
            for draw, repeats in ((cpu.race, False), (cpu.repeated, True)):
                out = draw(key, bad, jnp.int32(length), balance=balance)
                sites, chosen, log_prob = map(np.asarray, out)
                check_choice(sites, chosen, length, n, repeats)
                assert np.isnan(log_prob)
            order = cpu.order_log_prob(
                bad, sites, chosen, jnp.int32(length), balance=balance, backwards=False
            )
            assert np.isnan(order)
            assert np.isnan(cpu.repeated_log_prob(bad, sites, jnp.int32(length), balance=balance))


def test_infinite_weight_is_harmless():
    s = ratios(100, "tame")
    s[17] = np.inf
    for key in keys(5):
        sites, chosen, _ = map(np.asarray, cpu.race(key, s, jnp.int32(10), balance=None))
        check_choice(sites, chosen, 10, 100)
        assert sites[0] == 17
        sites, chosen, _ = map(np.asarray, cpu.repeated(key, s, jnp.int32(10), balance=None))
        check_choice(sites, chosen, 10, 100, repeats=True)
        check_race(s, 10, cpu.race(key, s, jnp.int32(10), balance="barker"), "barker")


def test_ten_thousand_chains():
    chains, n = 10_000, 7
    rng = np.random.default_rng(0)
    s = rng.normal(size=(chains, n)).astype(np.float32)
    length = rng.integers(1, n + 1, chains).astype(np.int32)
    key = keys(chains)
    out = jax.jit(jax.vmap(partial(cpu.race, balance=None)))(key, s, length)
    for c in range(0, chains, 487):
        check_race(s[c], length[c], [x[c] for x in out])
    ours = jax.jit(jax.vmap(partial(cpu.order_log_prob, balance=None, backwards=False)))(
        s, out[0], out[1], length
    )
    np.testing.assert_allclose(ours, out[2], rtol=1e-5)


@pytest.mark.parametrize("n", [33, 800, 5000])
def test_batch_does_not_matter(n):
    chains = 64
    rng = np.random.default_rng(n)
    s = rng.normal(size=(chains, n)).astype(np.float32)
    length = rng.integers(1, n + 1, chains).astype(np.int32)
    key = keys(chains)
    for one in (
        partial(cpu.race, balance=None),
        partial(cpu.repeated, balance=None),
        partial(cpu.race, balance="barker"),
        lambda key, s, length: cpu.uniform(key, length, n=n),
    ):
        many = jax.jit(jax.vmap(one))(key, s, length)
        nested = jax.vmap(jax.vmap(one))(
            key.reshape(8, 8), s.reshape(8, 8, n), length.reshape(8, 8)
        )
        for c in range(chains):
            for x, y, z in zip(one(key[c], s[c], length[c]), many, nested, strict=True):
                np.testing.assert_array_equal(x, y[c])
                np.testing.assert_array_equal(x, z[c // 8, c % 8])


def test_only_some_arguments_batched():
    s, key = ratios(50, "tame"), keys(4)
    many = jax.vmap(partial(cpu.race, balance=None), in_axes=(0, None, None))(key, s, jnp.int32(9))
    for c in range(4):
        for x, y in zip(cpu.race(key[c], s, jnp.int32(9), balance=None), many, strict=True):
            np.testing.assert_array_equal(x, y[c])


def test_inside_a_loop():
    s = jnp.asarray(ratios(300, "tame"))

    @jax.jit
    def total(key):
        def step(i, sum):
            step_key = jax.random.fold_in(key, i)
            sites, chosen, forth = cpu.race(step_key, s, 20 + i, balance="barker")
            back = cpu.order_log_prob(s, sites, chosen, 20 + i, balance="barker", backwards=True)
            return sum + forth - back

        return jax.lax.fori_loop(0, 10, step, 0.0)

    assert np.isfinite(total(jax.random.key(0)))
    assert np.isfinite(jax.vmap(total)(jax.random.split(jax.random.key(0), 5))).all()


def check_frequencies(counts, probabilities):
    counts, probabilities = np.asarray(counts), np.asarray(probabilities)
    assert stats.chisquare(counts, counts.sum() * probabilities).pvalue > FALSE_ALARM


def test_frequencies():
    n, chains = 5, 200_000
    s = np.array([0.3, -1.0, 1.2, 0.0, -0.4], np.float32)
    key = keys(chains, seed=11)
    pairs = list(itertools.permutations(range(n), 2))
    for balance in BALANCES:
        w = np.exp(log_weights(s, balance))
        w /= w.sum()
        run = jax.jit(jax.vmap(lambda k, b=balance: cpu.race(k, s, jnp.int32(2), balance=b)[0]))
        sites = np.asarray(run(key))
        check_frequencies(np.bincount(sites[:, 0], minlength=n), w)
        counts = np.bincount(sites[:, 0] * n + sites[:, 1], minlength=n * n)
        check_frequencies([counts[i * n + j] for i, j in pairs],
                          [w[i] * w[j] / (1 - w[i]) for i, j in pairs])  # fmt: skip
        run = jax.jit(jax.vmap(lambda k, b=balance: cpu.repeated(k, s, jnp.int32(2), balance=b)[0]))
        sites = np.asarray(run(key))
        counts = np.bincount(sites[:, 0] * n + sites[:, 1], minlength=n * n)
        check_frequencies(counts, np.outer(w, w).ravel())
    sites = np.asarray(jax.jit(jax.vmap(lambda k: cpu.uniform(k, jnp.int32(2), n=n)[0]))(key))
    counts = np.bincount(sites[:, 0] * n + sites[:, 1], minlength=n * n)
    check_frequencies([counts[i * n + j] for i, j in pairs], np.full(len(pairs), 1 / len(pairs)))


@pytest.mark.parametrize("kind", KINDS)
def test_balance_codes_are_explicit_log_weights(kind):
    s = ratios(500, kind)
    for balance in BALANCES[1:]:
        lw = log_weights(s, balance).astype(np.float32)
        for key in keys(3):
            sites, chosen, ours = cpu.race(key, s, jnp.int32(40), balance=balance)
            explicit = cpu.order_log_prob(
                lw, sites, chosen, jnp.int32(40), balance=None, backwards=False
            )
            np.testing.assert_allclose(ours, explicit, rtol=1e-4, atol=1e-6)
            sites, _, ours = cpu.repeated(key, s, jnp.int32(40), balance=balance)
            explicit = cpu.repeated_log_prob(lw, sites, jnp.int32(40), balance=None)
            np.testing.assert_allclose(ours, explicit, rtol=1e-4, atol=1e-6)


def check_levels(key, p, drawn):
    """Each draw's first word falls on its column, laid end to end, and its second on its row."""
    width = reference.columns(p.size)
    table = np.pad(p, (0, -p.size % width)).reshape(-1, width)
    row, column = np.divmod(drawn, width)
    level = (words(key, 2 * drawn.size) + 0.5) * 2.0**-32
    sums = np.pad(np.cumsum(table.sum(axis=0)), (1, 0))
    assert (level[::2] >= sums[column] - TIE).all()
    assert (level[::2] <= sums[column + 1] + TIE).all()
    sums = np.pad(np.cumsum(table, axis=0), ((1, 0), (0, 0)))[:, column]
    sums, each = sums / sums[-1], np.arange(drawn.size)
    assert (level[1::2] >= sums[row, each] - TIE).all()
    assert (level[1::2] <= sums[row + 1, each] + TIE).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("balance", BALANCES)
def test_repeated_matches_double_precision(n, kind, balance):
    s = ratios(n, kind)
    lw = log_weights(s, balance)
    for length in lengths(n):
        key = keys(1, seed=n + length)[0]
        sites, chosen, log_prob = map(
            np.asarray, cpu.repeated(key, s, jnp.int32(length), balance=balance)
        )
        check_choice(sites, chosen, length, n, repeats=True)
        drawn = sites[:length]
        if (lw == -np.inf).all():
            assert log_prob == -np.inf
            continue
        check_levels(key, np.exp(lw - logsumexp(lw)), drawn)
        assert np.isfinite(lw[drawn]).all()
        expected = np.sum(lw[drawn] - logsumexp(lw))
        np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)
        first = np.arange(n, dtype=np.int32)
        log_prob = cpu.repeated_log_prob(s, first, jnp.int32(length), balance=balance)
        expected = np.sum(lw[:length] - logsumexp(lw))
        np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", SIZES)
def test_uniform_matches_reference(n):
    plain = jax.jit(partial(reference.uniform, n=n))
    for length in lengths(n):
        key = keys(1, seed=length)[0]
        sites, chosen = map(np.asarray, cpu.uniform(key, jnp.int32(length), n=n))
        check_choice(sites, chosen, length, n)
        theirs = plain(key, jnp.int32(length))
        np.testing.assert_array_equal(sites[:length], theirs[0][:length])
        np.testing.assert_array_equal(chosen, theirs[1])


@pytest.mark.parametrize("n", SIZES)
def test_odd_matches_reference(n):
    rng = np.random.default_rng(n)
    for length in lengths(n):
        sites = rng.integers(0, max(1, n // 3), n).astype(np.int32)
        theirs = reference.odd(jnp.asarray(sites), jnp.int32(length))
        np.testing.assert_array_equal(cpu.odd(sites, jnp.int32(length)), theirs)


@pytest.mark.parametrize("kind", ["some impossible", "few possible", "none possible"])
def test_reference_and_kernels_agree_on_the_impossible(kind):
    s = jnp.asarray(ratios(20, kind))
    for length in (1, 5, 20):
        arrays = (keys(1)[0], s, jnp.int32(length))
        sites, chosen, log_prob = reference.race(*arrays, balance=None)
        np.testing.assert_allclose(log_prob, cpu.race(*arrays, balance=None)[2], rtol=1e-4)
        for backwards in (False, True):
            settings = {"balance": None, "backwards": backwards}
            path = (s, sites, chosen, jnp.int32(length))
            ours = cpu.order_log_prob(*path, **settings)
            np.testing.assert_allclose(reference.order_log_prob(*path, **settings), ours, rtol=1e-4)
        theirs = reference.repeated_log_prob(s, sites, jnp.int32(length), balance=None)
        ours = cpu.repeated_log_prob(s, sites, jnp.int32(length), balance=None)
        np.testing.assert_allclose(theirs, ours, rtol=1e-4)
