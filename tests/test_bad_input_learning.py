"""What learning, annealing and data sets refuse, case by case, and files that are not theirs."""

# Wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import learn
from hopscale.learn import networks, pictures
from refusals import Refused

P = np.full(6, 0.4)
TARGET = hs.Bernoulli(P)
BITS = np.zeros((9, 6), np.int8)
DATA = hs.data.DataSet("none", BITS, BITS, BITS)
MODEL = learn.EBM(learn.MLP((6,), 2), P)
RBM = hs.RBM(np.zeros((3, 6)), np.zeros(6), np.zeros(3))
LOG_Z = learn.LogZ(0.0, 0.1, 9.0, P, P, 0.5, 1.0, BITS, 1.0, 0.5)
FOUR = hs.LogDensity(jnp.sum, (6,), num_states=4)


def train(data=BITS, **settings):
    return lambda: learn.train_ebm(MODEL, data, progress=False, **settings)


def log_z(target=TARGET, *arguments, **settings):
    return lambda: hs.log_z(target, *arguments, **settings)


def train_rbm(data=DATA, epochs=1, **recipe):
    return lambda: learn.train_rbm(data, learn.RBMRecipe(**recipe), epochs=epochs)


def data_set(*splits, name="none"):
    return lambda: hs.data.DataSet(name, *splits)


GREY = np.full((9, 6), 200, np.uint8)

TRAINING = {
    "a buffer below a batch": Refused(lambda: learn.PCD(buffer=10), ValueError, "batch of 100"),
    "too many iterations": Refused(train(iterations=2**31), ValueError, "iterations at most"),
    "another shape": Refused(train(BITS[:, :5]), ValueError, r"shape \(6,\); got \(5,\)"),
    "no states": Refused(train(BITS[:0]), ValueError, "along the first axis"),
    "one state": Refused(train(BITS[0]), ValueError, "along the first axis"),
    "a data set": Refused(train(DATA), TypeError, "Take its images, data.train"),
    "ragged data": Refused(train([[0, 1], [1]]), TypeError, "data must be an array of numbers"),
    "grey levels in int": Refused(train(GREY.astype(int)), ValueError, "0 ... 255 as uint8"),
    "spins": Refused(train(2 * BITS - 1), ValueError, r"x = \(s \+ 1\) / 2"),
    "no minutes": Refused(train(minutes=0), ValueError, "minutes must lie in"),
    "minutes of NaN": Refused(train(minutes=float("nan")), ValueError, "minutes must lie in"),
    "minutes in words": Refused(train(minutes="5"), TypeError, "minutes must be a number"),
    "R > N": Refused(train(scale=hs.Fixed(9)), ValueError, "R = 9 for 6 sites"),
    "two kernels": Refused(train(kernel=hs.RWM(), sampler=hs.RWM()), TypeError, "two names"),
    "Gibbs": Refused(train(kernel=hs.BlockGibbs()), TypeError, "an hs.RBM; got EBM"),
    "a buffer of 600 TB": Refused(
        train(settings=learn.PCD(buffer=10**14)), MemoryError, "600.0 TB; .* are there"
    ),
    "a folder that is a file": Refused(train(directory=__file__), OSError, "a file of that name"),
    "a folder in a file": Refused(train(directory=f"{__file__}/x"), OSError, "a file of that name"),
    "notes": Refused(train(notes="cnn"), TypeError, "notes must be a dictionary"),
    "notes that JSON cannot say": Refused(
        train(notes={"f": jnp.sum}, directory="."), TypeError, "notes must .*JSON"
    ),
    "nothing to resume without a folder": Refused(
        train(resume=True), ValueError, "resume .* directory"
    ),
}

RBMS = {
    "too large a batch": Refused(train_rbm(batch=10), ValueError, "none has 9"),
    "10^13 hidden units": Refused(train_rbm(hidden=10**13, batch=9), MemoryError, "are there"),
    "images alone": Refused(train_rbm(BITS), TypeError, r'hs.data.load\("digits"\)'),
    "half an epoch": Refused(train_rbm(epochs=0.5), TypeError, "epochs must be an integer"),
    "persistent in words": Refused(
        lambda: learn.RBMRecipe(persistent="no"), TypeError, "persistent must be True or False"
    ),
    "a folder": Refused(
        lambda: learn.train_rbm(DATA, learn.RBMRecipe(batch=9), file="."), OSError, "is a folder"
    ),
    "no folder": Refused(
        lambda: learn.train_rbm(DATA, learn.RBMRecipe(batch=9), file="none/at/all"),
        FileNotFoundError,
        "there is no folder",
    ),
    "nothing to resume": Refused(
        lambda: learn.train_rbm(DATA, learn.RBMRecipe(batch=9), file="none.rbm", resume=True),
        FileNotFoundError,
        "there is no file none.rbm",
    ),
    "resume without a file": Refused(
        lambda: learn.train_rbm(DATA, learn.RBMRecipe(batch=9), resume=True),
        ValueError,
        "resume .* file",
    ),
}

MODELS = {
    "nothing to learn": Refused(
        lambda: learn.train_ebm(learn.EBM(jnp.sum, P), BITS), TypeError, "nothing to learn"
    ),
    "a network of vectors": Refused(lambda: learn.EBM(lambda x: x, P), ValueError, "one real"),
    "a network of integers": Refused(lambda: learn.EBM(lambda x: 3, P), ValueError, "one real"),
    "no network": Refused(lambda: learn.EBM(3, P), TypeError, "function of one state; got int"),
    "a network of another shape": Refused(
        lambda: learn.EBM(lambda x: x @ jnp.ones(4), P), TypeError, r"network .*shape \(6,\)"
    ),
    "a base of ones": Refused(lambda: learn.EBM(jnp.sum, np.ones(6)), ValueError, "inside"),
    "another network": Refused(
        lambda: networks.by_name("vit", (8, 8), 4), ValueError, "resnet, cnn or mlp"
    ),
    "convolutions of a line": Refused(
        lambda: networks.by_name("cnn", (8,), 4), ValueError, "needs images"
    ),
    "a shape of text": Refused(lambda: learn.MLP("ab", 4), TypeError, "shape must"),
    "a shape of nothing": Refused(lambda: learn.MLP(None, 4), TypeError, "shape must"),
    "pictures of a line": Refused(
        lambda: pictures.grid(np.zeros((3, 4))), ValueError, r"\(number, height, width\)"
    ),
    "pictures of text": Refused(lambda: pictures.grid("cat"), (TypeError, ValueError), "images"),
    "filters of a target": Refused(lambda: pictures.filters(TARGET), TypeError, "rbm must be"),
    "filters of a line": Refused(lambda: pictures.filters(RBM), ValueError, "height, width"),
}

ANNEALING = {
    "no target": Refused(log_z("model"), TypeError, "target over bits; got 'model'"),
    "four values": Refused(log_z(FOUR), TypeError, "target over bits"),
    "another base": Refused(log_z(TARGET, hs.Bernoulli(P[:4])), ValueError, "target's shape"),
    "falling betas": Refused(log_z(betas=[0, 0.5, 0.4, 1]), ValueError, "rise from 0 to 1"),
    "betas from 0.5": Refused(log_z(betas=[0.5, 1.0]), ValueError, "rise from 0 to 1"),
    "betas of NaN": Refused(log_z(betas=[0.0, float("nan"), 1.0]), ValueError, "must rise"),
    "betas in words": Refused(log_z(betas="many"), TypeError, "got 'many'"),
    "no betas": Refused(log_z(betas=0), ValueError, "betas must be at least 1"),
    "betas None": Refused(log_z(betas=None), (TypeError, ValueError), "rise from 0 to 1"),
    "half a beta": Refused(log_z(betas=1.5), (TypeError, ValueError), "betas must be"),
    "betas True": Refused(log_z(betas=True), (TypeError, ValueError), "betas must be"),
    "10^10 betas": Refused(log_z(betas=10**10), ValueError, "2,147,479,552 steps at most"),
    "10^12 chains": Refused(log_z(chains=10**12), MemoryError, "TB; .* are there. Use fewer"),
    "R > N": Refused(log_z(scale=hs.Fixed(7)), ValueError, "R = 7 for 6 sites"),
    "a scale a chain": Refused(
        log_z(scale=hs.Adaptive(per_chain=True)), ValueError, "one scale for all chains"
    ),
    "two kernels": Refused(log_z(kernel=hs.RWM(), sampler=hs.RWM()), TypeError, "two names"),
    "Gibbs": Refused(log_z(kernel=hs.BlockGibbs()), TypeError, "an hs.RBM; got Tempered"),
    "a folder": Refused(log_z(keep="."), hs.FileError, "is a folder"),
    "no folder": Refused(log_z(keep="none/at/all"), FileNotFoundError, "there is no folder"),
    "likelihood of text": Refused(
        lambda: learn.log_likelihood("model", BITS, LOG_Z), TypeError, "target over bits"
    ),
    "likelihood of grey levels": Refused(
        lambda: learn.log_likelihood(TARGET, GREY, LOG_Z), ValueError, "DataSet.binarized"
    ),
    "likelihood of five sites": Refused(
        lambda: learn.log_likelihood(TARGET, BITS[:, :5], LOG_Z), ValueError, r"\(6,\) along"
    ),
    "likelihood of nothing": Refused(
        lambda: learn.log_likelihood(TARGET, BITS[:0], LOG_Z), ValueError, r"got \(0, 6\)"
    ),
}

DATA_SETS = {
    "a name that is data": Refused(
        data_set(BITS, BITS, BITS, name=BITS), TypeError, "name of a data set must be a string"
    ),
    "two shapes": Refused(data_set(BITS, BITS[:, :5], BITS), ValueError, "one shape; train has"),
    "grey and bits": Refused(data_set(GREY, BITS, GREY), ValueError, "all grey levels as uint8"),
    "an empty split": Refused(data_set(BITS, BITS[:0], BITS), ValueError, "valid must hold"),
    "no folder": Refused(
        lambda: hs.data.load("omniglot", "none"), FileNotFoundError, "no data directory none"
    ),
    "an empty folder": Refused(
        lambda: hs.data.load("omniglot", "."), FileNotFoundError, "images_background.npz is missing"
    ),
}

CASES = {
    f"{table}: {name}": case
    for table, cases in {
        "train_ebm": TRAINING,
        "train_rbm": RBMS,
        "model": MODELS,
        "log_z": ANNEALING,
        "data": DATA_SETS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_work_is_refused(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(hs.data.VARIABLE, raising=False)
    for function in ("pcd.advance", "annealing.anneal", "rbm._advance"):
        monkeypatch.setattr(f"hopscale.learn.{function}", None)  # nothing is compiled
    CASES[name].check()
    assert list(tmp_path.iterdir()) == []


# -- Files. --------------------------------------------------------------------------------------


def written(kind: str):
    """A file of each kind that is read, of another kind."""
    from hopscale.disk import storage

    return lambda path: storage.write(path, kind, {}, {"x": np.zeros(3)})


FOREIGN = {
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "text": (lambda path: path.write_text("a,b\n1,2\n"), "not a hopscale file"),
    "pickle": (lambda path: path.write_bytes(b"\x80\x04K\x01."), "not a hopscale file"),
    "npz": (lambda path: np.savez(path.open("wb"), x=P), "a zip or npz archive"),
    "npy": (lambda path: np.save(path.open("wb"), P), "a NumPy array"),
    "png": (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n"), "a picture"),
    "sqlite": (lambda path: path.write_bytes(b"SQLite format 3\0"), "an SQLite database"),
    "gzip": (lambda path: path.write_bytes(b"\x1f\x8b\x08\0"), "a gzip archive"),
    "of 0.1": (lambda path: path.write_bytes(b"hopscale checkpoint 1\n"), "hopscale 0.1"),
    "of the future": (lambda path: path.write_bytes(b"hopscale file 9\n"), "newer version"),
    "cut": (lambda path: path.write_bytes(b"hopscale file 2\n0123"), "damaged"),
    "another kind": (written("a cake"), "it holds a cake"),
    "a folder": (lambda path: path.mkdir(), "folder|no checkpoint"),
    "nothing": (lambda path: None, "there is no"),
}
READERS = {
    "hs.load": hs.load,
    "load_rbm": learn.load_rbm,
    "load_model": lambda path: learn.load_model(path, MODEL.network),
    "log_z keep": lambda path: hs.log_z(TARGET, keep=path),
    "checkpoint": lambda path: hs.sample(TARGET, checkpoint=path, progress=False),
    "resume": lambda path: learn.train_rbm(
        DATA, learn.RBMRecipe(batch=9), file=path, resume=True, progress=False
    ),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:Exception ignored")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_files_are_refused_and_left_alone(what, reader, tmp_path, monkeypatch):
    if what == "nothing" and reader in ("log_z keep", "checkpoint"):
        return  # begun there
    for function in ("runs.sampling.start", "runs.sampling.advance", "learn.annealing.anneal"):
        monkeypatch.setattr(f"hopscale.{function}", None)  # nothing is compiled
    path = tmp_path / "file"
    put, words = FOREIGN[what]
    put(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises((hs.FileError, OSError), match=words):
        READERS[reader](path)
    assert before is None or path.read_bytes() == before
