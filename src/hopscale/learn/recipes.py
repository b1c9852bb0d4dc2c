"""Default recipes for training a deep EBM, by the size of the images."""

import dataclasses
import math

from hopscale.learn.settings import PCD

SMALL_SITES = 256  # images with at most as many are small


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A network, for how many iterations it learns, and with which settings."""

    network: str
    start: str  # of the weights
    channels: int
    iterations: int
    settings: PCD


# Grathwohl et al. (2021), with the fewer steps that tuned ones allow: images of 28 x 28.
LITERATURE = Recipe(
    network="resnet", start="uniform", channels=64, iterations=50_000, settings=PCD(steps=15)
)
# Seconds on a CPU, for images such as the embedded digits.
SMALL = Recipe(
    network="mlp",
    start="he",  # of convolutions, if there are any
    channels=64,
    iterations=5_000,
    settings=PCD(steps=10, rate=1e-3, warmup=500, buffer=1_000, average=0.998),
)


def recipe_for(shape: tuple[int, ...]) -> Recipe:
    """The recipe for images of that shape."""
    return SMALL if math.prod(shape) <= SMALL_SITES else LITERATURE
