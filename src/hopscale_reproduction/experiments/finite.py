"""How many sites the rate 0.574 needs (Appendix B.2).

With p near 1/2 the acceptance rate stays above 0.574 even when all N sites are flipped; with p
near 0 it is below 0.574 even when one is. In both cases some N is the first at which 0.574 can
be had at all. Rates are estimated from independent exact draws, not from chains: with all p
equal a state is a number of ones.
"""

from collections.abc import Iterator

import numpy as np

from hopscale_reproduction.cells import Cell
from hopscale_reproduction.experiments.plan import Experiment, Find

RATE = 0.574
NEAR_HALF = (0.1, 0.05, 0.025, 0.0125)  # p = 1/2 - epsilon
NEAR_ZERO = (0.01, 0.005, 0.0025, 0.00125)  # p = epsilon
# The paper's answers are in tables.csv, with the model called "finite".


def rate(n: int, p: float, scale: int, path: str, samples: int = 40_000, seed: int = 0) -> float:
    """The acceptance rate of LBP with g = sqrt in equilibrium, all sites 1 with probability p."""
    rng = np.random.default_rng(seed)
    odds = p / (1.0 - p)
    weight = np.sqrt([odds, 1.0 / odds])  # of flipping a 0, of flipping a 1
    ones = rng.binomial(n, p, samples)
    left = np.stack([n - ones, ones]).astype(float)  # zeros and ones not yet chosen
    forward, backward, ratio = np.zeros((3, samples))
    back = np.zeros((scale, samples))  # weights of the chosen sites at y
    for r in range(scale):
        total = weight @ left
        pick = (rng.random(samples) * total < weight[1] * left[1]).astype(int)
        left[pick, np.arange(samples)] -= 1
        forward += np.log(weight[pick] / total)
        back[r] = weight[1 - pick]
        ratio += np.where(pick == 1, -1.0, 1.0) * np.log(odds)
    untouched = weight @ left
    # The way back chooses the same sites, in reversed or in the same order.
    order = slice(None) if path == "reversed" else slice(None, None, -1)
    backward = np.sum(np.log(back[order] / (untouched + np.cumsum(back[order], axis=0))), axis=0)
    return float(np.mean(np.minimum(1.0, np.exp(ratio + backward - forward))))


def needed(p: float, path: str) -> int:
    """The least N with which some scale is accepted at the rate 0.574."""
    near_half = p > 0.25
    low, high = 1, 2
    reached = (lambda n: rate(n, p, n, path) <= RATE) if near_half else (
        lambda n: rate(n, p, 1, path) >= RATE
    )  # fmt: skip
    while not reached(high):
        low, high = high, 2 * high
    while high - low > max(1, low // 50):  # within two per cent
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """None: `needed` is computed when the report is made."""
    yield from ()


EXPERIMENT = Experiment("finite", "Sites needed", cells)
