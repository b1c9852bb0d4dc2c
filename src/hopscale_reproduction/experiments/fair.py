"""The random walk on targets that approach fair coins (Theorem 2).

With |p - 1/2| of order $N^{-\\beta}$ the best scale is of order $N^{2\\beta}$, and the best
acceptance rate 0.234 whatever $\\beta$. Small $\\beta$ needs large N: at $\\beta = 0$ the scale
stays a small integer.
"""

from collections.abc import Iterator

import numpy as np

from hopscale_reproduction.cells import Cell
from hopscale_reproduction.experiments.plan import Experiment, Find

BETAS = (0.0, 0.1, 0.2, 0.3)
RATES = tuple(round(rate, 3) for rate in np.arange(0.094, 0.40, 0.035))  # 0.234 among them
SIZES = {"quick": (100, 400), "paper": (100, 400, 1600, 6400)}
LENGTHS = {"quick": 1_500, "paper": 20_000}


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """RWM tuned for rates around 0.234."""
    for size in SIZES[profile]:
        for beta in BETAS:
            for rate in RATES:
                yield Cell(
                    "nearly_fair",
                    size,
                    "",
                    "rwm",
                    rate=rate,
                    options=(("beta", beta),),
                    warmup=LENGTHS[profile],
                    draws=LENGTHS[profile],
                )


def best_rate(rates: np.ndarray, ejd: np.ndarray) -> float:
    """Where a cubic through (rate, log EJD) has its top: the curves lean to one side."""
    fine = np.linspace(np.min(rates), np.max(rates), 2_001)
    return float(fine[np.argmax(np.polyval(np.polyfit(rates, np.log(ejd), 3), fine))])


EXPERIMENT = Experiment("fair", "RWM near fair coins", cells)
