"""The kernels against double precision, against plain JAX, and against enumeration."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from choices import (
    BALANCES,
    KINDS,
    NEEDS_KERNELS,
    SIZES,
    check_choice,
    check_race,
    keys,
    lengths,
    log_weights,
    ratios,
    words,
)
from hopscale.native import cpu, reference
from small import FALSE_ALARM

pytestmark = NEEDS_KERNELS


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
    chosen = lengths(n) if n <= 1000 else lengths(n)[2::3]  # the reference takes long
    cases = [(ratios(n, kind), length) for kind in KINDS for length in chosen]
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


@pytest.mark.parametrize("module", [cpu, reference])
def test_no_choice_is_certain(module):
    """Length 0: no site, log-probability 0, whatever the weights."""
    kinds = [ratios(10, "tame"), ratios(10, "none possible"), np.full(10, np.nan, np.float32)]

    def choose_none(key, s):
        drawn = [
            draw(key, s, jnp.int32(0), balance=None) for draw in (module.race, module.repeated)
        ]
        path = s, jnp.zeros(10, jnp.int32), jnp.zeros(10, bool), jnp.int32(0)
        way_back = module.order_log_prob(*path, balance=None, backwards=True)
        return [chosen.sum() for _, chosen, _ in drawn], [way_back, *(q for *_, q in drawn)]

    sites, log_probs = jax.jit(jax.vmap(choose_none))(keys(3), jnp.asarray(np.stack(kinds)))
    assert not np.any(sites)
    np.testing.assert_array_equal(log_probs, np.zeros((3, 3)))


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


def test_reference_and_kernels_agree_on_the_impossible():
    kinds = ("some impossible", "few possible", "none possible")
    cases = [(ratios(20, kind), length) for kind in kinds for length in (1, 5, 20)]
    s = jnp.asarray(np.stack([s for s, _ in cases]))
    length = jnp.asarray([length for _, length in cases], jnp.int32)
    key = keys(len(cases))
    choose = jax.jit(jax.vmap(partial(reference.race, balance=None)))
    sites, chosen, log_prob = choose(key, s, length)

    def log_probs(module, key, s, sites, chosen, length):
        path = s, sites, chosen, length
        return [
            module.race(key, s, length, balance=None)[2],
            module.order_log_prob(*path, balance=None, backwards=False),
            module.order_log_prob(*path, balance=None, backwards=True),
            module.repeated_log_prob(s, sites, length, balance=None),
        ]

    ours, theirs = (
        jax.jit(jax.vmap(partial(log_probs, module)))(key, s, sites, chosen, length)
        for module in (cpu, reference)
    )
    np.testing.assert_allclose(theirs[0], log_prob, rtol=1e-4)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
