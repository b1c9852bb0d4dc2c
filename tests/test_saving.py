"""Runs as files: saved, loaded and continued, bit for bit; other files are refused by name."""

import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from runs import same

FIELD = 0.3 * np.random.default_rng(0).normal(size=(4, 4))
TARGET = hs.Ising(FIELD, 0.2)
RECORD = {"sites": hs.record.SiteMeans(), "again": hs.record.log_prob}


def settings(draws, **more):
    return {
        "chains": 5, "warmup": 40, "draws": draws, "key": 3, "keep": 3, "record": RECORD,
        "progress": False, **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def complete():
    return hs.sample(TARGET, **settings(90))


def test_a_loaded_run_is_the_run_and_goes_on(tmp_path, complete):
    part = hs.sample(TARGET, **settings(31))
    part.save(tmp_path / "run.hop")
    loaded = hs.load(tmp_path / "run.hop")
    same(part, loaded)
    same(complete, loaded.extend(59, progress=False))


def test_an_existing_file_is_not_overwritten_unasked(tmp_path, complete):
    file = tmp_path / "run.hop"
    complete.save(file)
    with pytest.raises(FileExistsError, match=r"run\.hop exists"):
        complete.save(file)
    complete.save(file, overwrite=True)


CHECKPOINTED = """
import sys, warnings
sys.path.insert(0, sys.argv[2])
import hopscale as hs
from hopscale.runs import host
from test_saving import TARGET, settings

drive = host.drive


def slowly(job, **options):
    advance = job.advance

    def tired(steps):
        advance(steps)
        print("step", flush=True)

    job.advance = tired
    return drive(job, **{**options, "chunk": 7, "save_seconds": 0.0})


host.drive = slowly
hs.sample(TARGET, **settings(90, checkpoint=sys.argv[1]))
"""


def test_a_killed_run_goes_on_bit_for_bit(tmp_path, complete):
    file = tmp_path / "run.hop"
    command = [sys.executable, "-c", CHECKPOINTED, str(file), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(12):  # 40 steps of warm-up are six chunks
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert file.exists()
    same(complete, hs.sample(TARGET, **settings(90, checkpoint=file)))
    same(complete, hs.sample(TARGET, **settings(90, checkpoint=file)))  # it is all there


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"chains": 6}, "chains 5, not 6"),
        ({"key": 4}, "seed 3, not 4"),
        ({"draws": 91}, "draws 90, not 91"),
        ({"keep": None}, "keep"),
        ({"scale": hs.Fixed(2)}, "tuner"),
        ({"kernel": hs.LBP("sqrt")}, "kernel"),
        ({"record": {"again": lambda state, info: state.log_prob}}, "functions"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path, complete, changed, words):
    complete.save(tmp_path / "run.hop")
    asked = {**settings(90), **changed, "checkpoint": tmp_path / "run.hop"}
    with pytest.raises(hs.FileError, match=rf"is of another run: .*{words}"):
        hs.sample(TARGET, **asked)


def test_a_checkpoint_of_another_target_is_refused(tmp_path, complete):
    complete.save(tmp_path / "run.hop")
    with pytest.raises(hs.FileError, match=r"another run: target\.field"):
        hs.sample(hs.Ising(2 * FIELD, 0.2), **settings(90, checkpoint=tmp_path / "run.hop"))


def test_damaged_and_foreign_files_are_refused(tmp_path, complete):
    file = tmp_path / "run.hop"
    complete.save(file)
    content = file.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 4
    for damaged in (b"", b"nonsense", content[:200], content[:-9], bytes(flipped)):
        file.write_bytes(damaged)
        with pytest.raises(hs.FileError, match=r"run\.hop"):
            hs.load(file)
    with pytest.raises(FileNotFoundError):
        hs.load(tmp_path / "none.hop")


def test_functions_are_compared_by_what_they_do(tmp_path):
    def made(factor):
        return hs.LogDensity(lambda x: factor * jnp.sum(x), (5,))

    run = hs.sample(made(0.1), chains=4, warmup=5, draws=9, progress=False)
    run.save(tmp_path / "own.hop")
    with pytest.raises(hs.FileError, match=r"cannot hold a function of yours.*target=\.\.\."):
        hs.load(tmp_path / "own.hop")
    with pytest.raises(hs.FileError, match="another run: target"):
        hs.load(tmp_path / "own.hop", target=made(0.2))
    same(run, hs.load(tmp_path / "own.hop", target=made(0.1)))


def test_runs_side_by_side_cannot_be_saved(tmp_path):
    run, _ = hs.sample_many(TARGET, keys=[0, 1], chains=2, warmup=3, draws=4, progress=False)
    with pytest.raises(ValueError, match="side by side"):
        run.save(tmp_path / "run.hop")
    with pytest.raises(ValueError, match="side by side"):
        run.extend(3)
