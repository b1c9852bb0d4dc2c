"""The luck of the draw: the same cells over many draws of the Bernoulli probabilities.

The paper drew p once a column. How far a column moves with the draw says how close a comparison
can be, and which differences need no other reason.
"""

from collections.abc import Iterator

from hopscale.paper.cells import Cell, table_cell
from hopscale.paper.experiments.plan import (
    BEST_RATE,
    CONFIGS,
    LENGTHS,
    MAIN,
    METHODS,
    Experiment,
    Find,
)

DRAWS_OF_P = {"quick": 4, "paper": 16}
SIZES = {"quick": (100,), "paper": (100, 800)}
LENGTH = {"quick": 3_000, "paper": LENGTHS[0]}


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """R = 1 and the tuned scale on random p."""
    half = LENGTH[profile] // 2
    for size in SIZES[profile]:
        for sampler, balance in MAIN if profile == "quick" else METHODS:
            for config in ("C2",) if profile == "quick" else CONFIGS:
                for instance in range(DRAWS_OF_P[profile]):
                    for rate in (None, BEST_RATE[sampler]):
                        yield table_cell(
                            "bernoulli",
                            size,
                            config,
                            sampler,
                            balance,
                            rate=rate,
                            instance=instance,
                            options={"spacing": "random"},
                            warmup=half,
                            draws=half,
                        )


EXPERIMENT = Experiment("luck", "Luck of the draw", cells)
