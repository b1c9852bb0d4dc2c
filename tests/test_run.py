"""The loop: reproducible, bounded, stoppable, and honest about what went wrong."""

import functools
import os
import signal
import sys
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import native

TARGET = hs.paper.ising(6, "C2")
SETTINGS = {"chains": 5, "warmup": 40, "draws": 60, "key": 3, "progress": False}


def same(a: hs.Run, b: hs.Run) -> None:
    assert a.scale == b.scale
    for name in ("accept_prob_by_chain", "distance_by_chain", "trace", "last", "draws"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("sampler", [hs.LBP(), hs.GWG(), hs.RWM()], ids=str)
def test_same_key_gives_the_same_run_whatever_the_chunks(sampler):
    runs = [
        hs.sample(TARGET, sampler, keep=3, chunk=chunk, **SETTINGS) for chunk in (None, 1, 7, 1000)
    ]
    for other in runs[1:]:
        same(runs[0], other)
    assert runs[0].draws is not None
    assert runs[0].draws.shape == (5, 20, 6, 6)


def test_whole_pages_give_the_same_run(monkeypatch):
    """The loop for GPUs, which idles beyond the last step, on the CPU."""
    settings = {**SETTINGS, "keep": 3, "warmup": 41}
    exact = hs.sample(TARGET, chunk=17, **settings)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    same(exact, hs.sample(TARGET, chunk=17, **settings))
    same(exact, hs.sample(TARGET, chunk=1000, **settings))


def test_another_key_gives_another_run():
    a = hs.sample(TARGET, **SETTINGS)
    b = hs.sample(TARGET, **{**SETTINGS, "key": 4})
    assert not np.array_equal(a.last, b.last)


def test_seeds_and_keys_agree():
    a = hs.sample(TARGET, **SETTINGS)
    same(a, hs.sample(TARGET, **{**SETTINGS, "key": jax.random.key(3)}))
    same(a, hs.sample(TARGET, **{**SETTINGS, "key": jax.random.PRNGKey(3)}))


def test_what_is_reported_is_what_happened():
    run = hs.sample(TARGET, keep="all", init=np.zeros((6, 6), int), **SETTINGS)
    states = np.asarray(run.draws).astype(int)
    assert states.shape == (5, 60, 6, 6)
    assert states.dtype.kind == "i"
    assert run.draws is not None
    assert run.draws.dtype == np.int8
    moved = np.abs(np.diff(states, axis=1)).sum(axis=(2, 3))
    # The first draw's move started at the last warm-up state, which is not kept.
    assert run.ejd * 60 * 5 == pytest.approx(moved.sum(), abs=36 * 5)
    np.testing.assert_array_equal(run.last, run.draws[:, -1])
    distances = run.trace
    assert distances.shape == (5, 60)
    steps = np.abs(np.diff(distances, axis=1))
    assert np.all(steps <= moved)


def test_statistic_is_the_users():
    run = hs.sample(TARGET, statistic=lambda x: jnp.sum(x), keep="all", **SETTINGS)
    assert run.draws is not None
    np.testing.assert_array_equal(run.trace, run.draws.sum(axis=(2, 3)))


def test_keep_last_and_nothing():
    run = hs.sample(TARGET, keep="last", **SETTINGS)
    assert run.draws is not None
    np.testing.assert_array_equal(run.draws[:, 0], run.last)
    assert hs.sample(TARGET, **SETTINGS).draws is None


def test_one_evaluation_a_step_and_no_second_compilation():
    traced, evaluated = [], []

    def log_density(x):
        traced.append(1)
        jax.debug.callback(lambda: evaluated.append(1))
        return jnp.sum(x) * 0.1

    target = hs.LogDensity(log_density, (8,))
    settings = {**SETTINGS, "chains": 1}
    run = hs.sample(target, **settings)
    jax.effects_barrier()
    assert run.evaluations == 101
    assert len(evaluated) == run.evaluations
    before = len(traced)
    hs.sample(target, **{**settings, "key": 9, "draws": 20, "warmup": 0})
    hs.sample(target, scale=hs.Adaptive(0.4), **settings)
    assert len(traced) == before


def test_fixed_scales_share_a_program():
    traced = []

    def log_density(x):
        traced.append(1)
        return jnp.sum(x) * 0.1

    target = hs.LogDensity(log_density, (8,))
    hs.sample(target, scale=hs.Fixed(2), **SETTINGS)
    before = len(traced)
    run = hs.sample(target, scale=hs.Fixed(3), **SETTINGS)
    assert len(traced) == before
    assert run.scale == 3


def test_parameters_are_arguments_of_the_program():
    """A model whose weights change, as in training, is not compiled again."""
    traced = []

    class Energy(eqx.Module):
        weights: jax.Array

        def __call__(self, x):
            traced.append(1)
            return self.weights @ x

    hs.sample(hs.LogDensity(Energy(jnp.ones(8)), (8,)), **SETTINGS)
    before = len(traced)
    hs.sample(hs.LogDensity(Energy(jnp.zeros(8)), (8,)), **SETTINGS)
    assert len(traced) == before + 1  # the check of the function's shape


def test_warmup_tunes_and_drawing_does_not():
    target = hs.paper.bernoulli(60, "C2")
    short = hs.sample(target, chains=20, warmup=300, draws=10, progress=False)
    long = hs.sample(target, chains=20, warmup=300, draws=200, progress=False)
    assert short.scale == long.scale
    assert isinstance(long.scale, float)
    assert long.scale > 5
    assert long.acceptance == pytest.approx(0.574, abs=0.05)


def test_a_scale_for_each_chain():
    scale = hs.Adaptive(per_chain=True)
    run = hs.sample(hs.paper.bernoulli(60, "C2"), scale=scale, **SETTINGS)
    assert np.shape(run.scale) == (5,)
    assert len(np.unique(run.scale)) > 1
    assert "from" in str(run)


def test_no_warmup_is_allowed():
    run = hs.sample(TARGET, scale=hs.Fixed(2), **{**SETTINGS, "warmup": 0})
    assert (run.warmup, run.num_draws) == (0, 60)


def test_a_run_goes_on_where_another_stopped():
    first = hs.sample(TARGET, **SETTINGS)
    second = hs.sample(TARGET, init=first.last, **{**SETTINGS, "key": 5})
    assert second.num_draws == 60


def test_moments_of_an_ising_model_come_out():
    target = hs.Ising(np.array([[0.3, -0.2], [0.1, 0.5]]), 0.3)
    states, pi = hs.check.states(target), hs.check.probabilities(target)
    truth = pi @ states.reshape(len(pi), -1)
    run = hs.sample(target, chains=500, warmup=200, draws=400, keep=20, progress=False)
    assert run.draws is not None
    mean = run.draws.reshape(-1, 4).mean(axis=0)
    assert np.abs(mean - truth).max() < 5 * 0.5 / np.sqrt(500 * 20)


def test_single_precision_agrees_with_double_at_ten_thousand_sites():
    acceptance = []
    for double in (False, True):
        with jax.enable_x64(double):
            target = hs.paper.bernoulli(10_000, "C2", spacing="even")
            run = hs.sample(
                target,
                chains=16,
                warmup=0,
                draws=40,
                scale=hs.Fixed(700),
                key=1,
                progress=False,
                init=np.random.default_rng(2).random((16, 10_000)) < np.asarray(target.p),
            )
            acceptance.append(run.accept_prob_by_chain)
    error = np.sqrt(sum(a.var(ddof=1) / a.size for a in acceptance))
    assert error < 0.05
    assert abs(acceptance[0].mean() - acceptance[1].mean()) < 4.5 * error


# -- What goes wrong. ----------------------------------------------------------------------------


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


# -- Ctrl-C. -------------------------------------------------------------------------------------


def interrupt_after(steps):
    """A statistic that sends SIGINT from inside the compiled loop."""
    seen = []

    def count():
        seen.append(1)
        if len(seen) == steps:
            os.kill(os.getpid(), signal.SIGINT)

    def statistic(x):
        jax.debug.callback(count)
        return jnp.sum(x)

    return statistic


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_returns_what_was_drawn(capfd):
    run = hs.sample(
        TARGET,
        chains=1,
        warmup=20,
        draws=100_000,
        chunk=10,
        progress=False,
        keep="all",
        statistic=interrupt_after(100),
    )
    assert run.interrupted
    assert 0 < run.num_draws < 100_000
    assert run.draws is not None
    assert run.draws.shape[1] == run.num_draws == run.trace.shape[1]
    assert "Ctrl-C" in str(run)
    assert "stopped by Ctrl-C" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_during_warmup_returns_an_empty_run():
    run = hs.sample(
        TARGET,
        chains=1,
        warmup=100_000,
        draws=10,
        chunk=10,
        progress=False,
        statistic=interrupt_after(30),
        keep="all",
    )
    assert run.interrupted
    assert (run.num_draws, run.draws) == (0, None)
    last = hs.sample(
        TARGET,
        chains=1,
        warmup=100_000,
        draws=10,
        chunk=10,
        progress=False,
        statistic=interrupt_after(30),
        keep="last",
    )
    assert (last.num_draws, last.draws) == (0, None)
    assert np.isnan(run.acceptance)
    assert "stopped by Ctrl-C" in str(run)


def test_sampling_works_outside_the_main_thread():
    runs = []
    thread = threading.Thread(target=lambda: runs.append(hs.sample(TARGET, **SETTINGS)))
    thread.start()
    thread.join()
    same(runs[0], hs.sample(TARGET, **SETTINGS))


# -- Results. ------------------------------------------------------------------------------------


def test_print_is_a_readable_table():
    text = str(hs.sample(TARGET, **SETTINGS))
    for word in ("Ising (6 x 6) by LBP", "scale R", "acceptance", "ESS", "R-hat", "compile"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 88


def test_print_works_for_any_balancing_function():
    def log_g(power, s):
        return jnp.logaddexp(power * s, (1 - power) * s)

    run = hs.sample(TARGET, hs.LBP(functools.partial(log_g, 0.3)), **SETTINGS)
    assert "LBP(balance=functools.partial" in str(run)


def test_long_runs_keep_a_bounded_trace():
    target = hs.Bernoulli(np.full(3, 0.4))
    run = hs.sample(target, chains=2, warmup=0, draws=20_000, scale=hs.Fixed(1), progress=False)
    assert run.block == 2
    assert run.trace.shape == (2, 10_000)
    assert 0 < run.ess <= 20_000


def test_to_arviz():
    arviz = pytest.importorskip("arviz")
    run = hs.sample(TARGET, keep="all", **SETTINGS)
    data = run.to_arviz()
    assert data["posterior"]["x"].shape == (5, 60, 6, 6)
    plain = hs.sample(TARGET, **SETTINGS).to_arviz()
    assert plain["posterior"]["statistic"].shape == (5, 60)
    assert arviz.__version__
