"""Commands as processes: Ctrl-C in the middle, outputs that cannot be written, poor terminals."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

QUICK = ["--chains", "4", "--warmup", "10", "--draws", "20"]


MAIN = "from hopscale_command import main; main()"
# The command, which gets Ctrl-C after some chunks of steps.
STOPPED = """
import os, signal
from hopscale import cli
from hopscale.runs import host

drive, taken = host.drive, []


def counting(job, **settings):
    advance = job.advance

    def counted(steps):
        advance(steps)
        taken.append(steps)
        if len(taken) == {chunks}:
            os.kill(os.getpid(), signal.SIGINT)

    job.advance = counted
    return drive(job, **{{**settings, "chunk": 10}})


host.drive = counting
cli.main()
"""


def run(code, command, folder=None, **options):
    settings = {"capture_output": True, "text": True, "check": False, "cwd": folder, **options}
    return subprocess.run([sys.executable, "-c", code, *command], **settings)


def stopped_in(command, folder, chunks=None):
    """What a command prints that is stopped after this many chunks of steps, if it gets there."""
    return run(STOPPED.format(chunks=chunks), command, folder)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_stopped_run_says_how_it_goes_on(tmp_path):
    own = ["sample", "bernoulli", "--size", "9", "--chains", "4", "--warmup", "10"]
    own += ["--checkpoint", "run.hop"]
    done = stopped_in([*own, "--draws", "1000", "--json"], tmp_path, chunks=5)
    assert done.returncode == 130, done.stderr
    found = json.loads(done.stdout)
    assert found["interrupted"]
    assert 0 < found["draws"] < 1000
    assert "of 1,000 draws; run.hop has the run: --resume goes on with it" in done.stderr
    refused = stopped_in([*own, "--draws", "30", "--resume"], tmp_path)
    assert refused.returncode == 2
    assert "give --draws 1000, or leave it out" in refused.stderr
    for changed in (["--size", "8"], ["--chains", "8"], ["--seed", "1"]):
        other = stopped_in([*own, *changed, "--resume"], tmp_path)
        assert "run.hop is of another run: " in other.stderr
        assert other.returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_stopped_search_shows_what_it_found(tmp_path):
    (tmp_path / "edges.txt").write_text("0 1 1\n")
    done = stopped_in(["optimize", "edges.txt", "--save", "best.csv"], tmp_path, chunks=3)
    assert done.returncode == 130, done.stderr
    assert "log_prob      1" in done.stdout
    assert "stopped after" in done.stderr
    assert (tmp_path / "best.csv").exists()
    done = stopped_in(["compare", "edges.txt", "--seconds", "1", "--json"], tmp_path, chunks=300)
    assert done.returncode == 130, done.stderr
    assert "kernels" in done.stderr


# What loads instead of JAX gets Ctrl-C, and makes another error of it, as extensions do.
STOPPED_WHILE_LOADING = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    raise ImportError("no extension") from None
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_while_jax_loads_is_a_sentence(tmp_path):
    (tmp_path / "jax.py").write_text(STOPPED_WHILE_LOADING)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = run(MAIN, ["--version"], env={**os.environ, "PYTHONPATH": path})
    assert (done.returncode, done.stderr) == (130, "hopscale: stopped\n")


def test_states_are_saved_where_nothing_can_be_printed(tmp_path):
    out = tmp_path / "draws.npz"
    own = ["sample", "bernoulli", "--size", "9", *QUICK, "--save", str(out)]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = run(MAIN, own, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert np.load(out)["draws"].shape == (4, 1, 9)


def test_a_terminal_without_some_characters_is_no_error():
    own = ["sample", "bernoulli", "--size", "9", *QUICK]
    done = run(MAIN, own, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "acceptance" in done.stdout
