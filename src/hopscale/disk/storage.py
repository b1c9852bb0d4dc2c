"""One file format for runs, training and models: a description and named arrays.

A file is three lines and an archive: what it is, with the format's number; the SHA-256 of all
that follows; a JSON object; then the arrays as an npz archive. It is written beside its place and
moved there, so that a kill or a full disk leaves the previous file intact. It is read only if every
bit is as it was written. Nothing in it is ever executed: there is no pickle.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from hopscale.disk.files import write_or_set_aside

MAGIC = b"hopscale file"
FORMAT = 2  # 1: checkpoints of hopscale 0.1
_HEAD = b"%s %d\n" % (MAGIC, FORMAT)
_DIGITS = 64
_DATE = (1980, 1, 1, 0, 0, 0)  # zip needs one; fixed, so that equal content gives equal bytes
_KNOWN = {
    b"hopscale checkpoint": "a checkpoint of hopscale 0.1",
    b"PK": "a zip or npz archive",
    b"\x89PNG": "a picture",
    b"\x93NUMPY": "a NumPy array",
    b"SQLite format 3": "an SQLite database",
    b"\x1f\x8b": "a gzip archive",
}


class FileError(ValueError):
    """A file is damaged, is not hopscale's, is of another kind or format, or does not fit."""


class Stored(NamedTuple):
    """What a file holds: `about` is the JSON object (lists for tuples), `arrays` are by name."""

    path: Path
    kind: str
    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write(path: str | Path, kind: str, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a file, complete or not at all; if the disk fails, write it elsewhere and raise.

    Args:
        path: where; a file there is replaced.
        kind: what it holds, as a noun for messages: "a run".
        about: anything that JSON can hold.
        arrays: NumPy or JAX arrays of numbers or strings; keys of JAX by their `key_data`.
    """
    host = {name: _as_array(name, array) for name, array in arrays.items()}
    line = json.dumps(
        {
            "kind": kind,
            "about": about,
            # NumPy's own format has no name for bfloat16 and similar types.
            "dtypes": {name: a.dtype.name for name, a in host.items() if _is_extension(a.dtype)},
        },
        default=_as_plain,
    )

    def put(file: IO[bytes]) -> None:
        file.write(_HEAD + b"0" * _DIGITS + b"\n")
        body = _Digesting(file)
        body.write(line.encode() + b"\n")
        with zipfile.ZipFile(body, "w") as archive:
            for name, array in host.items():
                _put(archive, name, array)
        file.seek(len(_HEAD))
        file.write(body.digest.hexdigest().encode())

    write_or_set_aside(path, put)


def read(path: str | Path, kind: str) -> Stored:
    """Read a file of this kind.

    Raises:
        FileNotFoundError: there is no such file.
        FileError: it is damaged, not hopscale's, or of another kind or format.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not a regular file"
        raise FileError(f"{path} is {what}; give a file that holds {kind}.")
    with path.open("rb") as file:
        _check_intact(path, kind, file)
        try:
            description = json.loads(file.readline())
            found, about, dtypes = (description[name] for name in ("kind", "about", "dtypes"))
        except (ValueError, KeyError, TypeError) as error:
            raise _not_ours(path, kind) from error
        if found != kind:
            raise FileError(f"{path} must hold {kind}; it holds {found}. Give another file.")
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: _restored(archive[name], dtypes.get(name)) for name in archive}
        except Exception as error:  # zipfile and NumPy raise nearly anything
            raise _not_ours(path, kind) from error
    return Stored(path=path, kind=kind, about=about, arrays=arrays)


def _check_intact(path: Path, kind: str, file: io.BufferedReader) -> None:
    """Raise unless a file is of this format and undamaged; leave it at its third line."""
    head = file.readline(100)
    if not head:
        raise FileError(f"{path} is empty; it should hold {kind}. {_ADVICE}")
    name, _, number = head.removesuffix(b"\n").rpartition(b" ")
    if name != MAGIC or not number.isdigit():
        came = next((what for begin, what in _KNOWN.items() if head.startswith(begin)), None)
        came = f"it looks like {came}" if came else "or its beginning is damaged"
        raise FileError(
            f"{path} is not a hopscale file that holds {kind}: {came}. Give another file."
        )
    if int(number) != FORMAT:
        other = "newer" if int(number) > FORMAT else "earlier"
        raise FileError(
            f"{path} has format {int(number)}; this version of hopscale reads format {FORMAT}. "
            f"Read it with the {other} version that wrote it, or make it again with this one."
        )
    expected = file.readline(_DIGITS + 1)
    begin = file.tell()
    digest = hashlib.file_digest(file, "sha256").hexdigest().encode() + b"\n"
    if digest != expected:
        raise FileError(
            f"{path} is damaged: its SHA-256 digest does not match its content. {_ADVICE}"
        )
    file.seek(begin)


_ADVICE = "Use a copy, or make it again."


def _not_ours(path: Path, kind: str) -> FileError:
    return FileError(
        f"{path} is damaged, or was not written by hopscale: its digest is right, and its content "
        f"is not {kind}. {_ADVICE}"
    )


class _Digesting:
    """A file that is written front to back, with the digest of what is written."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, content) -> int:
        self.digest.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""


def _put(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    if _is_extension(array.dtype):
        array = array.view(f"u{array.dtype.itemsize}")
    entry = zipfile.ZipInfo(f"{name}.npy", _DATE)
    with archive.open(entry, "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def _restored(array: np.ndarray, dtype: str | None) -> np.ndarray:
    return array if dtype is None else array.view(np.dtype(getattr(ml_dtypes, dtype)))


def _is_extension(dtype: np.dtype) -> bool:
    """Whether a dtype is one of those that JAX adds to NumPy's."""
    return getattr(ml_dtypes, dtype.name, None) is dtype.type


def _as_array(name: str, value: Any) -> np.ndarray:
    if _is_key(value):
        raise TypeError(f"{name} is a JAX key: store jax.random.key_data of it.")
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"{name} must be an array of numbers or strings; got {value!r:.80}.")
    return array


def _as_plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a file's description must be JSON; got {value!r:.80}.")


# -- Trees of arrays as named arrays, and back. ----------------------------------------------------


def pack(tree: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays of a pytree by their paths in it, JAX keys as their data.

    Anything that is not an array (a Python number, a function, a static field) is left out.
    """
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {
        prefix + jax.tree_util.keystr(path): _data(leaf) for path, leaf in leaves if _is_array(leaf)
    }


def unpack(
    arrays: Mapping[str, np.ndarray], like: Any, prefix: str = "", source: Any = "the file"
) -> Any:
    """A tree like another, with the arrays that `pack` named.

    Args:
        arrays: those of the tree, and perhaps others.
        like: a tree of the same form. Leaves that are not arrays are taken from it.
        prefix: as given to `pack`.
        source: where the arrays are from, for the message.

    Raises:
        FileError: an array is missing, or has another shape or dtype.
    """
    leaves, form = jax.tree_util.tree_flatten_with_path(like)
    read = [
        _fitting(arrays, prefix + jax.tree_util.keystr(path), leaf, source)
        if _is_array(leaf)
        else leaf
        for path, leaf in leaves
    ]
    return jax.tree_util.tree_unflatten(form, read)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _data(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _fitting(arrays: Mapping[str, np.ndarray], name: str, like: Any, source: Any) -> Any:
    needed = jax.eval_shape(jax.random.key_data, like) if _is_key(like) else like
    array = arrays.get(name)
    if array is None or array.shape != needed.shape or array.dtype != needed.dtype:
        came = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
        raise FileError(
            f"{source} does not fit: at {name} it has {came}, and "
            f"{needed.dtype}{list(needed.shape)} is needed. It may be of another version of "
            "hopscale."
        )
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(like))
    return jnp.asarray(array) if isinstance(like, jax.Array) else array
