"""Caltech-101 silhouettes: outlines of objects, filled."""

import io
from pathlib import Path

import numpy as np

from hopscale.data.dataset import DataSet
from hopscale.data.files import File, read

SPLIT_1 = File(
    "caltech101_silhouettes/caltech101_silhouettes_28_split1.mat",
    "eb6735e8d84b1850fabc5590124aab1755e90c9fd28123585324398405e1e42a",
    "Benjamin Marlin's Caltech 101 Silhouettes, 28x28, split 1 (people.cs.umass.edu/~marlin)",
)


def load(root: Path) -> DataSet:
    """Split 1 of the 28 x 28 silhouettes, the object as ones.

    The file stores images column by column, with the object as zeros.
    """
    import scipy.io

    arrays = scipy.io.loadmat(io.BytesIO(read(root, SPLIT_1)))
    columns = [arrays[f"{split}_data"].reshape(-1, 28, 28) for split in ("train", "val", "test")]
    return DataSet("caltech", *((1 - c.transpose(0, 2, 1)).astype(np.int8) for c in columns))
