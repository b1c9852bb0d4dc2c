"""The weights of the FHMM, which the paper does not give: one |W|^2 for all its tables.

The tables' model has an almost flat prior and weights of an unknown size. These cells run over
|W|^2; the report fits the one that comes closest to all printed jump distances at once.
"""

from collections.abc import Iterator

import numpy as np

from hopscale_reproduction import tables
from hopscale_reproduction.cells import Cell, table_cell
from hopscale_reproduction.experiments.plan import (
    BEST_RATE,
    CONFIGS,
    LENGTHS,
    MAIN,
    Experiment,
    Find,
)

SQUARED_WEIGHTS = {"quick": (0.8, 1.1, 1.4), "paper": (0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)}
SIZES = {"quick": (200,), "paper": (200, 1000)}
LENGTH = {"quick": 2_000, "paper": LENGTHS[0]}
INSTANCES = {"quick": 1, "paper": 4}


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """Tuned RWM and LBP over |W|^2."""
    half = LENGTH[profile] // 2
    for size in SIZES[profile]:
        for sampler, balance in MAIN:
            for config in ("C2",) if profile == "quick" else CONFIGS:
                for instance in range(INSTANCES[profile]):
                    for squared in SQUARED_WEIGHTS[profile]:
                        yield table_cell(
                            "fhmm",
                            size,
                            config,
                            sampler,
                            balance,
                            rate=BEST_RATE[sampler],
                            instance=instance,
                            options={"squared_weights": squared},
                            warmup=half,
                            draws=half,
                        )


def misfit(profile: str, find: Find) -> dict[float, float]:
    """For each |W|^2, the root mean square of log(ours / paper's) over columns and samplers."""
    logs: dict[tuple, dict[float, list[float]]] = {}
    for cell in cells(profile, find):
        found = find(cell)
        printed = tables.value(
            "fhmm", cell.size, cell.config, cell.sampler, cell.balance, "adaptive", "ejd"
        )
        if found is None or printed is None:
            continue
        column = logs.setdefault((cell.size, cell.config, cell.sampler), {})
        squared = dict(cell.options)["squared_weights"]
        column.setdefault(squared, []).append(found["ejd"] / printed)
    return {
        squared: float(
            np.sqrt(np.mean([np.log(np.mean(column[squared])) ** 2 for column in logs.values()]))
        )
        for squared in SQUARED_WEIGHTS[profile]
        if logs and all(squared in column for column in logs.values())
    }


EXPERIMENT = Experiment("fit", "Weights of the FHMM", cells)
