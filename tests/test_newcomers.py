"""What goes wrong on a first day: an error before anything is compiled, and what to do about it."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs

BITS = hs.Bernoulli(np.full(4, 0.4))
TABLE = jnp.asarray([0.3, -0.2])
STATES = np.zeros((10, 4), int)


def sample(target: Any = BITS, kernel: Any = None, **settings: Any):
    return hs.sample(target, kernel, **{"chains": 2, "progress": False, **settings})


def exactly_two(x):
    """A constraint that every single change breaks."""
    return jnp.where(jnp.sum(x) == 2, x[0], -jnp.inf)


def fixed_sum(**settings):
    return sample(hs.LogDensity(exactly_two, (4,)), init=[1, 1, 0, 0], **settings)


def permutations(**settings):
    def different(code):
        return jnp.where(jnp.all(jnp.sum(code, axis=0) == 1), 0.0, -jnp.inf)

    target = hs.LogDensity(different, (4,), num_states=4, ratios="exact")
    return sample(target, init=[0, 1, 2, 3], **settings)


def network_of_numbers(x):
    return jnp.sum(TABLE[0] * x)


def train(network):
    model = hs.learn.EBM(network, np.full(4, 0.4))
    return hs.learn.train_ebm(model, STATES, iterations=2, progress=False)


# What was done, the error, and words of the sentence that says what to do.
ERRORS: dict[str, Any] = {
    "a function for a target": (lambda: sample(jnp.sum), TypeError, r"hs\.LogDensity\(fn, shape\)"),
    "a class to clamp": (
        lambda: hs.clamp(hs.Bernoulli, [0], [1]),  # pyright: ignore[reportArgumentType]
        TypeError,
        "got the class Bernoulli",
    ),
    "a class to check": (
        lambda: hs.check.invariance(hs.Bernoulli, hs.LBP()),  # pyright: ignore[reportArgumentType]
        TypeError,
        "got the class Bernoulli and LBP",
    ),
    "a class for a target": (
        lambda: sample(hs.Bernoulli),
        TypeError,
        r"hs\.Bernoulli\(p\); got the class Bernoulli",
    ),
    "a density that is no number": (
        lambda: sample(hs.LogDensity(lambda x: jnp.sum(x) * jnp.nan, (4,))),
        ValueError,
        "not a number at any of them: look for 0 / 0",
    ),
    "a class for a kernel": (
        lambda: sample(BITS, hs.LBP),
        TypeError,
        r"hs\.LBP\(\); got the class",
    ),
    "a number for a tuner": (lambda: sample(scale=3), TypeError, r"hs\.Fixed\(R\)"),
    "a scale beyond the sites": (lambda: sample(scale=hs.Fixed(9)), ValueError, "1 <= R <= 4"),
    "spins to start from": (lambda: sample(init=[-1, 1, 1, 1]), ValueError, r"x = \(s \+ 1\) / 2"),
    "floats to start from": (lambda: sample(init=np.zeros(4)), TypeError, r"astype\('int8'\)"),
    "another shape to start from": (
        lambda: sample(init=[[0, 1]]),
        ValueError,
        r"one state for all chains, or \(2, 4\)",
    ),
    "start where the density is zero": (
        lambda: sample(hs.LogDensity(exactly_two, (4,)), init=[0, 0, 0, 0]),
        ValueError,
        "Pass starting states in `init`",
    ),
    "every neighbour impossible": (fixed_sum, ValueError, r"use hs\.Swap\(ones=k\)"),
    "every neighbour of a permutation impossible": (permutations, ValueError, "Let the density be"),
    "a time for a seed": (lambda: sample(key=0.5), TypeError, "integer seed"),
    "things to record without names": (lambda: sample(record=[jnp.sum]), TypeError, "by name"),
    "a word for what to keep": (lambda: sample(keep="some"), ValueError, "every n-th"),
    "no draws": (lambda: sample(draws=0), ValueError, "draws must be at least 1"),
    "indexing by floats": (
        lambda: hs.LogDensity(lambda x: jnp.sum(TABLE[x]), (4,)),
        TypeError,
        r"for an index, x\.astype\(int\)",
    ),
    "indexing by a code": (
        lambda: hs.LogDensity(lambda x: jnp.sum(TABLE[x]), (4,), num_states=3),
        TypeError,
        r"\(4, 3\), the one-hot code.*x @ table; for an index, jnp\.argmax\(x, -1\)",
    ),
    "a density of every site": (lambda: hs.LogDensity(lambda x: x, (4,)), ValueError, r"jnp\.sum"),
    "an integer density": (
        lambda: hs.LogDensity(lambda x: jnp.sum(x.astype(int)), (4,)),
        ValueError,
        "make integers floats",
    ),
    "a batch for a state": (lambda: BITS.log_prob(STATES), ValueError, r"use jax\.vmap"),
    "floats for a state": (lambda: BITS.log_prob(np.zeros(4)), TypeError, "integers 0"),
    "certain bits": (lambda: hs.Bernoulli([0.0, 0.5]), ValueError, "left out of the target"),
    "weights the other way round": (
        lambda: hs.RBM(np.zeros((4, 3)), np.zeros(4), np.zeros(3)),
        ValueError,
        "Transpose",
    ),
    "block Gibbs without blocks": (
        lambda: sample(BITS, hs.BlockGibbs()),
        TypeError,
        r"hs\.RBM|hs\.LBP",
    ),
    "categories as bits": (
        lambda: hs.LogDensity(jnp.sum, (4,), 3).log_prob(np.array([0, 1, 3, 2])),
        ValueError,
        "0 ... 2",
    ),
    "a network of every pixel": (
        lambda: hs.learn.EBM(lambda x: x, np.full(4, 0.4)),
        ValueError,
        "one real number",
    ),
    "a network without parameters": (
        lambda: train(network_of_numbers),
        TypeError,
        "nothing to learn.*Equinox module",
    ),
    "swaps without a sum": (lambda: sample(BITS, hs.Swap()), ValueError, r"hs\.Swap\(ones=k\)"),
}


@pytest.mark.parametrize("mistake", ERRORS)
def test_a_mistake_is_named_with_what_to_do(mistake):
    make, error, advice = ERRORS[mistake]
    with pytest.raises(error, match=advice) as found:
        make()
    assert 20 < len(str(found.value)) < 700


def test_integers_to_a_gradient_are_found_out():
    """A table looked up has slope 0: the comparison says so, and "auto" does without."""
    target = hs.LogDensity(lambda x: jnp.sum(10.0 * TABLE[x.astype(int)]), (40,))
    found = hs.check.ratios(target)
    assert not found.agree
    assert np.all(found.given == 0)


def test_tables_of_categories_are_looked_up_as_the_error_says():
    table, x = jnp.asarray([0.3, -0.2, 1.1]), np.array([2, 0, 1, 2])
    for density in (lambda x: jnp.sum(x @ table), lambda x: jnp.sum(table[jnp.argmax(x, -1)])):
        target = hs.LogDensity(density, (4,), num_states=3)
        assert float(target.log_prob(x)) == pytest.approx(2.3)


def test_a_fixed_sum_works_as_the_error_says():
    with pytest.warns(hs.ConvergenceWarning):
        run = sample(BITS, hs.Swap(ones=2), warmup=5, draws=10)
    assert np.all(run.last.sum(axis=1) == 2)
