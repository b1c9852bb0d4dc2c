"""Ctrl-C and SIGTERM lose nothing and stop loops; threads, where neither arrives."""

import os
import signal
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from runs import SETTINGS, TARGET, same

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def signal_after(steps, number=signal.SIGINT):
    """A statistic that sends a signal from inside the compiled loop."""
    seen = []

    def count():
        seen.append(1)
        if len(seen) == steps:
            os.kill(os.getpid(), number)

    def ones(state, info):
        jax.debug.callback(count)
        return jnp.sum(state.x)

    return ones


def stopped(after, number=signal.SIGINT, **settings) -> hs.Interrupted:
    """What a run raises that receives a signal after that many steps."""
    with pytest.raises(hs.Interrupted) as caught:
        hs.sample(
            TARGET,
            chains=1,
            chunk=10,
            progress=False,
            record={"ones": signal_after(after, number)},
            **settings,
        )
    return caught.value


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_raises_with_what_was_drawn(number):
    before = signal.getsignal(number)
    error = stopped(100, number, warmup=20, draws=100_000, keep="all")
    assert isinstance(error, KeyboardInterrupt)
    run = error.run
    assert run.interrupted
    assert 0 < run.num_draws < 100_000
    assert f"stopped after {run.num_draws} of 100,000 draws" in str(error)
    assert run.draws.shape[1] == run.num_draws == run.statistics["ones"].trace.shape[1]
    np.testing.assert_array_equal(run.statistics["ones"].trace, run.draws.sum(axis=(2, 3)))
    assert "stopped by" in str(run)
    assert signal.getsignal(number) is before


@posix
def test_a_signal_during_warm_up_raises_with_an_empty_run():
    run = stopped(30, warmup=100_000, draws=10, keep="all").run
    assert (run.num_draws, run.draws) == (0, None)
    assert 0 < run.warmup < 100_000
    assert np.isnan(run.acceptance)
    assert "stopped by" in str(run)
    assert run.summary()["interrupted"]


@posix
def test_what_was_drawn_is_the_beginning_of_the_whole_run():
    settings = {"warmup": 20, "draws": 400, "key": 3, "keep": "all"}
    part = stopped(100, **settings).run
    whole = hs.sample(TARGET, chains=1, progress=False, **settings)
    assert whole.draws is not None
    np.testing.assert_array_equal(part.draws, whole.draws[:, : part.num_draws])
    gone_on = part.extend(400 - part.num_draws, progress=False)
    np.testing.assert_array_equal(gone_on.draws, whole.draws)


@posix
def test_a_run_stopped_in_warm_up_goes_on():
    settings = {"warmup": 60, "draws": 30, "key": 3, "keep": "all"}
    part = stopped(25, **settings).run
    whole = hs.sample(TARGET, chains=1, progress=False, **settings)
    gone_on = part.extend(30, progress=False)
    np.testing.assert_array_equal(gone_on.draws, whole.draws)
    assert gone_on.scale == whole.scale
    assert gone_on.warmup == 60


@posix
def test_a_loop_of_runs_stops():
    record, done = {"ones": signal_after(130)}, []

    def loop():
        for key in range(10):
            hs.sample(TARGET, record=record, **{**SETTINGS, "chains": 1, "key": key, "chunk": 10})
            done.append(key)

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert done == [0]


@posix
def test_runs_side_by_side_stop_with_what_they_have():
    with pytest.raises(hs.Interrupted) as caught:
        hs.sample_many(
            TARGET,
            keys=[0, 1],
            chains=1,
            warmup=20,
            draws=100_000,
            chunk=10,
            progress=False,
            record={"ones": signal_after(200)},
        )
    assert [run.interrupted for run in caught.value.partial] == [True, True]
    assert caught.value.partial[0].num_draws > 0


@posix
def test_handlers_of_the_program_are_left_alone():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *a: seen.append(1))
    try:
        record = {"ones": signal_after(50, signal.SIGTERM)}
        run = hs.sample(TARGET, record=record, **{**SETTINGS, "chains": 1})
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [1]
    assert not run.interrupted


def test_sampling_works_outside_the_main_thread():
    runs = []
    thread = threading.Thread(target=lambda: runs.append(hs.sample(TARGET, **SETTINGS)))
    thread.start()
    thread.join()
    same(runs[0], hs.sample(TARGET, **SETTINGS))
