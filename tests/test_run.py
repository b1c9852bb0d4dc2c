"""The loop: reproducible, bounded, stoppable, and honest about what went wrong."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs

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
