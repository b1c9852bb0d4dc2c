"""Small digits that come with the package, so that everything runs without a data directory."""

from importlib import resources

import numpy as np

from hopscale.data.dataset import DataSet


def load() -> DataSet:
    """1,797 handwritten digits of 8 x 8 bits.

    From the test part of *Optical Recognition of Handwritten Digits* (E. Alpaydin and C. Kaynak,
    1998, UCI Machine Learning Repository, doi 10.24432/C50P49, licence CC BY 4.0). Changed: the
    levels 0 ... 16 became bits, 1 from level 8 on.

    Of every seven consecutive images the last is for testing and the one before it for validation.
    """
    with (
        resources.files("hopscale.data").joinpath("digits.npz").open("rb") as stream,
        np.load(stream) as arrays,
    ):
        bits = np.unpackbits(arrays["bits"], axis=1).reshape(-1, 8, 8).astype(np.int8)
    turn = np.arange(len(bits)) % 7
    return DataSet("digits", bits[turn < 5], bits[turn == 5], bits[turn == 6])
