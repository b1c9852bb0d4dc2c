"""A training run survives kills, damage and full disks, and goes on bit for bit."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import hopscale as hs
from hopscale.disk import files
from hopscale.learn import MLP, PCD, CheckpointError, checkpoint, load_model, train_ebm
from test_learn_pcd import DATA, SHAPE, SMALL, model, same, train

NAMES = ["step-000000020.checkpoint", "step-000000030.checkpoint"]


@pytest.fixture
def folder(tmp_path):
    """A run of 30 iterations that left checkpoints at 20 and 30."""
    train(30, directory=tmp_path, every=10)
    assert [path.name for path in sorted(tmp_path.iterdir())] == NAMES
    return tmp_path


@pytest.fixture(scope="module")
def whole():
    """The run nothing happened to."""
    return train(50)


def same_runs(a, b):
    history = all(np.array_equal(a.history[name], b.history[name]) for name in a.history)
    return history and same((a.last, a.model, a.samples), (b.last, b.model, b.samples))


def test_resuming_is_the_same_run(folder, whole):
    resumed = train(50, directory=folder, resume=True, every=10)
    assert same_runs(resumed, whole)
    assert resumed.checkpoint == folder / "step-000000050.checkpoint"


SCRIPT = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from test_learn_pcd import train
    train(10**7, directory=sys.argv[2], every=10, chunk=10)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and locks")
def test_a_folder_in_use_is_refused_and_a_killed_run_goes_on(tmp_path, whole):
    tests = os.path.dirname(__file__)  # noqa: PTH120
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), tests, str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not checkpoint.paths(tmp_path) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    for resume in (False, True):
        with pytest.raises(files.InUseError, match=f"by process {process.pid} "):
            train(10, directory=tmp_path, resume=resume)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    reached = checkpoint.latest(tmp_path).about["step"]
    end = max(50, reached + 20)
    resumed = train(end, directory=tmp_path, resume=True)
    assert same_runs(resumed, whole if end == 50 else train(end))


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flip, empty])
def test_a_damaged_checkpoint_is_passed_over(folder, whole, damage, capsys):
    damage(folder / NAMES[1])
    words = "empty" if damage is empty else "damaged"
    with pytest.raises(CheckpointError, match=words):
        checkpoint.read(folder / NAMES[1])
    resumed = train(50, directory=folder, resume=True)
    said = capsys.readouterr().err
    assert words in said
    assert f"Going on from {NAMES[0]}" in said
    assert same_runs(resumed, whole)


def test_if_all_are_damaged_training_does_not_begin(folder):
    for name in NAMES:
        flip(folder / name)
    with pytest.raises(CheckpointError, match=r"000030.* is damaged"):
        train(50, directory=folder, resume=True)


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("steps 3, not 4", {"settings": PCD(**{**SMALL.__dict__, "steps": 4})}),
        ("scale Tuned, not Fixed", {"scale": hs.Fixed(1)}),
        ('sampler.balance "sqrt", not <lambda>', {"sampler": hs.LBP(lambda s: s / 2)}),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(folder, words, change):
    with pytest.raises(CheckpointError, match=rf"another run: .*{words}"):
        train(50, directory=folder, resume=True, **change)


def test_a_checkpoint_of_another_network_or_other_data_is_refused(folder):
    from hopscale.learn import EBM, base_of

    wider = EBM(MLP(SHAPE, 9), base_of(DATA))
    more = {"iterations": 50, "settings": SMALL, "key": 1, "directory": folder, "resume": True}
    with pytest.raises(CheckpointError, match="another run: network"):
        train_ebm(wider, DATA, **more)
    with pytest.raises(CheckpointError, match="another run: data"):
        train_ebm(model(), 1 - DATA, **more)
    with pytest.raises(CheckpointError, match="another network"):
        load_model(folder, MLP(SHAPE, 9))


def test_the_model_of_a_checkpoint_keeps_its_ratios(tmp_path):
    exact = hs.learn.EBM(model().network, model().base, ratios="exact")
    train_ebm(exact, DATA, iterations=1, settings=SMALL, directory=tmp_path)
    assert load_model(tmp_path, MLP(SHAPE, 8)).ratios == "exact"


def test_a_file_of_another_format_is_refused(folder):
    path = folder / NAMES[1]
    path.write_bytes(path.read_bytes().replace(b"file 2\n", b"file 3\n", 1))
    with pytest.raises(CheckpointError, match=r"has format 3; .* reads format 2"):
        checkpoint.read(path)
    path.write_text("hopscale checkpoint 1\n")
    with pytest.raises(CheckpointError, match=r"looks like a checkpoint of hopscale 0\.1"):
        checkpoint.read(path)
    path.write_text("{}\n")
    with pytest.raises(CheckpointError, match="not a hopscale file"):
        checkpoint.find(path)


def test_a_full_disk_leaves_the_old_checkpoints(folder, whole, monkeypatch):
    before = {name: (folder / name).read_bytes() for name in NAMES}

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space left.*before it are intact"):
            train(50, directory=folder, resume=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert same_runs(train(50, directory=folder, resume=True), whole)


def test_a_run_does_not_write_over_another(folder):
    with pytest.raises(FileExistsError, match="resume it, or give another directory"):
        train(50, directory=folder)


def test_a_run_with_another_seed_does_not_go_on_from_it(folder):
    more = {"iterations": 50, "settings": SMALL, "directory": folder, "resume": True}
    with pytest.raises(CheckpointError, match=r"another run: key \[0, 1\], not \[0, 2\]"):
        train_ebm(model(), DATA, key=2, **more)


def test_two_functions_are_two_runs(tmp_path):
    half = hs.LBP(lambda s: s / 2)
    train(1, directory=tmp_path, sampler=half)
    with pytest.raises(CheckpointError, match=r"another run: sampler\.balance another <lambda>"):
        train(2, directory=tmp_path, resume=True, sampler=hs.LBP(lambda s: s / 2 + 1.0))
    assert train(2, directory=tmp_path, resume=True, sampler=half).iterations == 2


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
def test_a_locked_folder_is_left_alone(tmp_path):
    with (
        checkpoint.exclusive(tmp_path),
        pytest.raises(files.InUseError, match=r"is in use by process .* give another place"),
    ):
        train(10, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_a_checkpoint_there_is_nothing_to_resume(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        train(50, directory=tmp_path, resume=True)
    with pytest.raises(FileNotFoundError, match="no checkpoint or directory"):
        load_model(tmp_path / "nowhere")


def test_the_model_of_a_checkpoint_is_the_trained_one(folder):
    trained = train(30)
    assert same(load_model(folder, MLP(SHAPE, 8, key=9)), trained.model)
    assert same(load_model(folder, MLP(SHAPE, 8), which="network"), trained.last)
    with pytest.raises(CheckpointError, match="what its network is"):
        load_model(folder)
    assert load_model(folder, MLP(SHAPE, 8)).ratios == trained.model.ratios == "gradient"
    about = json.loads((folder / NAMES[1]).read_bytes().split(b"\n")[2])["about"]
    assert (about["step"], about["fingerprint"]["batch"]) == (30, 20)
