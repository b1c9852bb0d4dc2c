"""Training restricted Boltzmann machines, and the files it leaves."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import hopscale as hs
from hopscale import cli, files, host, storage
from hopscale.learn import DivergedError, RBMRecipe, load_rbm, pictures, train_rbm
from hopscale.learn import rbm as learning
from hopscale.paper import rbms

RUN = CliRunner()
DIGITS = hs.data.load("digits")
SMALL = RBMRecipe(hidden=16, cd=2, batch=100, rate=1e-2)


def train(recipe=SMALL, data=DIGITS, **settings):
    return train_rbm(data, recipe, progress=False, **settings)


def parameters(rbm):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(rbm)]


def same(one, other):
    return all(map(np.array_equal, parameters(one), parameters(other)))


def test_training_starts_at_the_means_of_the_data():
    start = learning.begin(SMALL, DIGITS).rbm
    mean = np.clip(DIGITS.train.mean(axis=0), 0.01, 0.99)
    np.testing.assert_allclose(jax.nn.sigmoid(start.visible_bias), mean, rtol=1e-5)
    assert start.shape == (8, 8)
    assert np.asarray(start.weights).std() == pytest.approx(0.02, rel=0.1)


def test_an_iteration_climbs_the_likelihood():
    """Adam's first step goes by the sign of the slope, here known by enumeration."""
    rng = np.random.default_rng(2)
    images = (rng.random((4000, 1, 4)) < [0.2, 0.5, 0.9, 0.4]).astype(np.int8)
    data = hs.data.DataSet("four bits", images, images, images)
    recipe = RBMRecipe(hidden=2, cd=50, batch=4000)
    start = learning.begin(recipe, data)
    w, b, c = rng.normal(size=(2, 4)), rng.normal(size=(1, 4)), rng.normal(size=2)
    rbm = hs.RBM(0.5 * w, b, c)
    job = learning.RBMTraining(recipe, data, start._replace(rbm=rbm), epochs=1)
    assert host.drive(job, progress=False) == "done"
    after = job.learner.rbm
    states = jnp.asarray(hs.check.states(rbm))

    def likelihood(rbm):
        log_z = jax.scipy.special.logsumexp(-rbm.free_energy(states))
        return jnp.mean(-rbm.free_energy(images)) - log_z

    slopes = parameters(jax.grad(likelihood)(rbm))
    clear = 0
    for slope, old, new in zip(slopes, parameters(rbm), parameters(after), strict=True):
        large = np.abs(slope) > 6 * 0.5 / np.sqrt(4000)  # standard errors of the chains' mean
        np.testing.assert_allclose((new - old)[large], 1e-3 * np.sign(slope[large]), rtol=1e-2)
        clear += large.sum()
    assert clear >= 6


@pytest.mark.parametrize("persistent", [False, True])
def test_training_learns_the_digits(persistent):
    recipe = dataclasses.replace(SMALL, hidden=48, persistent=persistent)
    trained = train(recipe, epochs=20)
    errors = trained.history["reconstruction"]
    assert len(errors) == trained.epochs == 20
    assert errors[-1] < 0.7 * errors[0]
    assert 0 < trained.history["free_energy_gap"][-1] < 5
    # Better than the independent bits of its start, on images it has not seen.
    start = learning.begin(recipe, DIGITS).rbm
    x = jnp.asarray(DIGITS.test)
    noise = jax.random.bernoulli(jax.random.key(3), 0.3, x.shape).astype(jnp.int8)

    def tells_apart(rbm):
        return float(jnp.mean(rbm.free_energy(noise)) - jnp.mean(rbm.free_energy(x)))

    assert tells_apart(trained.rbm) > tells_apart(start) + 5


def test_the_same_seed_is_the_same_model():
    assert same(train().rbm, train().rbm)
    assert not same(train().rbm, train(dataclasses.replace(SMALL, seed=1)).rbm)


def test_chunks_do_not_show(monkeypatch):
    usual = train().rbm
    monkeypatch.setattr(host, "drive", partial(host.drive, chunk=5))
    assert same(usual, train().rbm)


def test_grey_levels_are_drawn_again_in_each_epoch():
    grey = hs.data.DataSet("grey", *[DIGITS.train.astype(np.uint8) * 120] * 3)
    assert grey.grey
    trained = train(data=grey, epochs=1)
    mean = np.clip(DIGITS.train.mean(axis=0) * 120 / 255, 0.01, 0.99)
    start = learning.begin(SMALL, grey).rbm
    np.testing.assert_allclose(jax.nn.sigmoid(start.visible_bias), mean, rtol=1e-5)
    assert np.isfinite(trained.history["reconstruction"]).all()


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


def test_nan_stops_with_a_clear_error(tmp_path):
    file = tmp_path / "a.npz"
    with pytest.raises(DivergedError, match=r"epoch 1, iteration \d+.*rate is 1e\+38"):
        train(dataclasses.replace(SMALL, rate=1e38), epochs=3, file=file)
    assert not file.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("epoch", [0, 1])
def test_ctrl_c_carries_the_model_so_far(tmp_path, monkeypatch, epoch):
    advance, file = learning.RBMTraining.advance, tmp_path / "a.npz"

    def interrupted(job, steps):
        advance(job, steps)
        if job.learner.epoch == epoch:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(learning.RBMTraining, "advance", interrupted)
        with pytest.raises(hs.Interrupted, match=f"stopped after epoch {epoch} of 2") as stopped:
            train(file=file, epochs=2)
    partial_result = stopped.value.partial
    assert (partial_result.interrupted, partial_result.epochs) == (True, epoch)
    assert len(partial_result.history["reconstruction"]) == epoch
    assert file.exists() == bool(epoch)  # epochs are saved when they are finished
    if epoch:
        assert same(train(file=file, epochs=2, resume=True).rbm, train(epochs=2).rbm)


def test_a_trained_rbm_prints_as_a_short_table():
    trained = train(epochs=2)
    assert str(trained) == repr(trained)
    assert "RBM (8 x 8 visible, 16 hidden)" in str(trained)
    assert f"{trained.history['reconstruction'][-1]:.4f}" in str(trained)
    assert len(str(trained).splitlines()) < 12


def test_uint8_that_holds_bits_holds_bits():
    splits = [DIGITS.images(split).astype(np.uint8) for split in ("train", "valid", "test")]
    bytes_of_bits = hs.data.DataSet("digits", *splits)
    assert not bytes_of_bits.grey
    assert bytes_of_bits.digest == DIGITS.digest


def test_gibbs_sampling_takes_bits_of_any_type_and_nothing_else():
    rbm, x = learning.begin(SMALL, DIGITS).rbm, DIGITS.train[:3]
    drawn = [rbm.gibbs(0, x.astype(kind), 2) for kind in (np.int8, np.uint8, bool, np.float32)]
    assert all(np.array_equal(drawn[0], other) for other in drawn)
    for wrong in (0.7 * x, 5 * x, np.nan * x, 2 * x - 1, 255 * x.astype(np.uint8)):
        with pytest.raises(ValueError, match="x must hold bits 0 and 1; got values from"):
            rbm.gibbs(0, wrong)
    with pytest.raises(ValueError, match=r"have shape \(8, 8\)"):
        rbm.gibbs(0, x[:, 0])
    with pytest.raises(TypeError, match="x must be an array of numbers"):
        rbm.gibbs(0, "digits")  # type: ignore[arg-type]


# -- The command line. ---------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch):
    """A command's result, with no data directory about."""
    monkeypatch.delenv(hs.data.VARIABLE, raising=False)
    return lambda *arguments: RUN.invoke(cli.app, [*map(str, arguments)])


TRAIN = ("train", "rbm", "--hidden", 16, "--cd", 2, "--rate", 0.01)
QUICK = ("--chains", 4, "--warmup", 10, "--draws", 20)


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


# -- What is shipped. ----------------------------------------------------------------------------


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
            f"hopscale train rbm --hidden {size} --data static-mnist --epochs 1 --cd 100 "
            "--batch 100 --rate 0.001 --seed 0"
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


# -- Pictures. -----------------------------------------------------------------------------------


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
