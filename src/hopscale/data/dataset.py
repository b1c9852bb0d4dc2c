"""The data set that a loader returns."""

import dataclasses
import hashlib
from typing import Any

import jax
import numpy as np
from jaxtyping import Int8, UInt8

from hopscale.validate import as_key, choice, images

SPLITS = ("train", "valid", "test")

Bits = Int8[np.ndarray, "n *shape"]
Images = Bits | UInt8[np.ndarray, "n *shape"]


@dataclasses.dataclass(frozen=True)
class DataSet:
    """Images in three splits: bits (int8; 1 is ink), or grey levels 0 ... 255 (uint8).

    Splits that hold only 0 and 1 are bits, whatever their type. If one split holds grey levels, all
    splits must be given as uint8 and are kept as grey levels.
    """

    name: str
    train: Images
    valid: Images
    test: Images

    def __post_init__(self):
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a data set must be a string; got {self.name!r:.80}.")
        checked = {split: images(split, getattr(self, split)) for split in SPLITS}
        grey = [split for split, array in checked.items() if array.dtype == np.uint8]
        for split, array in checked.items():
            if array.shape[1:] != checked["train"].shape[1:]:
                raise ValueError(
                    f"all splits must hold images of one shape; train has "
                    f"{checked['train'].shape[1:]} and {split} {array.shape[1:]}."
                )
            if grey and split not in grey:
                given = np.asarray(getattr(self, split))
                if given.dtype != np.uint8:
                    raise ValueError(
                        f"all splits must be bits, or all grey levels as uint8; {grey[0]} holds "
                        f"grey levels and {split} is of dtype {given.dtype}."
                    )
                checked[split] = given
            object.__setattr__(self, split, checked[split])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        return self.train.shape[1:]

    @property
    def grey(self) -> bool:
        """Whether pixels are grey levels, from which new bits are drawn for each epoch."""
        return self.train.dtype == np.uint8

    @property
    def digest(self) -> str:
        """SHA-256 of all images: identifies what a model was trained on."""
        total = hashlib.sha256(self.name.encode())
        for split in SPLITS:
            total.update(np.ascontiguousarray(self.images(split)).data)
        return total.hexdigest()

    def images(self, split: str = "train") -> Images:
        """A split by name."""
        choice("split", split, SPLITS)
        return getattr(self, split)

    def binarized(self, key: Any, split: str = "train") -> Bits:
        """A split as bits: grey levels are drawn, P(1) = level / 255; bits stay as they are.

        Args:
            key: a seed or JAX key, a new one for each epoch.
            split: "train", "valid" or "test".
        """
        images = self.images(split)
        if not self.grey:
            return images
        # NumPy draws bytes some ten times faster than JAX on a CPU, and the same ones everywhere.
        seed = np.asarray(jax.random.bits(as_key(key), (4,)))
        threshold = np.random.default_rng(seed).integers(0, 255, images.shape, np.uint8)
        return (images > threshold).astype(np.int8)

    def __repr__(self) -> str:
        sizes = "/".join(f"{len(self.images(split)):,}" for split in SPLITS)
        kind = "grey levels" if self.grey else "bits"
        return f"DataSet({self.name}: {sizes} images of {' x '.join(map(str, self.shape))} {kind})"
