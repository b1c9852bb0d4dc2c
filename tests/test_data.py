"""Loaders, on tiny files made here; on the real ones where they are."""

import dataclasses
import gzip
import hashlib
import os

import numpy as np
import pytest
import scipy.io

from hopscale import data
from hopscale.data import caltech, files, mnist, omniglot

RNG = np.random.default_rng(5)
SPLITS = ("train", "valid", "test")


@pytest.fixture(autouse=True)
def no_directory(request, monkeypatch):
    if "real" not in request.fixturenames:
        monkeypatch.delenv(data.VARIABLE, raising=False)


def put(monkeypatch, root, module, constant, contents, digested=None):
    """Write a file where the loader looks, and make its digest the expected one."""
    path = root / getattr(module, constant).path
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(contents)
    digest = hashlib.sha256(contents if digested is None else digested).hexdigest()
    changed = dataclasses.replace(getattr(module, constant), digest=digest)
    monkeypatch.setattr(module, constant, changed)
    return path


def npz(tmp_path, **arrays):
    file = tmp_path / "made.npz"
    np.savez_compressed(file, **arrays)
    return file.read_bytes()


def put_idx(monkeypatch, root, constant, images):
    contents = bytes(16) + images.tobytes()
    return put(monkeypatch, root, mnist, constant, gzip.compress(contents), contents)


def test_digits_come_with_the_package():
    digits = data.load("digits")
    assert [len(digits.images(split)) for split in ("train", "valid", "test")] == [1285, 256, 256]
    assert digits.shape == (8, 8)
    assert digits.train.dtype == np.int8
    assert set(np.unique(digits.train)) == {0, 1}
    assert 0.3 < digits.train.mean() < 0.35
    assert digits.binarized(0) is digits.train
    # The first image is a nought: a ring around an empty middle.
    assert digits.train[0, 3:5, 3:5].sum() == 0
    assert digits.train[0].sum() > 15
    assert "1,285/256/256 images of 8 x 8 bits" in repr(digits)


def test_static_mnist_unpacks_rows(tmp_path, monkeypatch):
    bits = {
        s: RNG.integers(0, 2, (n, 784), np.uint8) for s, n in zip(SPLITS, (5, 3, 2), strict=True)
    }
    packed = {split: np.packbits(rows, axis=1) for split, rows in bits.items()}
    whole = b"".join(rows.tobytes() for rows in packed.values())
    put(monkeypatch, tmp_path, mnist, "STATIC", npz(tmp_path, **packed), whole)
    made = data.load("static-mnist", tmp_path)
    for split in SPLITS:
        np.testing.assert_array_equal(made.images(split).reshape(-1, 784), bits[split])
    assert not made.grey


def test_dynamic_mnist_draws_bits_by_grey_level(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "VALID_IMAGES", 4)
    grey = np.zeros((304, 28, 28), np.uint8)
    grey[:, 0], grey[:, 1], grey[:, 2] = 255, 51, 1
    put_idx(monkeypatch, tmp_path, "TRAIN", grey)
    put_idx(monkeypatch, tmp_path, "TEST", grey[:7])
    made = data.load("dynamic-mnist", tmp_path)
    assert [len(made.images(split)) for split in SPLITS] == [300, 4, 7]
    assert made.grey
    bits = made.binarized(key=0)
    assert bits.dtype == np.int8
    assert bits[:, 0].all()
    assert not bits[:, 3:].any()
    n = bits[:, 1].size  # 8,400 draws each; six standard errors
    assert bits[:, 1].mean() == pytest.approx(0.2, abs=6 * np.sqrt(0.16 / n))
    assert bits[:, 2].mean() == pytest.approx(1 / 255, abs=6 * np.sqrt(1 / 255 / n))
    np.testing.assert_array_equal(bits, made.binarized(key=0))
    assert (bits != made.binarized(key=1)).any()
    assert made.binarized(0, "test").shape == (7, 28, 28)


def test_thresholded_mnist_is_white_above_one_half(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "VALID_IMAGES", 1)
    grey = np.zeros((3, 28, 28), np.uint8)
    grey[:, 0], grey[:, 1], grey[:, 2] = 255, 128, 127
    put_idx(monkeypatch, tmp_path, "TRAIN", grey)
    put_idx(monkeypatch, tmp_path, "TEST", grey)
    made = data.load("thresholded-mnist", tmp_path)
    assert [len(made.images(split)) for split in SPLITS] == [2, 1, 3]
    assert not made.grey
    for split in SPLITS:
        assert made.images(split)[:, :2].all()
        assert not made.images(split)[:, 2:].any()


def test_caltech_turns_columns_and_ink(tmp_path, monkeypatch):
    image = np.ones((28, 28), np.uint8)
    image[2, 5:9] = 0  # the object
    rows = np.tile(image.T.reshape(1, -1), (3, 1))
    file = tmp_path / "made.mat"
    scipy.io.savemat(file, {"train_data": rows, "val_data": rows[:2], "test_data": rows[:1]})
    put(monkeypatch, tmp_path, caltech, "SPLIT_1", file.read_bytes())
    made = data.load("caltech", tmp_path)
    assert [len(made.images(split)) for split in SPLITS] == [3, 2, 1]
    np.testing.assert_array_equal(made.train[0], 1 - image)


def test_omniglot_averages_over_area(tmp_path, monkeypatch):
    paper = np.ones((2, 20, 105, 105), bool)
    paper[0, :, :15, :15] = False  # exactly 4 x 4 of the new pixels
    paper[1, :, 60:62] = False  # a line 2 wide, across a whole pixel's 3.75
    background = npz(tmp_path, images=paper)
    put(monkeypatch, tmp_path, omniglot, "BACKGROUND", background, paper.tobytes())
    put(monkeypatch, tmp_path, omniglot, "EVALUATION", background, paper.tobytes())
    made = data.load("omniglot", tmp_path)
    assert [len(made.images(split)) for split in SPLITS] == [4 * 14, 4, 4 * 5]
    square = np.zeros((28, 28), np.int8)
    square[:4, :4] = 1
    np.testing.assert_array_equal(made.train[0], square)
    np.testing.assert_array_equal(made.train[14].sum(axis=1), 28 * (np.arange(28) == 16))


def test_shares_of_a_pixel_add_up():
    np.testing.assert_allclose(omniglot._overlap(105, 28).sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(omniglot._overlap(105, 28).sum(axis=0), 28 / 105, rtol=1e-5)


def test_the_environment_names_the_directory(tmp_path, monkeypatch):
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"binarized_mnist\.npz is missing"):
        data.load("static-mnist")


EVERY_FILE = [
    ("static-mnist", mnist.STATIC),
    ("dynamic-mnist", mnist.TRAIN),
    ("thresholded-mnist", mnist.TRAIN),
    ("omniglot", omniglot.BACKGROUND),
    ("caltech", caltech.SPLIT_1),
]


@pytest.mark.parametrize(("name", "file"), EVERY_FILE)
def test_a_missing_file_is_named_with_its_digest_and_origin(tmp_path, name, file):
    with pytest.raises(FileNotFoundError) as raised:
        data.load(name, tmp_path)
    for part in (str(tmp_path / file.path), file.digest, file.origin):
        assert part in str(raised.value)


@pytest.mark.parametrize(("name", "file"), EVERY_FILE)
@pytest.mark.parametrize("contents", [b"", b"not what it should be", b"PK\3\4", b"\x1f\x8b\b"])
def test_a_damaged_file_is_named_with_its_digest_and_origin(tmp_path, name, file, contents):
    path = tmp_path / file.path
    path.parent.mkdir()
    path.write_bytes(contents)
    with pytest.raises(ValueError, match="damaged or another file") as raised:
        data.load(name, tmp_path)
    for part in (str(path), file.digest, file.origin):
        assert part in str(raised.value)


def test_truncated_files_are_damaged(tmp_path, monkeypatch):
    images = RNG.integers(0, 256, (10, 28, 28), np.uint8)
    path = put_idx(monkeypatch, tmp_path, "TRAIN", images)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cannot be decompressed"):
        data.load("dynamic-mnist", tmp_path)
    contents = npz(tmp_path, images=np.ones((1, 20, 105, 105), bool))
    path = put(monkeypatch, tmp_path, omniglot, "BACKGROUND", contents)
    path.write_bytes(contents[: len(contents) // 2])
    with pytest.raises(ValueError, match="arrays images cannot be read"):
        data.load("omniglot", tmp_path)


def test_other_contents_are_refused(tmp_path, monkeypatch):
    images = RNG.integers(0, 256, (10, 28, 28), np.uint8)
    path = put_idx(monkeypatch, tmp_path, "TRAIN", images)
    path.write_bytes(gzip.compress(bytes(16) + images.tobytes()[::-1]))
    with pytest.raises(ValueError, match="the SHA-256 of its contents is"):
        data.load("dynamic-mnist", tmp_path)


def test_an_npz_with_other_arrays_is_refused(tmp_path, monkeypatch):
    for held in ({"pictures": np.ones(3)}, {"images": np.array([{}], object)}):
        put(monkeypatch, tmp_path, omniglot, "BACKGROUND", npz(tmp_path, **held))
        with pytest.raises(ValueError, match="arrays images cannot be read"):
            data.load("omniglot", tmp_path)


def test_a_single_array_is_not_an_npz(tmp_path, monkeypatch):
    file = tmp_path / "made.npy"
    np.save(file, np.ones(3))
    put(monkeypatch, tmp_path, omniglot, "BACKGROUND", file.read_bytes())
    with pytest.raises(ValueError, match="cannot be read"):
        data.load("omniglot", tmp_path)


def test_wrong_arguments_say_what_is_right(tmp_path):
    with pytest.raises(ValueError, match="one of digits, static-mnist"):
        data.load("mnist")
    with pytest.raises(ValueError, match=r"--data-dir.*HOPSCALE_DATA.*'digits' needs none"):
        data.load("static-mnist")
    with pytest.raises(FileNotFoundError, match="no data directory"):
        data.load("static-mnist", tmp_path / "none")
    with pytest.raises(ValueError, match="train, valid, test"):
        data.load("digits").binarized(0, "validation")


def test_digests_tell_data_apart():
    digits = data.load("digits")
    assert digits.digest == data.load("digits").digest
    flipped = dataclasses.replace(digits, test=1 - digits.test)
    assert flipped.digest != digits.digest


def test_gzip_digest_is_of_the_contents(tmp_path, monkeypatch):
    """The same images, compressed differently, are the same file."""
    images = RNG.integers(0, 256, (10, 28, 28), np.uint8)
    path = put_idx(monkeypatch, tmp_path, "TRAIN", images)
    path.write_bytes(gzip.compress(bytes(16) + images.tobytes(), compresslevel=1, mtime=7))
    assert files.read_gzip(tmp_path, mnist.TRAIN)[16:] == images.tobytes()


@pytest.fixture
def real():
    if not os.environ.get(data.VARIABLE):
        pytest.skip(f"needs the real data sets: {data.VARIABLE} is not set")


REAL = {
    "static-mnist": ((50_000, 10_000, 10_000), 0.13056),
    "dynamic-mnist": ((50_000, 10_000, 10_000), 0.13097),
    "thresholded-mnist": ((50_000, 10_000, 10_000), 0.13256),
    "omniglot": ((22_722, 1_623, 8_115), 0.10227),
    "caltech": ((4_100, 2_264, 2_307), 0.44895),
}


@pytest.mark.parametrize("name", REAL)
def test_real_data(real, name):
    sizes, ink = REAL[name]
    made = data.load(name)
    assert tuple(len(made.images(split)) for split in SPLITS) == sizes
    assert made.shape == (28, 28)
    assert made.binarized(0).mean() == pytest.approx(ink, abs=1e-5)
