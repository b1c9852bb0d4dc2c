"""Omniglot: characters of 50 alphabets, drawn by 20 people each, reduced in size."""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int8

from hopscale.data.dataset import DataSet
from hopscale.data.files import File, read_npz

LAKE = (
    "Brenden Lake's Omniglot (github.com/brendenlake/omniglot, {}.zip), as one array `images` of "
    "bools (characters, 20 drawings, 105, 105), True for paper"
)
BACKGROUND = File(
    "omniglot/images_background.npz",
    "97db6dcdf39955c3a949e197621f8f318092986b37e116c9b4996150e8d2d8a3",
    LAKE.format("images_background"),
)
EVALUATION = File(
    "omniglot/images_evaluation.npz",
    "a76180acf0908643e1a9494a1a841d2af4bbbbdc6d7e01e0db92eed7d1c6f902",
    LAKE.format("images_evaluation"),
)
SIDE = 28
INK = 0.3  # share of a pixel's area; at one half, thin strokes would break


def load(root: Path) -> DataSet:
    """Omniglot at 28 x 28, ink as ones.

    Made here from the original 105 x 105 drawings: a pixel is 1 if at least 0.3 of its area is
    ink. This is not the `chardata.mat` of the literature, whose pixels are grey and whose split
    cannot be recovered from the drawings, so likelihoods are not comparable to the last digit.

    All 1,623 characters are in each split: of the 20 drawings of a character the first 14 are for
    training, the next for validation and the last 5 for testing. Training and validation
    together are 24,345 images, as in the literature.
    """
    parts = [_smaller(~read_npz(root, file, ("images",))[0]) for file in (BACKGROUND, EVALUATION)]
    drawings = np.concatenate(parts)
    splits = (drawings[:, :14], drawings[:, 14:15], drawings[:, 15:])
    return DataSet("omniglot", *(split.reshape(-1, SIDE, SIDE) for split in splits))


def _smaller(ink: Bool[np.ndarray, "c d n n"]) -> Int8[np.ndarray, "c d 28 28"]:
    """Average over the area of each new pixel, one character at a time to save memory."""
    share = _overlap(ink.shape[-1], SIDE)
    small = [share @ character.astype(np.float32) @ share.T >= INK for character in ink]
    return np.stack(small).astype(np.int8)


def _overlap(n: int, m: int) -> Float[np.ndarray, "m n"]:
    """Row r holds the share of new pixel r that each of n old pixels covers."""
    edges = np.arange(m + 1) * n / m
    old = np.arange(n)
    covered = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    return (np.maximum(covered, 0.0) * m / n).astype(np.float32)
