"""Commands that train and sample RBMs, the RBMs that are shipped, and pictures."""

import json
import signal
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import hopscale as hs
from hopscale import cli
from hopscale.disk import storage
from hopscale.learn import load_rbm, pictures
from hopscale.learn import rbm as learning
from hopscale.paper import rbms
from small_rbms import DIGITS, same, train

RUN = CliRunner()
TRAIN = ("train", "rbm", "--hidden", 16, "--cd", 2, "--rate", 0.01)
QUICK = ("--chains", 4, "--warmup", 10, "--draws", 20)


@pytest.fixture
def command(monkeypatch):
    """A command's result, with no data directory about."""
    monkeypatch.delenv(hs.data.VARIABLE, raising=False)
    return lambda *arguments: RUN.invoke(cli.app, [*map(str, arguments)])


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")  # a short run
def test_train_then_sample(tmp_path, command):
    file = tmp_path / "a.npz"
    done = command(*TRAIN, "--epochs", 2, "--out", file)
    assert done.exit_code == 0, done.output
    assert "RBM (8 x 8 visible, 16 hidden) on digits" in done.output
    assert same(load_rbm(file), train(epochs=2).rbm)
    about = storage.read(file, "an RBM in training").about
    assert about["command"].startswith("hopscale train rbm --hidden 16 --data digits --epochs 2")
    done = command("sample", "rbm", "--weights", file, *QUICK, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.output)
    assert (result["target"], result["size"], result["config"]) == ("rbm", 16, None)


def test_resume_by_command(tmp_path, command):
    file = tmp_path / "a.npz"
    assert command(*TRAIN, "--out", file).exit_code == 0
    assert "resume it" in str(command(*TRAIN, "--out", file).exception)
    done = command(*TRAIN, "--epochs", 2, "--out", file, "--resume")
    assert done.exit_code == 0, done.output
    assert same(load_rbm(file), train(epochs=2).rbm)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("epoch", [0, 1])
def test_ctrl_c_leaves_one_object_on_stdout(tmp_path, command, monkeypatch, epoch):
    advance, file = learning.RBMTraining.advance, tmp_path / "a.npz"

    def interrupted(job, steps):
        advance(job, steps)
        if job.learner.epoch == epoch:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(learning.RBMTraining, "advance", interrupted)
    done = command(*TRAIN, "--epochs", 2, "--out", file, "--json")
    assert done.exit_code == 130
    result = json.loads(done.stdout)
    assert (result["interrupted"], result["epochs"]) == (True, epoch)
    assert result["file"] == (str(file) if epoch else None)
    assert len(result["reconstruction"]) == epoch
    assert "stopped; " in done.stderr


def test_help_and_wrong_arguments(tmp_path, command):
    assert "rbm" in command("train", "--help").output
    for option in ("--hidden", "--data-dir", "--epochs", "--pcd", "--resume"):
        assert option in command("train", "rbm", "--help").output
    out = ("--out", tmp_path / "a.npz")
    assert command("train", "rbm").exit_code == 2
    assert "one of digits" in str(command(*TRAIN, *out, "--data", "mnist").exception)
    assert "HOPSCALE_DATA" in str(command(*TRAIN, *out, "--data", "caltech").exception)
    missing = command(*TRAIN, *out, "--data-dir", tmp_path)
    assert "binarized_mnist.npz is missing" in str(missing.exception)
    assert "at least 1" in str(command(*TRAIN, *out, "--epochs", 0).exception)
    assert "100, 400 or 1000" in str(command("sample", "rbm", "--size", 64).exception)
    config = command("sample", "rbm", "--config", "C1")
    assert "No such option: --config" in config.output
    both = command("sample", "rbm", "--size", 400, "--weights", tmp_path / "a.npz")
    assert "give one of them" in str(both.exception)


@pytest.mark.parametrize("size", rbms.SIZES)
def test_the_papers_rbms_are_shipped(size):
    target = hs.paper.rbm(size)
    assert (target.shape, target.num_hidden, target.ratios) == ((28, 28), size, "gradient")
    assert target.dtype == jnp.float32
    # Digits cover an eighth of the image; a trained machine draws no more than that.
    x = target.gibbs(0, jnp.zeros((50, 28, 28), jnp.int8), 100)
    assert 0.08 < float(jnp.mean(x.astype(jnp.float32))) < 0.18


def test_the_shipped_rbms_say_how_they_were_made():
    from importlib import resources

    with resources.files("hopscale.paper").joinpath(rbms.FILE).open("rb") as file:
        _, by_size = rbms.read(file)
    for size in rbms.SIZES:
        made = by_size[str(size)]
        assert made["command"] == (
            f"hopscale train rbm --hidden {size} --data thresholded-mnist --epochs 1 --cd "
            "100 --batch 100 --rate 0.001 --seed 0"
        )
        assert len(made["data_sha256"]) == 64
        assert made["history"][0]["reconstruction"] < 0.08


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")  # a short run
def test_sampling_a_shipped_rbm_needs_nothing_else(command):
    done = command("sample", "rbm", "--size", 100, *QUICK)
    assert done.exit_code == 0, done.output
    assert "RBM (28 x 28) by LBP" in done.output


def test_packing_rounds_to_half_precision(tmp_path):
    train(file=tmp_path / "a.npz")
    rbms.pack([tmp_path / "a.npz"], tmp_path / "packed.npz")
    with (tmp_path / "packed.npz").open("rb") as file:
        arrays, made = rbms.read(file)
    held = np.asarray(load_rbm(tmp_path / "a.npz").weights)
    assert made["16"]["data"] == "digits"
    np.testing.assert_array_equal(arrays["weights_16"], held.astype(np.float16))


def test_a_grid_shows_each_image_in_its_place():
    figure = pictures.grid(DIGITS.train[:6], columns=3, title="six")
    (shown,) = figure.axes[0].images
    tiles = np.asarray(shown.get_array())
    assert tiles.shape == (2 * 9 + 1, 3 * 9 + 1)
    np.testing.assert_array_equal(tiles[10:18, 1:9], DIGITS.train[3])


def test_filters_are_those_that_weigh_most(tmp_path):
    rbm = hs.RBM(np.array([[0.1] * 4, [3.0, -1, 0, 0]]), np.zeros((2, 2)), np.zeros(2))
    figure = pictures.filters(rbm, number=1)
    tiles = np.asarray(figure.axes[0].images[0].get_array())
    np.testing.assert_array_equal(tiles[1:3, 1:3], [[3.0, -1.0], [0.0, 0.0]])
    figure.savefig(tmp_path / "filters.png")
    assert (tmp_path / "filters.png").stat().st_size > 1000


def test_pictures_refuse_what_is_no_image():
    with pytest.raises(ValueError, match=r"run\.draws\[:, -1\]"):
        pictures.grid(np.zeros((3, 2, 8, 8)))
