"""Checkpoints: a training run as files in a folder, of which the last two are kept."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hopscale.disk import files, storage
from hopscale.disk.identity import differences
from hopscale.disk.storage import FileError, Stored

KIND = "a checkpoint of training"
NEWEST = 2  # checkpoints that stay
SUFFIX = ".checkpoint"
LOCK = "training.lock"


class CheckpointError(FileError):
    """A checkpoint is damaged, or belongs to another run."""


@contextlib.contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Make the directory, and let no other run train into it; `InUseError` says who does.

    A directory made here is removed if training fails before the first checkpoint.
    """
    with files.folder_for(directory), files.exclusive(directory / LOCK, str(directory)):
        yield


def write(
    directory: Path,
    step: int,
    about: dict[str, Any],
    arrays: dict[str, Any],
    good: Path | None = None,
) -> Path:
    """Write a checkpoint into the directory and remove all but the last two, and the good one."""
    path = directory / f"step-{step:09d}{SUFFIX}"
    try:
        storage.write(path, KIND, {**about, "step": step}, arrays)
    except OSError as error:
        raise OSError(f"{error} The checkpoints before it are intact.") from error
    for old in paths(directory)[:-NEWEST]:
        if old != good:
            old.unlink(missing_ok=True)
    return path


def paths(directory: Path) -> list[Path]:
    """The checkpoints in a directory, oldest first."""
    return sorted(directory.glob(f"step-*{SUFFIX}"))


def read(
    path: str | Path, fingerprint: dict[str, Any] | None = None, notes: dict[str, Any] | None = None
) -> Stored:
    """A checkpoint, if it is intact and of the run with this fingerprint and these notes.

    Raises:
        CheckpointError: it is not; the message says why.
        FileNotFoundError: there is none.
    """
    try:
        found = storage.read(path, KIND)
    except FileError as error:
        raise CheckpointError(str(error)) from error
    if fingerprint is not None:
        stored = {**found.about.get("notes", {}), **found.about["fingerprint"]}
        differ = differences(stored, {**(notes or {}), **fingerprint})
        if differ:
            raise CheckpointError(
                f"{path} is of another run: {'; '.join(differ)}. Resume with the settings it was "
                "made with, or start in another directory."
            )
    return found


def latest(
    directory: str | Path,
    fingerprint: dict[str, Any] | None = None,
    notes: dict[str, Any] | None = None,
) -> Stored:
    """The newest good checkpoint of a directory; refused ones are named on stderr.

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


def find(place: str | Path) -> Stored:
    """The checkpoint at a path: the file, or the newest good one of a directory."""
    place = Path(place)
    if place.is_dir():
        return latest(place)
    if not place.exists():
        raise FileNotFoundError(f"there is no checkpoint or directory {place}.")
    return read(place)
