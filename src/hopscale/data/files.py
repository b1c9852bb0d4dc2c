"""Finding and checking the files of a data directory.

Where the same contents circulate in different containers, the digest is that of the contents, not
of the container.
"""

import dataclasses
import gzip
import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import numpy as np

VARIABLE = "HOPSCALE_DATA"

BROKEN_GZIP = (OSError, EOFError, zlib.error)
# NotImplementedError: flipped bits can name an unknown compression method.
BROKEN_NPZ = (*BROKEN_GZIP, zipfile.BadZipFile, ValueError, KeyError, NotImplementedError)


@dataclasses.dataclass(frozen=True)
class File:
    """A file of a public data set.

    Args:
        path: where it belongs, below the data directory.
        digest: the SHA-256 of its contents, in hexadecimal.
        origin: where it comes from, for people to read.
    """

    path: str
    digest: str
    origin: str


def find_directory(name: str, given: str | Path | None) -> Path:
    """The data directory: given, or named by the environment variable."""
    where = given or os.environ.get(VARIABLE)
    if not where:
        raise ValueError(
            f"{name} needs a data directory: name one (directory=..., or --data-dir on the "
            f"command line), or set {VARIABLE}. The data set 'digits' needs none."
        )
    path = Path(where)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no data directory {path}.")
    return path


def read(root: Path, file: File) -> bytes:
    """A file's bytes. The digest is that of the file."""
    contents = _open(root, file).read_bytes()
    _check(root, file, [contents])
    return contents


def read_gzip(root: Path, file: File) -> bytes:
    """The contents of a gzip file. The digest is theirs: compressions of them differ."""
    try:
        contents = gzip.decompress(_open(root, file).read_bytes())
    except FileNotFoundError:
        raise
    except BROKEN_GZIP as error:
        _damaged(root, file, f"it cannot be decompressed ({error})")
    _check(root, file, [contents])
    return contents


def read_npz(root: Path, file: File, names: Iterable[str]) -> list[np.ndarray]:
    """Arrays of an npz file. The digest is that of their bytes, one after the other."""
    try:
        # Opened here: given a path, NumPy leaves the file open when it turns out not to be a zip.
        with _open(root, file).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = [np.ascontiguousarray(stored[name]) for name in names]
    except FileNotFoundError:
        raise
    except (*BROKEN_NPZ, TypeError, AttributeError) as error:
        _damaged(root, file, f"the arrays {', '.join(names)} cannot be read ({error})")
    _check(root, file, [array.data for array in arrays])
    return arrays


def _open(root: Path, file: File) -> Path:
    path = root / file.path
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. {_wanted(file)}")
    return path


def _check(root: Path, file: File, parts: Iterable[bytes | memoryview]) -> None:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    if total.hexdigest() != file.digest:
        _damaged(root, file, f"the SHA-256 of its contents is {total.hexdigest()}")


def _damaged(root: Path, file: File, how: str) -> NoReturn:
    raise ValueError(f"{root / file.path} is damaged or another file: {how}. {_wanted(file)}")


def _wanted(file: File) -> str:
    return (
        f"Needed: {file.path} in the data directory, contents with SHA-256 {file.digest}, "
        f"from {file.origin}."
    )
