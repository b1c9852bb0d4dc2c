"""Pictures of what was learnt: images in a grid, and the filters of an RBM."""

import math
from typing import TYPE_CHECKING

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Num

from hopscale.targets import RBM
from hopscale.validate import count, instance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TILE = 0.55  # least width of an image, in inches
LINE = 1  # pixels between two images


def grid(images: ArrayLike, columns: int | None = None, title: str = "") -> "Figure":
    """Binary images side by side, ink black on white.

    Args:
        images: of shape (n, height, width); bits, or probabilities.
        columns: images in a row; by default a number that fills the last row, if one is near.
        title: above the grid.

    Returns:
        A matplotlib figure; save it with `figure.savefig("samples.png")`.
    """
    return _figure(_as_images(images), columns, title, line=0.12, cmap="gray_r", vmin=0, vmax=1)


def filters(rbm: RBM, number: int = 100, columns: int | None = None, title: str = "") -> "Figure":
    """The weights of the hidden units with the largest norms, one image each.

    Red pixels switch the unit on, blue ones off. All images share one colour scale, up to the
    99.5th percentile of the weights shown.
    """
    instance("rbm", rbm, RBM, "hs.paper.rbm(400)")
    count("number", number, minimum=1)
    order = np.argsort(-np.linalg.norm(np.asarray(rbm.weights), axis=1), kind="stable")
    weights = np.asarray(rbm.weights)[order[:number]].reshape(-1, *rbm.shape)
    bound = float(np.quantile(np.abs(weights), 0.995))
    style = {"line": np.nan, "cmap": "RdBu_r", "vmin": -bound, "vmax": bound}
    return _figure(_as_images(weights), columns, title, **style)


def _as_images(images: ArrayLike) -> Num[np.ndarray, "n height width"]:
    array = np.asarray(images)
    if array.ndim != 3 or array.size == 0:
        raise ValueError(
            f"images must have shape (number, height, width); got {array.shape}. Of a run, take "
            "run.draws[:, -1]."
        )
    return array


def _figure(images: np.ndarray, columns: int | None, title: str, line: float, **style) -> "Figure":
    from matplotlib.figure import Figure

    rows, columns = _layout(len(images), columns)
    tiles = _tiles(images, rows, columns, line)
    # A narrow grid is drawn larger, so that its title fits.
    width = max(TILE * columns, 0.1 * len(title), 2.0)
    height = width * tiles.shape[0] / tiles.shape[1]
    head = 0.35 if title else 0.0
    figure = Figure(figsize=(width, height + head), dpi=150)
    axes = figure.add_axes((0.0, 0.0, 1.0, height / (height + head)))
    axes.imshow(tiles, interpolation="nearest", aspect="auto", **style)
    axes.set_axis_off()
    if title:
        figure.suptitle(title, y=1.0 - 0.08 / (height + head), va="top", fontsize=11)
    return figure


def _layout(n: int, columns: int | None) -> tuple[int, int]:
    """Rows and columns; wider than high, and full if a divisor of n is near the square root."""
    if columns is not None:
        count("columns", columns, minimum=1)
    root = math.isqrt(n - 1) + 1
    full = (c for c in range(root, 2 * root) if n % c == 0)
    columns = min(columns or next(full, root), n)
    return math.ceil(n / columns), columns


def _tiles(images: np.ndarray, rows: int, columns: int, line: float) -> np.ndarray:
    """One large image: rows of images, with lines around them and nothing in empty places."""
    size = images.shape[1:]
    height, width = (side + LINE for side in size)
    large = np.full((rows * height + LINE, columns * width + LINE), np.nan)
    for place, image in enumerate(images):
        top, left = place // columns * height, place % columns * width
        large[top : top + height + LINE, left : left + width + LINE] = line
        large[top + LINE : top + height, left + LINE : left + width] = image
    return large
