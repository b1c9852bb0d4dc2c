"""Settings are told apart by what they are, in this process and in the next."""

import functools
import json
import math
import os
import subprocess
import sys
import textwrap
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hopscale as hs
from hopscale.disk.identity import differences, identity


def same(a, b):
    a, b = identity(a), identity(b)
    assert json.loads(json.dumps(a)) == a
    text = [json.dumps(x, sort_keys=True) for x in (a, b)]
    assert (differences(a, b) == []) == (text[0] == text[1])
    return text[0] == text[1]


class Kernel(eqx.Module):
    balance: object = eqx.field(static=True)
    rate: jax.Array


class Other(NamedTuple):
    balance: object
    rate: object


def scaled(by):
    return lambda x: x * by


def twice(x, by=2.0):
    return by * x


def thrice(x, by=3.0):
    return by * x


def up(n):
    return 0 if n == 0 else down(n - 1)


def down(n):
    return 1 if n == 0 else up(n - 1)


WEIGHTS = np.ones(3)


def weighed(x):
    return [jnp.sum(WEIGHTS * y) for y in x]  # in code inside of code


@jax.custom_jvp
def custom(x):
    return x * 2


PAIRS = {
    "lambdas": (lambda x: x + 1, lambda x: x + 2),
    "names": (lambda x: x.sum(), lambda x: x.mean()),
    "code inside": (lambda x: [y + 1 for y in x], lambda x: [y + 2 for y in x]),
    "closures": (scaled(1.0), scaled(2.0)),
    "closed arrays": (scaled(np.ones(3)), scaled(np.array([1.0, 1.0, 2.0]))),
    "closed functions": (scaled(lambda x: x), scaled(lambda x: -x)),
    "defaults": (twice, thrice),
    "jitted": (jax.jit(lambda x: x + 1), jax.jit(lambda x: x + 2)),
    "filter_jitted": (eqx.filter_jit(lambda x: x + 1), eqx.filter_jit(lambda x: x + 2)),
    "partials": (functools.partial(twice, by=1), functools.partial(twice, by=2)),
    "library": (jnp.sin, jnp.cos),
    "activations": (jax.nn.relu, jax.nn.gelu),
    "custom": (custom, jax.custom_jvp(lambda x: x * 3)),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "dtypes": (np.zeros(2, np.int32), np.zeros(2, np.float32)),
    "dtypes themselves": (jnp.float32, jnp.bfloat16),
    "truth": (True, 1),
    "negative": (np.zeros(2), -np.zeros(2)),
    "keys": (jax.random.key(0), jax.random.key(1)),
    "implementations": (jax.random.key(0), jax.random.key(0, impl="rbg")),
    "classes": (Kernel("a", jnp.ones(2)), Other("a", jnp.ones(2))),
    "methods": (hs.Bernoulli([0.1]).log_prob, hs.Bernoulli([0.2]).log_prob),
    "optimizers": (optax.adam(1e-3), optax.adam(1e-4)),
    "targets": (hs.LogDensity(lambda x: x[0], (2,)), hs.LogDensity(lambda x: x[1], (2,))),
    "samplers": (hs.LBP(lambda s: s / 2), hs.LBP(lambda s: s / 2 + 1)),
    "recursion": (up, down),
    "sets": ({"a", "b"}, {"a", "c"}),
    "dictionaries": ({1: 2}, {1: 3}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_different_things_differ(name):
    a, b = PAIRS[name]
    assert not same(a, b)
    assert same(a, a)
    assert same(b, b)


def test_equal_things_agree():
    assert same(scaled(2.0), scaled(2.0))
    assert same(scaled(np.ones(2)), scaled(np.ones(2)))
    assert same(float("nan"), float("nan"))
    assert same(jnp.ones(2), np.ones(2, np.float32))
    assert same((1, 2), [1, 2])  # JSON knows no difference
    assert same(*(Kernel(lambda x: x, jnp.ones(2)) for _ in range(2)))


def test_a_function_is_what_it_refers_to(monkeypatch):
    before = identity(weighed)
    monkeypatch.setitem(globals(), "WEIGHTS", np.zeros(3))
    assert identity(weighed) != before
    monkeypatch.undo()
    assert identity(weighed) == before


def test_functions_of_installed_packages_go_by_name():
    for function in (json.dumps, optax.adam, np.linalg.norm, np.add, math.sqrt, len, hs.sample):
        assert identity(function)["name"].endswith(f".{function.__name__}")
        assert "sha256" not in identity(function)
    assert "sha256" in identity(weighed)
    # Code that calls them needs not be followed into them.
    assert "sha256" in identity(lambda x: (json.dumps(x), subprocess.run(x), pytest.fixture(x)))


SCRIPT = """
    import json, sys
    sys.path.insert(0, sys.argv[1])
    import test_identity
    from hopscale.disk.identity import identity
    member = lambda x: x in {"red", "green", "blue"}
    print(json.dumps([identity(x) for x in [*test_identity.PAIRS.values(), member]]))
"""


def test_another_process_gives_the_same_answer():
    tests = os.path.dirname(__file__)  # noqa: PTH120
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), tests]
    said = []
    for seed in "01":  # of the order of sets
        run = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        said.append(json.loads(run.stdout))
    assert said[0] == said[1]
    assert said[0][:-1] == [identity(pair) for pair in PAIRS.values()]


class Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Kernel(Opaque(), jnp.ones(1)), "balance cannot be told apart.*Opaque"),
        (scaled(Opaque()), r"<lambda>\.closure\.by cannot"),
        (jax.jit(scaled(Opaque())), r"<lambda>\.closure\.by cannot"),
        (np.array([None]), "must be an array of numbers"),
        (iter([]), "this cannot be told apart"),
    ],
)
def test_what_has_no_identity_is_refused_with_its_place(value, words):
    with pytest.raises(TypeError, match=words):
        identity(value)


@pytest.mark.parametrize(
    ("found", "needed", "phrases"),
    [
        ({"steps": 3, "same": 1}, {"steps": 4, "same": 1}, ["steps 3, not 4"]),
        ({"scale": hs.Fixed(2.0)}, {"scale": hs.Fixed(3.0)}, ["scale.scale 2.0, not 3.0"]),
        ({"scale": hs.Fixed(2.0)}, {"scale": hs.Adaptive()}, ["scale Fixed, not Adaptive"]),
        ({"key": jax.random.key(1)}, {"key": jax.random.key(2)}, ["key [0, 1], not [0, 2]"]),
        ({"x": jnp.asarray(2.0)}, {"x": jnp.asarray(3.0)}, ["x 2.0, not 3.0"]),
        ({"x": np.zeros(2)}, {"x": np.ones(2)}, ["x another float64[2]"]),
        ({"x": np.zeros(2)}, {"x": np.zeros(3)}, ["x float64[2], not float64[3]"]),
        ({"f": lambda x: x}, {"f": lambda x: -x}, ["f another <lambda>"]),
        ({"f": jnp.sin}, {"f": jnp.cos}, ["f jax.numpy.sin, not jax.numpy.cos"]),
        ({"a": 1}, {"b": None, "c": 2}, ["a 1, not null", "c null, not 2"]),
        ({"a": "barker"}, {"a": "sqrt"}, ['a "barker", not "sqrt"']),
    ],
)
def test_differences_are_named(found, needed, phrases):
    assert differences(identity(found), identity(needed)) == phrases
