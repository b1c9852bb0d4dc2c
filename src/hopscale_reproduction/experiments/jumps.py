"""Jump distance as the measure to tune by (Appendix B.1).

The paper argues that in the limit each site is a jump process whose speed alone depends on the
scale. Then, across scales, the inverse autocorrelation time of every test function is
proportional to the expected jump distance.
"""

from collections.abc import Iterator

import numpy as np

from hopscale import theory
from hopscale_reproduction.cells import Cell
from hopscale_reproduction.experiments.plan import Experiment, Find

STATISTICS = ("hamming", "sum", "site", "pair", "log_prob")
P = 0.25
SIZES = {"quick": 100, "paper": 800}
DRAWS = {"quick": 3_000, "paper": 20_000}
SCALES = {"quick": 6, "paper": 12}


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """LBP at scales around the best one, once for each test function."""
    n, draws = SIZES[profile], DRAWS[profile]
    best = theory.optimal_scale(np.full(n, P), "lbp", balance="barker")
    for statistic in STATISTICS:
        for factor in np.geomspace(0.1, 2.2, SCALES[profile]):
            yield Cell(
                "identical",
                n,
                "",
                "lbp",
                "barker",
                detail="reversed",
                scale=round(float(np.clip(factor * best, 1, n)), 2),
                options=(("p", P),),
                statistic=statistic,
                warmup=min(draws // 2, 2_000),
                draws=draws,
            )


EXPERIMENT = Experiment("jumps", "Jump process", cells)
