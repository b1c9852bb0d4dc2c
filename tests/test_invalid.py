"""Densities that are not numbers, and arguments that cannot work."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import native
from test_run import SETTINGS, TARGET


def some_nan(x):
    return jnp.where(x[0] == 1, jnp.nan, jnp.sum(x) * 0.1)


def test_invalid_densities_are_rejected_counted_and_shown():
    target = hs.LogDensity(some_nan, (6,), ratios="exact")
    run = hs.sample(target, hs.RWM(), init=np.zeros(6, int), keep="all", **SETTINGS)
    assert run.draws is not None
    assert run.draws[..., 0].max() == 0
    assert 0 < run.invalid < 500
    assert run.offender is not None
    assert run.offender[0] == 1
    assert "INVALID" in str(run)


def test_plus_infinity_is_invalid_and_minus_infinity_is_not():
    def log_density(value):
        return lambda x: jnp.where(x[0] == 1, value, jnp.sum(x) * 0.1)

    settings = {**SETTINGS, "init": np.zeros(6, int)}
    assert hs.sample(hs.LogDensity(log_density(jnp.inf), (6,)), hs.RWM(), **settings).invalid > 0
    run = hs.sample(hs.LogDensity(log_density(-jnp.inf), (6,)), hs.RWM(), **settings)
    assert run.invalid == 0
    assert run.last[:, 0].max() == 0


def test_nan_ratios_are_invalid():
    @jax.custom_jvp
    def fold(x):
        return jnp.sum(x)

    @fold.defjvp
    def _(primals, tangents):
        (x,), (dx,) = primals, tangents
        return fold(x), jnp.sum(jnp.where(x[0] == 1, jnp.nan, 1.0) * dx)

    run = hs.sample(hs.LogDensity(fold, (6,)), init=np.zeros(6, int), **SETTINGS)
    assert run.invalid > 0
    assert run.last[:, 0].max() == 0


def test_nothing_but_nan_is_an_error():
    def log_density(x):
        return jnp.where(jnp.all(x == 0), 0.0, jnp.nan)

    target = hs.LogDensity(log_density, (6,))
    with pytest.raises(hs.InvalidDensityError, match=r"all 500 proposals, first at x = \["):
        hs.sample(target, hs.RWM(), init=np.zeros(6, int), **SETTINGS)


def test_zero_density_start_is_refused():
    target = hs.LogDensity(lambda x: jnp.where(x[0] == 1, 0.0, -jnp.inf), (6,))
    with pytest.raises(ValueError, match=r"finite where chains start.*chain 0"):
        hs.sample(target, init=np.zeros(6, int), **SETTINGS)


@pytest.mark.parametrize("implementation", ["kernels", "reference"])
def test_impossible_moves_are_rejections_not_errors(implementation):
    target = hs.LogDensity(
        lambda x: jnp.where(jnp.all(x == x[0]), 0.0, -jnp.inf), (4,), ratios="exact"
    )
    with native.use(implementation):
        run = hs.sample(target, init=np.zeros(4, int), scale=hs.Fixed(4), **SETTINGS)
    assert (run.invalid, run.acceptance) == (0, 0.0)


def test_states_next_to_an_invalid_one_are_visited():
    """With exact ratios the invalid neighbour has no weight, and the rest is sampled as it is."""

    def log_density(x):
        return jnp.where(jnp.all(x[:2] == 1), jnp.nan, 0.3 * x[2])

    target = hs.LogDensity(log_density, (3,), ratios="exact")
    start = np.array([1, 0, 0])
    run = hs.sample(target, chains=50, warmup=0, draws=200, init=start, keep=20,
                    scale=hs.Fixed(1), progress=False)  # fmt: skip
    assert run.draws is not None
    assert run.invalid == 0
    seen = {tuple(x) for x in run.draws.reshape(-1, 3).tolist()}
    assert seen == {(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1) if a + b < 2}


def test_other_kinds_of_keys_work():
    run = hs.sample(TARGET, **{**SETTINGS, "key": jax.random.key(0, impl="rbg")})
    assert run.num_draws == 60


def test_sites_that_cannot_move_do_not_break_the_race():
    """With R beyond the sites of positive weight, the step is rejected, not NaN."""
    target = hs.LogDensity(
        lambda x: jnp.where(jnp.sum(x[:3]) > 0, -jnp.inf, jnp.sum(x) * 0.1), (5,), ratios="exact"
    )
    run = hs.sample(target, init=np.zeros(5, int), scale=hs.Fixed(3), **SETTINGS)
    assert (run.invalid, run.acceptance) == (0, 0.0)


BAD = {
    "no chains": ({"chains": 0}, ValueError, "chains must be at least 1; got 0"),
    "no draws": ({"draws": 0}, ValueError, "draws must be at least 1"),
    "negative warm-up": ({"warmup": -1}, ValueError, "warmup must be at least 0"),
    "half a draw": ({"draws": 1.5}, TypeError, "integer"),
    "R > N": ({"scale": hs.Fixed(37)}, ValueError, "R = 37 for 36 sites"),
    "no tuner": ({"scale": 3}, TypeError, r"hs.Adaptive\(\) or hs.Fixed\(R\)"),
    "shape": ({"init": np.zeros((6, 5), int)}, ValueError, r"shape \(6, 6\)"),
    "chains' shape": ({"init": np.zeros((4, 6, 6), int)}, ValueError, r"\(5, 6, 6\)"),
    "dtype": ({"init": np.zeros((6, 6))}, TypeError, "astype"),
    "support": ({"init": np.full((6, 6), 2)}, ValueError, r"values 0 ... 1.*\[2, 2\]"),
    "spins": ({"init": np.full((6, 6), -1)}, ValueError, "Spins"),
    "keep": ({"keep": "some"}, ValueError, "'all', 'last'"),
    "keep 0": ({"keep": 0}, ValueError, "'all', 'last'"),
    "keep too few": ({"keep": 61}, ValueError, "which is none"),
    "statistic": ({"statistic": lambda x: x}, ValueError, "one real number"),
    "complex": ({"statistic": lambda x: jnp.sum(x) * 1j}, ValueError, "one real number"),
    "long seed": ({"key": 2**70}, ValueError, "64 bits"),
    "many keeps": ({"keep": np.array([1, 2])}, ValueError, "'all', 'last'"),
    "no function": ({"statistic": 3}, TypeError, "function of one state"),
    "key": ({"key": "seed"}, TypeError, "seed"),
    "many keys": ({"key": jax.random.split(jax.random.key(0), 3)}, TypeError, "one JAX key"),
    "chunk": ({"chunk": 0}, ValueError, "chunk must be at least 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused(name, monkeypatch):
    monkeypatch.setattr("hopscale.loop.start", None)  # nothing is compiled
    settings, error, message = BAD[name]
    with pytest.raises(error, match=message):
        hs.sample(TARGET, **{**SETTINGS, **settings})


def test_a_class_instead_of_a_sampler_is_refused():
    with pytest.raises(TypeError, match="the class LBP"):
        hs.sample(TARGET, hs.LBP, **SETTINGS)  # pyright: ignore


def test_a_function_instead_of_a_target_is_refused():
    with pytest.raises(TypeError, match="Wrap a function"):
        hs.sample(lambda x: x.sum(), **SETTINGS)  # pyright: ignore
