"""Ctrl-C, and threads where there is none."""

import os
import signal
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from test_run import SETTINGS, TARGET, same


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


def stopped(after, **settings):
    """A run that receives SIGINT after so many steps."""
    statistic = interrupt_after(after)
    return hs.sample(TARGET, chains=1, chunk=10, progress=False, statistic=statistic, **settings)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_returns_what_was_drawn(capfd):
    run = stopped(100, warmup=20, draws=100_000, keep="all")
    assert run.interrupted
    assert 0 < run.num_draws < 100_000
    assert run.draws is not None
    assert run.draws.shape[1] == run.num_draws == run.trace.shape[1]
    assert "Ctrl-C" in str(run)
    assert "stopped by Ctrl-C" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("keep", ["all", "last", None])
def test_ctrl_c_during_warmup_returns_an_empty_run(keep):
    run = stopped(30, warmup=100_000, draws=10, keep=keep)
    assert run.interrupted
    assert (run.num_draws, run.draws) == (0, None)
    assert np.isnan(run.acceptance)
    assert "stopped by Ctrl-C" in str(run)


def test_sampling_works_outside_the_main_thread():
    runs = []
    thread = threading.Thread(target=lambda: runs.append(hs.sample(TARGET, **SETTINGS)))
    thread.start()
    thread.join()
    same(runs[0], hs.sample(TARGET, **SETTINGS))
