"""The RBMs of the paper's experiments, trained on binary MNIST.

The paper gives the sizes, the data and the method. The rest is the recipe of the code it builds
on: one epoch of CD-100, batches of 100, Adam at 1e-3, visible biases from the data's means. The
bits are Larochelle's fixed ones.
"""

import functools
from importlib import resources
from pathlib import Path

import numpy as np

from hopscale.learn import archive
from hopscale.learn.rbm_file import KIND, PARAMETERS
from hopscale.targets import RBM

SIZES = (100, 400, 1000)
FILE = "rbm.npz"
PACKED = "the paper's RBMs"


def load(size: int, ratios: str) -> RBM:
    """The shipped RBM with so many hidden units; weights of half precision, widened."""
    arrays = _shipped()
    weights, visible, hidden = (arrays[f"{name}_{size}"].astype(np.float32) for name in PARAMETERS)
    return RBM(weights, visible, hidden, ratios=ratios)


@functools.cache
def _shipped() -> dict[str, np.ndarray]:
    with resources.files("hopscale.paper").joinpath(FILE).open("rb") as file:
        return archive.unpack(file, PACKED, FILE)[0]


def pack(sources: list[Path], out: Path) -> None:
    """Put trained RBMs into one file of half precision, with the commands that made them."""
    arrays, made = {}, {}
    for source in sources:
        held, about = archive.read(source, KIND)
        size = about["recipe"]["hidden"]
        arrays |= {f"{name}_{size}": held[name].astype(np.float16) for name in PARAMETERS}
        kept = ("command", "data", "data_sha256", "history", "versions")
        made[size] = {name: about[name] for name in kept}
    archive.write(out, arrays, {"kind": PACKED, "made": made})
