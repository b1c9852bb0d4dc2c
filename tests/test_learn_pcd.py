"""Learning by persistent contrastive divergence."""

import os
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.learn import EBM, MLP, PCD, DivergedError, base_of, health, pcd, train_ebm
from hopscale.learn import buffer as replay
from hopscale.learn.health import RECORDED

SHAPE = (2, 3)
SMALL = PCD(steps=3, batch=20, rate=0.01, warmup=10, buffer=50, average=0.9)


def data(n=400):
    """Bits whose rows agree more often than not, so that independent bits are a bad model."""
    rng = np.random.default_rng(5)
    first = rng.integers(0, 2, (n, 1, 3))
    second = np.where(rng.random((n, 1, 3)) < 0.9, first, 1 - first)
    return np.concatenate([first, second], axis=1).astype(np.int8)


DATA = data()


def model(key=0):
    return EBM(MLP(SHAPE, 8, key=key), base_of(DATA))


def train(iterations=40, settings=SMALL, **more):
    return train_ebm(model(), DATA, iterations=iterations, settings=settings, key=1, **more)


def same(a, b):
    leaves = [jax.tree.leaves(eqx.filter(t, eqx.is_array)) for t in (a, b)]
    return all(np.array_equal(x, y) for x, y in zip(*leaves, strict=True))


def log_likelihood(of):
    """Of the data, by enumeration."""
    normalizer = jax.nn.logsumexp(jax.vmap(of.log_prob)(jnp.asarray(hs.check.states(of))))
    return float(jnp.mean(jax.vmap(of.log_prob)(jnp.asarray(DATA))) - normalizer)


def best_log_likelihood():
    """What no model can exceed: minus the entropy of the data."""
    share = np.unique(DATA.reshape(len(DATA), -1), axis=0, return_counts=True)[1] / len(DATA)
    return float(np.sum(share * np.log(share)))


def test_learning_closes_most_of_the_gap_to_the_data():
    before, best = log_likelihood(model()), best_log_likelihood()
    trained = train(3_000)
    assert log_likelihood(trained.model) > before + 0.9 * (best - before)


def test_learning_up_the_gradient_fails_that_test(monkeypatch):
    right = pcd._objective

    def wrong(network, base, data, samples, penalty):
        return right(network, base, samples, data, penalty)

    monkeypatch.setattr(pcd, "_objective", wrong)
    # Another average: another program, which is compiled with the broken objective.
    settings = PCD(steps=3, batch=20, rate=0.01, warmup=10, buffer=50, average=0.8)
    before = log_likelihood(model())
    assert log_likelihood(train(300, settings).model) < before


def test_objective_by_hand():
    network, both = MLP(SHAPE, 4), jnp.asarray(DATA[:6])
    f = np.array([network(jnp.asarray(x, jnp.float32)) for x in DATA[:6]])
    value, energies = pcd._objective(network, base_of(DATA), both[:3], both[3:], 0.1)
    penalty = 0.1 * (np.mean(f[:3] ** 2) + np.mean(f[3:] ** 2))
    assert np.isclose(value, f[:3].mean() - f[3:].mean() + penalty, rtol=1e-4)
    np.testing.assert_allclose(energies, f, rtol=1e-4)


def test_history_has_a_number_for_each_iteration():
    trained = train(40)
    assert set(trained.history) == set(RECORDED)
    assert all(values.shape == (40,) for values in trained.history.values())
    gap = trained.history["energy_data"] - trained.history["energy_samples"]
    np.testing.assert_allclose(trained.history["gap"], gap, atol=1e-5)
    # The tuner's own; steps alternate around it.
    assert trained.scale is not None
    assert trained.scale == pytest.approx(trained.history["scale"][-1], rel=0.15)
    assert trained.scale > 1
    assert np.all((trained.history["acceptance"] > 0) & (trained.history["acceptance"] <= 1))
    assert (trained.iterations, trained.checkpoint, trained.interrupted) == (40, None, False)
    assert trained.samples.shape == (50, *SHAPE)


@pytest.mark.parametrize(
    ("kernel", "scale"),
    [
        (hs.GWG("sqrt"), hs.Adaptive(per_chain=True)),
        (hs.RWM(), hs.Fixed(1)),
    ],
)
def test_any_kernel_and_scale_learns(kernel, scale):
    trained = train(300, kernel=kernel, scale=scale)
    assert log_likelihood(trained.model) > log_likelihood(model()) + 0.2
    if isinstance(scale, hs.Fixed):
        assert np.all(trained.history["scale"] == 1.0)


def test_chunks_do_not_show_and_the_users_model_is_left_alone():
    given = model()
    once = train_ebm(given, DATA, iterations=40, settings=SMALL, key=1)
    parts = train_ebm(given, DATA, iterations=40, settings=SMALL, key=1, chunk=7)
    assert same((once.last, once.model, once.samples), (parts.last, parts.model, parts.samples))
    assert np.array_equal(once.history["gap"], parts.history["gap"])
    assert same(given, model())
    assert not same(once.last, given)


def test_another_number_of_steps_does_not_compile_again(monkeypatch):
    first = train(2)
    monkeypatch.setattr(pcd, "_iteration", None)  # tracing it again would fail
    other = train(2, PCD(**{**SMALL.__dict__, "steps": 5}))
    assert not same(other.samples, first.samples)
    with pytest.raises(TypeError, match="not callable"):
        train(2, PCD(**{**SMALL.__dict__, "batch": 21}))


def test_a_number_of_steps_that_is_compiled_in_gives_the_same_walk():
    """As on a GPU, which then runs faster."""
    any_steps = pcd.Training.of(
        jax.random.key(0), model(), DATA, hs.LBP("sqrt"), hs.Adaptive(), SMALL, any_steps=True
    )
    tuner = pcd.start(any_steps, model(), jax.random.key(1)).tuner

    @eqx.filter_jit
    def walk(training, model):
        return pcd.walk(jax.random.key(2), training, model, jnp.asarray(DATA[:20]), tuner)

    assert isinstance(any_steps.steps, jax.Array)
    *moved, numbers = walk(any_steps, model())
    *needed, needed_numbers = walk(any_steps._replace(steps=3), model())
    assert same(moved, needed)
    np.testing.assert_allclose(numbers, needed_numbers, rtol=1e-6)


def test_divergence_stops_training_and_names_the_checkpoint(tmp_path):
    settings = PCD(**{**SMALL.__dict__, "limit": 0.4})
    words = r"diverged at iteration \d+, beyond the limit.*step-00000\d+"
    with pytest.raises(DivergedError, match=words) as stopped:
        train(1_000, settings, directory=tmp_path, every=10)
    assert stopped.value.reason == "beyond the limit"
    assert stopped.value.history is not None
    assert len(stopped.value.history["gap"]) == stopped.value.iteration
    # The network wants energies that differ, which the limit forbids; none of that was saved.
    saved = hs.learn.load_model(tmp_path, network=MLP(SHAPE, 8))
    assert np.isfinite(log_likelihood(saved))


def test_a_crisis_is_survived_and_told(monkeypatch):
    monkeypatch.setattr(health, "CLOSED_SHARE", 0.8)
    trained = train(600, PCD(**{**SMALL.__dict__, "crisis": 0.5}))
    assert trained.iterations == 600
    first = trained.crises[0]
    assert np.abs(trained.history["gap"][first.begin - 10 : first.begin]).mean() > 0.5
    assert first.end is not None
    assert "crises" in str(trained)


def test_a_crisis_that_does_not_end_keeps_the_checkpoint_before_it(tmp_path):
    settings = PCD(**{**SMALL.__dict__, "crisis": 0.5, "patience": 100})
    words = "crisis not over: the gap opened at iteration"
    with pytest.raises(DivergedError, match=words) as stopped:
        train(2_000, settings, directory=tmp_path, every=10)
    (crisis,) = stopped.value.crises[-1:]
    before = 10 * ((crisis.begin - 1) // 10)
    assert f"step-{before:09d}.checkpoint" in str(stopped.value)
    assert (tmp_path / f"step-{before:09d}.checkpoint").exists()


def test_the_history_of_a_failure_ends_with_it():
    """Training went on to the end of the chunk."""
    settings = PCD(**{**SMALL.__dict__, "crisis": 1e-4, "patience": 100})
    with pytest.raises(DivergedError, match="crisis not over") as stopped:
        train(500, settings, chunk=500)
    assert stopped.value.iteration == 110
    assert stopped.value.history is not None
    whole = train(500).history
    for name, values in stopped.value.history.items():
        np.testing.assert_array_equal(values, whole[name][:110])


def test_patience_ends_no_crisis_before_it_can_be_over():
    assert PCD(patience=100).patience == 100
    with pytest.raises(ValueError, match="at least 100 iterations, which a crisis takes to end"):
        PCD(patience=99)


def test_numbers_that_are_not_finite_stop_training():
    broken = eqx.tree_at(
        lambda m: m.network.layers.layers[0].bias, model(), replace_fn=lambda b: b * jnp.nan
    )
    with pytest.raises(DivergedError, match=r"iteration 1, not finite: .*No good checkpoint"):
        train_ebm(broken, DATA, iterations=5, settings=SMALL)


def test_time_ends_training():
    trained = train(10**9, minutes=0.01)
    assert 0 < trained.iterations < 10**9


def test_buffer_gives_different_chains_and_takes_them_back():
    states = jnp.arange(7, dtype=jnp.int8)[:, None]
    base, seen = hs.Bernoulli(np.full(1, 0.5)), set()
    for seed in range(40):
        slots, x = replay.take(jax.random.key(seed), states, base, 5, 0.0)
        assert len(set(slots.tolist())) == 5
        assert np.array_equal(x[:, 0], slots)
        seen.update(slots.tolist())
    assert seen == set(range(7))
    put = replay.put(states, jnp.array([6, 0]), jnp.array([[9], [8]], jnp.int8))
    assert put[:, 0].tolist() == [8, 1, 2, 3, 4, 5, 9]


def test_an_iteration_puts_a_batch_of_chains_back():
    key_buffer, _ = jax.random.split(jax.random.key(1))
    training = pcd.Training.of(key_buffer, model(), DATA, hs.LBP("sqrt"), None, SMALL)
    began = pcd.start(training, model(), key_buffer).buffer
    moved = np.any(np.asarray(train(1).samples != began), axis=(1, 2))
    assert 10 < moved.sum() <= 20
    windows = [np.roll(moved, -first)[20:] for first in range(50)]
    assert any(not rest.any() for rest in windows)


def test_the_scale_goes_on_from_iteration_to_iteration():
    settings = PCD(**{**SMALL.__dict__, "steps": 1})
    history = train(60, settings, scale=hs.Adaptive()).history
    before = np.concatenate([[1.0], history["scale"][:-1]])
    needed = np.clip(before + history["acceptance"] - 0.574, 1.0, 3.0)
    np.testing.assert_allclose(history["scale"], needed, atol=1e-5)
    assert history["scale"].max() > 2.5


def test_restarted_chains_come_from_the_base():
    ones = jnp.ones((4_000, 2), jnp.int8)
    base = hs.Bernoulli(np.array([0.2, 0.2]))
    _, x = replay.take(jax.random.key(0), ones, base, 4_000, 0.25)
    share = 1 - 0.25 * 0.8  # of ones: never restarted, or restarted as a one
    assert abs(np.mean(np.asarray(x)) - share) < 5 * np.sqrt(share * (1 - share) / 8_000)


def test_grey_levels_become_bits_with_that_probability():
    grey = jnp.asarray(np.tile(np.array([0, 51, 255], np.uint8), (10, 1)))
    x = np.asarray(replay.draw_batch(jax.random.key(0), grey, 20_000))
    assert (x[:, 0].max(), x[:, 2].min()) == (0, 1)
    assert abs(x[:, 1].mean() - 0.2) < 5 * 0.4 / np.sqrt(20_000)
    assert x.dtype == np.int8


def test_rate_rises_linearly():
    settings = PCD(rate=0.1, warmup=4)
    optimizer, weights = pcd.optimizer(settings), jnp.ones(2)
    state, sizes = optimizer.init(weights), []
    for _ in range(6):
        update, state = optimizer.update(jnp.ones(2), state, weights)
        sizes.append(-float(np.asarray(update)[0]))
    np.testing.assert_allclose(sizes, [0.025, 0.05, 0.075, 0.1, 0.1, 0.1], rtol=1e-4)


def test_average_moves_faster_at_first():
    assert np.isclose(pcd._averaged(jnp.zeros(()), jnp.ones(()), 0, 0.99), 0.9)
    assert np.isclose(pcd._averaged(jnp.zeros(()), jnp.ones(()), 10_000, 0.99), 0.01, rtol=1e-3)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_saves_and_carries_what_training_left(tmp_path, monkeypatch):
    advance = pcd.advance

    def interrupted(*arguments):
        if arguments[0][1] == 5:  # not while compiling
            os.kill(os.getpid(), signal.SIGINT)
        return advance(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(pcd, "advance", interrupted)
        with pytest.raises(hs.Interrupted, match=r"iteration 5 of 40.*step-000000005") as stopped:
            train(40, directory=tmp_path, chunk=5)
    partial = stopped.value.partial
    assert (partial.iterations, partial.interrupted) == (5, True)
    assert same(partial.last, train(5).last)
    assert same(train(40, directory=tmp_path, resume=True).last, train(40).last)


def test_what_training_left_prints_as_a_short_table():
    trained = train(20)
    assert str(trained) == repr(trained)
    assert len(str(trained).splitlines()) < 15
    assert "EBM (2 x 3) with MLP" in str(trained)
    assert "acceptance" in str(trained)


def test_uint8_that_holds_bits_holds_bits():
    assert same(train(5).model, train_ebm(model(), DATA.astype(np.uint8), iterations=5,
                                          settings=SMALL, key=1).model)  # fmt: skip


def test_programs_from_a_cache_do_without_graphs(tmp_path, monkeypatch):
    """cuDNN fails in a CUDA graph of a program that was not compiled in this process."""
    from hopscale.engine import compiling

    before = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    double = compiling.compiled()(lambda x: 2 * x)
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        assert double(jnp.ones(2)).tolist() == [2.0, 2.0]
        monkeypatch.setitem(compiling.GRAPHS, "no_such_option", "1")
        double = compiling.compiled()(lambda x: 2 * x)
        with pytest.raises(Exception, match="no_such_option"):
            double(jnp.ones(2))
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        assert double(jnp.ones(2)).tolist() == [2.0, 2.0]
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
