"""Files of arrays with a description, written so that a kill at any moment leaves a whole file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from hopscale.files import replacing

ABOUT = "about"


def write(path: Path, arrays: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write an npz file, whole or not at all."""
    text = np.asarray(json.dumps(about))
    with replacing(path) as file:
        np.savez_compressed(file, **{**arrays, ABOUT: text})


def read(path: Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a file and its description, which must say that it is of this kind."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    with path.open("rb") as file:
        return unpack(file, kind, str(path))


def unpack(file: IO[bytes], kind: str, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The same, from an open file."""
    try:
        with np.load(file, allow_pickle=False) as held:
            arrays = {key: held[key] for key in held.files}
        about = json.loads(str(arrays.pop(ABOUT)))
        found = about["kind"]
    except Exception as error:  # a flipped bit makes zipfile and NumPy raise nearly anything
        raise ValueError(
            f"{name} is damaged, or was not written by hopscale. Train again, or choose another "
            "file."
        ) from error
    if found != kind:
        raise ValueError(f"{name} must hold {kind}; it holds {found}.")
    return arrays, about
