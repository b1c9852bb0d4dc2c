"""Runs: reproducible, independent of chunks, bounded, and as they are reported."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.engine import pages
from runs import SETTINGS, TARGET, errors_away, most_errors, same

EVERYTHING = {
    "record": {
        "ones": lambda state, info: jnp.sum(state.x),
        "sites": hs.record.SiteMeans(),
        "pairs": hs.record.PairMoments(),
        "best": hs.record.BestState(),
    },
    "keep": 3,
}


@pytest.mark.parametrize(
    ("kernel", "more"),
    [
        (hs.LBP(), EVERYTHING),
        (hs.GWG(), {"keep": 3}),
        (hs.DMALA(), {"keep": 3}),
        (hs.RWM(), {"keep": 3}),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_same_key_gives_the_same_run_whatever_the_chunks(kernel, more):
    runs = [
        hs.sample(TARGET, kernel, chunk=chunk, **more, **SETTINGS) for chunk in (None, 1, 7, 64)
    ]
    for other in runs[1:]:
        same(runs[0], other)
    assert runs[0].draws is not None
    assert runs[0].draws.shape == (5, 20, 6, 6)


def test_chunks_do_not_matter_where_traces_are_averaged(monkeypatch):
    """Pages of 16 steps and traces of 8 blocks, as a run of many thousand steps has."""
    plain = hs.sample(TARGET, **EVERYTHING, **{**SETTINGS, "draws": 300})
    monkeypatch.setattr(pages, "page_rows", lambda chains: 16)
    monkeypatch.setattr(pages, "trace_capacity", lambda chains: 8)
    runs = [
        hs.sample(TARGET, chunk=chunk, **EVERYTHING, **{**SETTINGS, "draws": 300})
        for chunk in (None, 7, 64)
    ]
    for other in runs[1:]:
        same(runs[0], other)
    ones, whole = runs[0].statistics["ones"], plain.statistics["ones"]
    assert (ones.block, ones.trace.shape) == (64, (5, 4))
    blocks = whole.trace[:, :256].reshape(5, 4, 64).mean(axis=2)
    np.testing.assert_allclose(ones.trace, blocks, rtol=1e-5)
    np.testing.assert_allclose(ones.mean_by_chain, whole.mean_by_chain, rtol=1e-6)
    np.testing.assert_allclose(ones.variance_by_chain, whole.variance_by_chain, rtol=1e-5)
    np.testing.assert_array_equal(runs[0].draws, plain.draws)


def test_another_key_gives_another_run():
    a = hs.sample(TARGET, **SETTINGS)
    b = hs.sample(TARGET, **{**SETTINGS, "key": 4})
    assert not np.array_equal(a.last, b.last)


def test_seeds_and_keys_agree():
    a = hs.sample(TARGET, **SETTINGS)
    same(a, hs.sample(TARGET, **{**SETTINGS, "key": jax.random.key(3)}))
    same(a, hs.sample(TARGET, **{**SETTINGS, "key": jax.random.PRNGKey(3)}))


def test_sampler_is_another_name_for_the_kernel():
    a = hs.sample(TARGET, hs.RWM(), **SETTINGS)
    same(a, hs.sample(TARGET, sampler=hs.RWM(), **SETTINGS))
    assert a.sampler is a.kernel
    with pytest.raises(TypeError, match="two names for one argument"):
        hs.sample(TARGET, hs.RWM(), sampler=hs.RWM(), **SETTINGS)


def test_what_is_reported_is_what_happened():
    run = hs.sample(TARGET, hs.LBP(), keep="all", init=np.zeros((6, 6), int), **SETTINGS)
    assert run.draws is not None
    assert (run.draws.shape, run.draws.dtype) == ((5, 60, 6, 6), np.int8)
    states = run.draws.astype(int)
    moved = np.abs(np.diff(states, axis=1)).sum(axis=(2, 3))
    # The first draw's move started at the last warm-up state, which is not kept.
    assert run.ejd * 60 * 5 == pytest.approx(moved.sum(), abs=36 * 5)
    np.testing.assert_array_equal(run.last, run.draws[:, -1])
    distance = run.statistics["hamming"].trace
    assert distance.shape == (5, 60)
    assert np.all(np.abs(np.diff(distance, axis=1)) <= moved)
    log_prob = jax.vmap(jax.vmap(TARGET.log_prob))(run.draws)
    np.testing.assert_allclose(run.statistics["log_prob"].trace, log_prob, atol=1e-4)
    for name in ("accept_prob", "distance", "scale"):
        assert run.history[name].shape == (60,)
        assert run.warmup_history[name].shape == (40,)
    assert run.history["distance"].mean() == pytest.approx(run.ejd, rel=1e-5)
    np.testing.assert_allclose(run.history["scale"], float(run.scale or 0), rtol=1e-6)


def test_several_directions_are_watched():
    run = hs.sample(TARGET, **SETTINGS)
    names = ["log_prob", "hamming", "hamming_2", "hamming_3"]
    assert list(run.statistics) == names
    traces = [run.statistics[name].trace for name in names]
    assert len({trace.tobytes() for trace in traces}) == 4
    assert run.r_hat == max(s.r_hat for s in run.statistics.values())


def test_keep_last_and_nothing():
    run = hs.sample(TARGET, keep="last", **SETTINGS)
    assert run.draws is not None
    np.testing.assert_array_equal(run.draws[:, 0], run.last)
    assert hs.sample(TARGET, **SETTINGS).draws is None


def test_kept_states_are_every_nth():
    everything = hs.sample(TARGET, keep="all", **SETTINGS).draws
    assert everything is not None
    for n in (1, 7, 60):
        thinned = hs.sample(TARGET, keep=n, chunk=11, **SETTINGS).draws
        np.testing.assert_array_equal(thinned, everything[:, n - 1 :: n])


def test_small_buffers_of_states_lose_none(monkeypatch):
    from hopscale.engine import kept

    everything = hs.sample(TARGET, keep=2, **SETTINGS).draws
    monkeypatch.setattr(kept, "STATE_BYTES", 4 * 5 * 36)
    np.testing.assert_array_equal(hs.sample(TARGET, keep=2, **SETTINGS).draws, everything)


def test_warmup_tunes_and_drawing_does_not():
    target = hs.Bernoulli(np.linspace(0.15, 0.85, 60))
    settings = {"chains": 20, "warmup": 300, "progress": False}
    short = hs.sample(target, scale=hs.Adaptive(), draws=10, **settings)
    long = hs.sample(target, scale=hs.Adaptive(), draws=200, **settings)
    assert short.scale == long.scale
    assert isinstance(long.scale, float)
    assert long.scale > 5
    assert long.acceptance == pytest.approx(0.574, abs=0.05)


def test_a_scale_for_each_chain():
    run = hs.sample(TARGET, scale=hs.Adaptive(per_chain=True), **SETTINGS)
    assert isinstance(run.scale, np.ndarray)
    assert run.scale.shape == (5,)
    assert len(np.unique(run.scale)) > 1
    assert "from" in str(run)


def test_no_warmup_is_allowed():
    run = hs.sample(TARGET, scale=hs.Fixed(2), **{**SETTINGS, "warmup": 0})
    assert (run.warmup, run.num_draws) == (0, 60)
    assert run.warmup_history["scale"].size == 0


def test_moments_of_an_ising_model_come_out():
    target = hs.Ising(np.array([[0.3, -0.2], [0.1, 0.5]]), 0.3)
    states, pi = hs.check.states(target), hs.check.probabilities(target)
    truth = pi @ states.reshape(len(pi), -1)
    settings: dict = {"chains": 300, "warmup": 200, "draws": 400, "keep": 5, "progress": False}
    run = hs.sample(target, hs.LBP(), **settings)
    assert run.draws is not None
    by_chain = run.draws.reshape(300, -1, 4).mean(axis=1)
    assert errors_away(by_chain, truth) < most_errors(4, 300)
    assert errors_away(by_chain, truth + 0.03) > most_errors(4, 300)
    # The Monte Carlo error of a statistic covers its truth.
    log_prob = run.statistics["log_prob"]
    expected = pi @ np.asarray(jax.vmap(target.log_prob)(states))
    assert abs(log_prob.mean - expected) < most_errors(1, 300) * log_prob.error
    assert log_prob.error < 0.02


def test_single_precision_agrees_with_double_at_ten_thousand_sites():
    acceptance = []
    for double in (False, True):
        with jax.enable_x64(double):
            p = np.linspace(0.15, 0.85, 10_000)
            run = hs.sample(
                hs.Bernoulli(p),
                chains=16,
                warmup=0,
                draws=8,
                scale=hs.Fixed(700),
                key=1,
                progress=False,
                init=np.random.default_rng(2).random((16, 10_000)) < p,
            )
            acceptance.append(run.accept_prob_by_chain)
    error = np.sqrt(sum(a.var(ddof=1) / a.size for a in acceptance))
    assert error < 0.05
    assert abs(acceptance[0].mean() - acceptance[1].mean()) < most_errors(1, 16) * error


def test_print_is_a_readable_table():
    text = str(hs.sample(TARGET, hs.LBP(), **SETTINGS))
    for word in ("Ising (6 x 6) by LBP", "scale R", "acceptance", "ESS", "R-hat", "compile"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 88


def test_print_works_for_any_balancing_function():
    def log_g(power, s):
        return jnp.logaddexp(power * s, (1 - power) * s)

    run = hs.sample(TARGET, hs.LBP(functools.partial(log_g, 0.3)), **SETTINGS)
    assert "LBP(balance=functools.partial" in str(run)


def test_summary_is_ready_for_json():
    import json

    summary = json.loads(json.dumps(hs.sample(TARGET, **SETTINGS).summary()))
    for name in ("target", "sampler", "scale", "acceptance", "ejd", "ess", "ess_per_draw"):
        assert name in summary
    assert summary["statistics"]["log_prob"]["error"] > 0
    assert summary["draws"] == 60


def test_long_runs_keep_a_bounded_trace():
    target = hs.Bernoulli(np.full(3, 0.4))
    run = hs.sample(target, chains=2, warmup=0, draws=20_000, scale=hs.Fixed(1), progress=False)
    statistic = run.statistics["hamming"]
    assert statistic.block == 2
    assert statistic.trace.shape == (2, 10_000)
    assert 0 < run.ess <= 20_000


def test_progress_outside_a_terminal_is_silent(capfd):
    hs.sample(TARGET, **{**SETTINGS, "progress": True})
    assert capfd.readouterr() == ("", "")
