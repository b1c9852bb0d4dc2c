"""Files of RBMs in training: whole, damaged, of other runs; killed and continued."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import hopscale as hs
from hopscale.disk import files, storage
from hopscale.learn import load_rbm
from small_rbms import DIGITS, SMALL, same, train


@pytest.mark.parametrize("persistent", [False, True])
def test_resuming_goes_on_bit_for_bit(tmp_path, persistent):
    recipe = dataclasses.replace(SMALL, persistent=persistent)
    whole = train(recipe, epochs=3, file=tmp_path / "whole.npz")
    train(recipe, epochs=1, file=tmp_path / "part.npz")
    parted = train(recipe, epochs=3, file=tmp_path / "part.npz", resume=True)
    assert same(whole.rbm, parted.rbm)
    assert parted.epochs == 3
    for name, values in whole.history.items():
        np.testing.assert_array_equal(values, parted.history[name])
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "part.npz").read_bytes()
    assert same(load_rbm(tmp_path / "part.npz"), whole.rbm)
    assert load_rbm(tmp_path / "part.npz", ratios="exact").ratios == "exact"


def test_a_finished_file_has_nothing_to_go_on(tmp_path):
    done = train(epochs=2, file=tmp_path / "a.npz")
    again = train(epochs=2, file=tmp_path / "a.npz", resume=True)
    assert same(done.rbm, again.rbm)


def test_files_of_other_runs_are_refused(tmp_path):
    file = tmp_path / "a.npz"
    train(file=file)
    with pytest.raises(FileExistsError, match="resume it, or give another file"):
        train(file=file)
    with pytest.raises(ValueError, match=r"another run: cd 2, not 3; rate 0\.01, not 0\.02"):
        train(dataclasses.replace(SMALL, cd=3, rate=0.02), file=file, resume=True)
    other = dataclasses.replace(DIGITS, train=1 - DIGITS.train)
    with pytest.raises(ValueError, match="data_sha256"):
        train(data=other, file=file, resume=True)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        train(file=tmp_path / "none.npz", resume=True)
    with pytest.raises(FileNotFoundError, match="no folder"):
        train(file=tmp_path / "none" / "a.npz")


def test_damaged_files_are_refused(tmp_path):
    file = tmp_path / "a.npz"
    train(file=file)
    whole = file.read_bytes()
    for contents, words in (
        (b"", "empty"),
        (b"nonsense", "not a hopscale file"),
        (whole[: len(whole) // 2], "damaged"),
        (whole[:-30], "damaged"),
    ):
        file.write_bytes(contents)
        with pytest.raises(storage.FileError, match=rf"a\.npz is {words}"):
            load_rbm(file)
        with pytest.raises(storage.FileError, match=rf"a\.npz is {words}"):
            train(file=file, resume=True)
    storage.write(file, "an RBM in training", {}, {"weights": np.ones(3)})
    with pytest.raises(ValueError, match="no array visible_bias, hidden_bias"):
        load_rbm(file)
    storage.write(file, "something else", {}, {"weights": np.ones(3)})
    with pytest.raises(ValueError, match="must hold an RBM in training; it holds something else"):
        load_rbm(file)


def test_two_trainings_do_not_share_a_file(tmp_path):
    file = tmp_path / "a.npz"
    with (
        files.exclusive(tmp_path / "a.npz.lock", "another"),
        pytest.raises(files.InUseError, match=r"a\.npz is in use by process"),
    ):
        train(file=file)
    assert not file.exists()
    train(file=file)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    file = tmp_path / "a.npz"
    train(file=file)
    before = file.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"a\.npz: No space left.* intact"):
        train(epochs=2, file=file, resume=True)
    assert file.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["a.npz"]


ENDLESS = """
import sys
from hopscale.cli import main
sys.argv = ["hopscale", "train", "rbm", "--hidden", "16", "--cd", "2", "--rate", "0.01",
            "--epochs", "1000000", "--out", sys.argv[1]]
main()
"""


def test_a_killed_training_goes_on_as_if_it_had_not_been(tmp_path):
    file = tmp_path / "a.npz"
    env = {k: v for k, v in os.environ.items() if k != hs.data.VARIABLE}
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(file)], env=env)
    deadline = time.monotonic() + 120
    while not file.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)  # some epochs, each of which writes the file: the kill falls anywhere
    process.send_signal(signal.SIGKILL)
    process.wait()
    about = storage.read(file, "an RBM in training").about
    epochs = about["epoch"] + 1
    resumed = train(epochs=epochs, file=file, resume=True)
    assert same(resumed.rbm, train(epochs=epochs).rbm)
