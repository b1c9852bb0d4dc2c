"""The file format: what was written comes back, and everything else is refused by name."""

import hashlib
import json
import os
import zipfile
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from hopscale.disk import storage
from hopscale.disk.storage import FileError

ARRAYS = {
    "numbers": np.arange(12.0).reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
    "scalar": np.asarray(True),
    "none": np.zeros((0, 5), np.float32),
    "words": np.array(["a", "bcd"]),
    ".network.layers[0].weight": np.ones(3, np.uint16),
    "file": np.ones(2),  # the name of an argument of NumPy's own writer
    "brain": np.linspace(-2, 2, 7).astype(ml_dtypes.bfloat16),
    "small": np.asarray(0.5, ml_dtypes.float8_e4m3fn),
}
ABOUT = {"step": 3, "names": ["ä", None], "nested": {"x": 0.1}, "numpy": np.float32(0.5)}


@pytest.fixture
def path(tmp_path):
    storage.write(tmp_path / "a.run", "a run", ABOUT, ARRAYS)
    return tmp_path / "a.run"


def test_what_is_written_is_read(path):
    found = storage.read(path, "a run")
    assert (found.path, found.kind) == (path, "a run")
    assert found.about == {**ABOUT, "numpy": 0.5}
    assert list(found.arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        read = found.arrays[name]
        assert (read.dtype, read.shape) == (array.dtype, array.shape), name
        assert read.tobytes() == array.tobytes(), name


def test_nothing_to_keep_is_kept(tmp_path):
    storage.write(tmp_path / "a", "a run", {}, {})
    assert storage.read(tmp_path / "a", "a run")[2:] == ({}, {})


def test_equal_content_is_equal_bytes(path):
    before = path.read_bytes()
    storage.write(path, "a run", ABOUT, ARRAYS)
    assert path.read_bytes() == before


def test_the_archive_is_an_ordinary_one(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert "numbers.npy" in archive.namelist()


def refused(path, words, kind="a run"):
    with pytest.raises(FileError, match=words) as raised:
        storage.read(path, kind)
    assert "allow_pickle" not in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_file_cut_anywhere_is_refused(path):
    content = path.read_bytes()
    for end in [*range(300), *range(300, len(content), 11), len(content) - 1]:
        path.write_bytes(content[:end])
        refused(path, "empty" if end == 0 else "damaged")
    path.write_bytes(content + b"\n")
    refused(path, "damaged")


def test_a_flipped_bit_anywhere_is_noticed(path):
    content = path.read_bytes()
    for place in [*range(300), *range(300, len(content), 11)]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        refused(path, "damaged|has format")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty; it should hold a run"),
        (b"\n", "not a hopscale file"),
        (b"hopscale file two\n", "beginning is damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "looks like a picture"),
        (b"PK\x03\x04" + bytes(50), "looks like a zip or npz archive"),
        (b"hopscale checkpoint 1\nabc", r"looks like a checkpoint of hopscale 0\.1"),
        (b"hopscale file 1\n" + bytes(80), "reads format 2.*earlier version that wrote it"),
        (b"hopscale file 37\n" + bytes(80), "has format 37; .* reads format 2.*newer version"),
    ],
)
def test_foreign_files_are_refused(path, content, words):
    path.write_bytes(content)
    refused(path, words)


def test_files_of_another_kind_are_refused(path):
    refused(path, "must hold a trained RBM; it holds a run", "a trained RBM")


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        storage.read(tmp_path / "none", "a run")
    refused(tmp_path, "is a folder; give a file that holds a run")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "is not a regular file")


def signed(body: bytes) -> bytes:
    """A file with a right digest."""
    return b"hopscale file 2\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"{}", json.dumps({"kind": "a run", "about": {}, "dtypes": {}}).encode()]
)
def test_a_right_digest_over_nonsense_is_refused(path, line):
    path.write_bytes(signed(line + b"\nnonsense"))
    refused(path, "its digest is right")


class Payload:
    def __reduce__(self):
        return (exec, ("raise AssertionError('a pickle ran')",))


def test_a_pickle_in_a_file_does_not_run(path, tmp_path):
    np.savez(tmp_path / "evil.npz", numbers=np.array([Payload()], dtype=object))
    line = json.dumps({"kind": "a run", "about": {}, "dtypes": {}}).encode() + b"\n"
    path.write_bytes(signed(line + (tmp_path / "evil.npz").read_bytes()))
    refused(path, "its digest is right")


@pytest.mark.parametrize(
    ("about", "arrays", "words"),
    [
        ({}, {"x": np.array([{}])}, "x must be an array of numbers or strings"),
        ({}, {"x": jax.random.key(0)}, "x is a JAX key"),
        ({"x": object()}, {}, "description must be JSON"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_the_old_file_goes(path, about, arrays, words):
    before = path.read_bytes()
    with pytest.raises(TypeError, match=words):
        storage.write(path, "a run", about, arrays)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["a.run"]


# -- Trees. --------------------------------------------------------------------------------------


class State(NamedTuple):
    key: Any
    network: Any
    count: Any
    host: np.ndarray
    rest: Any


def tree(seed=0, width=3, impl=None):
    network = eqx.nn.MLP(2, 1, width, 1, key=jax.random.key(seed))
    half = jnp.full((2,), seed, jnp.bfloat16)
    return State(
        key=jax.random.split(jax.random.key(seed, impl=impl), 4),
        network=network,
        count=jnp.asarray(seed, jnp.int32),
        host=np.full(2, seed, np.float64),
        rest={"half": half, "word": "x", "fn": jnp.tanh, "nothing": None, "number": 5},
    )


def test_trees_go_through_a_file_and_come_back(tmp_path):
    storage.write(tmp_path / "a", "a run", {}, {**storage.pack(tree(1)), "history": np.ones(2)})
    arrays = storage.read(tmp_path / "a", "a run").arrays
    assert ".network.layers[0].weight" in arrays
    back = storage.unpack(arrays, tree(2))
    assert jax.tree.structure(back) == jax.tree.structure(tree(2))
    draw = jax.vmap(lambda key: jax.random.uniform(key, (3,)))
    np.testing.assert_array_equal(draw(back.key), draw(tree(1).key))
    assert eqx.tree_equal(back._replace(key=0), tree(1)._replace(key=0))
    assert isinstance(back.host, np.ndarray)
    assert isinstance(back.count, jax.Array)


def test_prefixes_keep_trees_apart():
    arrays = {**storage.pack(tree(1), "a"), **storage.pack(tree(2), "b")}
    assert int(storage.unpack(arrays, tree(), "a").count) == 1
    assert int(storage.unpack(arrays, tree(), "b").count) == 2


@pytest.mark.parametrize(
    ("like", "words"),
    [
        (tree(width=4), r"weight it has float32\[3, 2\], and float32\[4, 2\] is needed"),
        (tree()._replace(count=jnp.asarray(0.0)), r"\.count it has int32\[\], and float32\[\]"),
        (tree(impl="rbg"), r"\.key it has uint32\[4, 2\], and uint32\[4, 4\] is needed"),
        ([jnp.ones(2)], r"at \[0\] it has nothing"),
    ],
)
def test_trees_of_another_form_are_refused_by_name(like, words):
    with pytest.raises(FileError, match="here does not fit: at .*" + words.removeprefix("at ")):
        storage.unpack(storage.pack(tree()), like, source="here")
