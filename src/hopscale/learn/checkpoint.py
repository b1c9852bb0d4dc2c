"""Checkpoints: a training run as a file, whole or not at all.

A file is three lines and arrays: what it is and its format, the SHA-256 of all that follows, a
JSON object (step, fingerprint, settings), then an npz archive. It is written beside its place,
flushed to the disk and moved there, so a crash or a full disk leaves the one before intact.
"""

import hashlib
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hopscale.files import replacing

MAGIC = b"hopscale checkpoint"
FORMAT = 1
KEPT = 2
SUFFIX = ".checkpoint"


class CheckpointError(ValueError):
    """A checkpoint is damaged, or belongs to another run."""


class Checkpoint(NamedTuple):
    """What a file holds: `about` is the JSON object, `arrays` by name."""

    path: Path
    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write(directory: Path, step: int, about: dict[str, Any], arrays: dict[str, Any]) -> Path:
    """Write a checkpoint into the directory and remove all but the last two."""
    packed = io.BytesIO()
    plain: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    np.savez(packed, **plain)
    line = json.dumps({**about, "step": step}, sort_keys=True).encode()
    body = line + b"\n" + packed.getvalue()
    digest = hashlib.sha256(body).hexdigest().encode()
    path = directory / f"step-{step:09d}{SUFFIX}"
    _place(path, b"%s %d\n%s\n%s" % (MAGIC, FORMAT, digest, body))
    for old in paths(directory)[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def _place(path: Path, content: bytes) -> None:
    """Put a file where it belongs in one move."""
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise OSError(
            f"cannot write the checkpoint {path}: {error.strerror or error}. "
            "The checkpoints before it are intact."
        ) from error


def paths(directory: Path) -> list[Path]:
    """The checkpoints in a directory, oldest first."""
    return sorted(directory.glob(f"step-*{SUFFIX}"))


def read(
    path: str | Path, fingerprint: dict[str, Any] | None = None, notes: dict[str, Any] | None = None
) -> Checkpoint:
    """A checkpoint, if it is whole and of the run with this fingerprint and these notes.

    Raises:
        CheckpointError: it is not; the message says in what.
        FileNotFoundError: there is none.
    """
    path = Path(path)
    head, _, rest = path.read_bytes().partition(b"\n")
    digest, _, body = rest.partition(b"\n")
    name, _, version = head.rpartition(b" ")
    if name != MAGIC:
        raise CheckpointError(f"{path} is not a hopscale checkpoint, or its beginning is damaged.")
    if version != b"%d" % FORMAT:
        shown = version.decode(errors="replace")
        raise CheckpointError(
            f"{path} has format {shown}; this version of hopscale reads format {FORMAT}."
        )
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise CheckpointError(f"{path} is damaged: its SHA-256 digest does not match its content.")
    line, _, packed = body.partition(b"\n")
    about = json.loads(line)
    if fingerprint is not None:
        found = {**about.get("notes", {}), **about["fingerprint"]}
        _check_same_run(path, found, {**(notes or {}), **fingerprint})
    try:
        with np.load(io.BytesIO(packed)) as archive:
            arrays = dict(archive)
    except (ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error
    return Checkpoint(path=path, about=about, arrays=arrays)


def _check_same_run(path: Path, found: dict[str, Any], needed: dict[str, Any]) -> None:
    """Raise for a checkpoint of a run with other settings, naming the first that differ."""
    needed = json.loads(json.dumps(needed))
    names = sorted(name for name in {*found, *needed} if found.get(name) != needed.get(name))
    if names:
        differ = "; ".join(
            f"{n} {_shown(found.get(n))}, not {_shown(needed.get(n))}" for n in names
        )
        raise CheckpointError(
            f"{path} is of another run: {differ}. Resume with the settings it was made with, or "
            "start in another directory."
        )


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def latest(
    directory: str | Path,
    fingerprint: dict[str, Any] | None = None,
    notes: dict[str, Any] | None = None,
) -> Checkpoint:
    """The newest good checkpoint of a directory; those refused are named on stderr.

    Raises:
        FileNotFoundError: the directory has no checkpoint.
        CheckpointError: none is good.
    """
    directory = Path(directory)
    found = paths(directory)
    if not found:
        raise FileNotFoundError(f"there is no checkpoint (step-*{SUFFIX}) in {directory}.")
    refused = []
    for path in reversed(found):
        try:
            good = read(path, fingerprint, notes)
        except CheckpointError as error:
            refused.append(error)
            continue
        for error in refused:
            print(f"hopscale: {error} Going on from {path.name}.", file=sys.stderr)
        return good
    raise refused[0]


def find(place: str | Path) -> Checkpoint:
    """The checkpoint at a path: the file, or the newest good one of a directory."""
    place = Path(place)
    if place.is_dir():
        return latest(place)
    if not place.exists():
        raise FileNotFoundError(f"there is no checkpoint or directory {place}.")
    return read(place)
