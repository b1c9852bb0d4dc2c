"""The RBMs of the paper's experiments, trained on binary MNIST.

The paper gives the sizes, the data and the method. The rest is the recipe of the code it builds
on: one epoch of CD-100, batches of 100, Adam at 1e-3, visible biases from the data's means. Grey
levels above one half are ones. docs/reproduction.md says which other trainings were tried.
"""

import functools
import json
from importlib import resources
from pathlib import Path
from typing import IO, Any

import numpy as np

from hopscale.disk.files import replacing
from hopscale.learn.rbm_file import PARAMETERS, parameters
from hopscale.targets import RBM

SIZES = (100, 400, 1000)
FILE = "rbm.npz"
PACKED = "the paper's RBMs"


def load(size: int, ratios: str) -> RBM:
    """The shipped RBM with this number of hidden units, widened from half precision."""
    arrays = _shipped()
    weights, visible, hidden = (arrays[f"{name}_{size}"].astype(np.float32) for name in PARAMETERS)
    return RBM(weights, visible, hidden, ratios=ratios)


@functools.cache
def _shipped() -> dict[str, np.ndarray]:
    with resources.files("hopscale.paper").joinpath(FILE).open("rb") as file:
        return read(file)[0]


def read(file: IO[bytes]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a packed file, and how each RBM was made."""
    with np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    return arrays, json.loads(str(arrays.pop("about")))["made"]


def pack(sources: list[Path], out: Path) -> None:
    """Put trained RBMs into one npz file of half precision, with the commands that made them."""
    arrays, made = {}, {}
    for source in sources:
        held, about = parameters(source)
        size = about["recipe"]["hidden"]
        arrays |= {f"{name}_{size}": held[name].astype(np.float16) for name in PARAMETERS}
        kept = ("command", "data", "data_sha256", "history", "versions")
        made[size] = {name: about[name] for name in kept}
    with replacing(out) as file:
        np.savez_compressed(file, **arrays, about=json.dumps({"kind": PACKED, "made": made}))
