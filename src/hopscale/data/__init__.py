"""Sets of binary images to learn from: `load("static-mnist", directory)`, or `load("digits")`.

| name | bits of | train | valid | test | files below the data directory |
|---|---|---|---|---|---|
| `digits` | 8 x 8 | 1,285 | 256 | 256 | none: it comes with the package |
| `static-mnist` | 28 x 28 | 50,000 | 10,000 | 10,000 | `binarized_mnist/` |
| `dynamic-mnist` | 28 x 28, grey | 50,000 | 10,000 | 10,000 | `mnist/` |
| `thresholded-mnist` | 28 x 28 | 50,000 | 10,000 | 10,000 | `mnist/` |
| `omniglot` | 28 x 28 | 22,722 | 1,623 | 8,115 | `omniglot/` |
| `caltech` | 28 x 28 | 4,100 | 2,264 | 2,307 | `caltech101_silhouettes/` |

Files are never downloaded: a missing or damaged one raises an error that names it, its SHA-256 and
its origin. `diabetes()` is a regression problem that comes with the package.
"""

from collections.abc import Callable
from pathlib import Path

from hopscale.data import caltech, digits, mnist, omniglot
from hopscale.data.dataset import DataSet
from hopscale.data.diabetes import Regression, diabetes
from hopscale.data.files import VARIABLE, find_directory
from hopscale.validate import choice

__all__ = ["NAMES", "VARIABLE", "DataSet", "Regression", "diabetes", "load"]

_LOADERS: dict[str, Callable[[Path], DataSet]] = {
    "static-mnist": mnist.static,
    "dynamic-mnist": mnist.dynamic,
    "thresholded-mnist": mnist.thresholded,
    "omniglot": omniglot.load,
    "caltech": caltech.load,
}
NAMES = ("digits", *_LOADERS)


def load(name: str, directory: str | Path | None = None) -> DataSet:
    """Load one data set and check it against its digests.

    Args:
        name: one of `NAMES`.
        directory: the data directory; by default the environment variable HOPSCALE_DATA.
            `digits` needs none.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged or another file, or there is no such data set.
    """
    choice("data", name, NAMES)
    if name == "digits":
        return digits.load()
    return _LOADERS[name](find_directory(name, directory))
