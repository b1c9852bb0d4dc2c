"""Handwritten digits in three forms: fixed random bits, grey levels, and black or white."""

from pathlib import Path

import numpy as np

from hopscale.data.dataset import DataSet
from hopscale.data.files import File, read_gzip, read_npz

LAROCHELLE = (
    "Hugo Larochelle's binarization (cs.toronto.edu/~larocheh, binarized_mnist_*.amat), each row "
    "of 784 bits packed by numpy.packbits into arrays train, valid, test"
)
LECUN = "the MNIST database of LeCun, Cortes and Burges (yann.lecun.com/exdb/mnist)"

STATIC = File(
    "binarized_mnist/binarized_mnist.npz",
    "c462f82a020638a4d5d8d44e4c83242ee0145ee1d125869d0e030c35011837e6",
    LAROCHELLE,
)
TRAIN = File(
    "mnist/train-images-idx3-ubyte.gz",
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    LECUN,
)
TEST = File(
    "mnist/t10k-images-idx3-ubyte.gz",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    LECUN,
)
VALID_IMAGES = 10_000
HEADER = 16  # bytes of an idx file of images: magic number, count, rows, columns


def static(root: Path) -> DataSet:
    """The fixed bits behind most published likelihoods on binary MNIST."""
    packed = read_npz(root, STATIC, ("train", "valid", "test"))
    bits = [np.unpackbits(rows, axis=1).reshape(-1, 28, 28).astype(np.int8) for rows in packed]
    return DataSet("static-mnist", *bits)


def dynamic(root: Path) -> DataSet:
    """Grey levels; `DataSet.binarized` draws bits from them, new ones for each epoch.

    The last 10,000 of the 60,000 training images are for validation. Labels are not read.
    """
    images, test = (
        np.frombuffer(read_gzip(root, file), np.uint8, offset=HEADER).reshape(-1, 28, 28)
        for file in (TRAIN, TEST)
    )
    return DataSet("dynamic-mnist", images[:-VALID_IMAGES], images[-VALID_IMAGES:], test)


def thresholded(root: Path) -> DataSet:
    """One bit for each grey level: whether it is above one half."""
    grey = dynamic(root)
    bits = [(images > 127).astype(np.int8) for images in (grey.train, grey.valid, grey.test)]
    return DataSet("thresholded-mnist", *bits)
