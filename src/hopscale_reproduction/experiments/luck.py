"""The luck of the draw: the same cells over many draws of the targets' parameters.

The paper drew p, or the field, once a column. How far a column moves with the draw says how close
a comparison can be, and which differences need no other reason.
"""

from collections.abc import Iterator

from hopscale_reproduction.cells import Cell, table_cell
from hopscale_reproduction.experiments.plan import (
    CONFIGS,
    LENGTHS,
    MAIN,
    METHODS,
    Experiment,
    Find,
    single_and_tuned,
)

TARGETS = {"quick": 4, "paper": 16}
LENGTH = {"quick": 3_000, "paper": LENGTHS[0]}
READING = {"bernoulli": {"spacing": "random"}, "ising": {}}


def columns(profile: str) -> Iterator[tuple[str, int, str, str]]:
    """Model, size, sampler and balance."""
    if profile == "quick":
        yield from (("bernoulli", 100, *method) for method in MAIN)
        return
    yield from (("bernoulli", size, *method) for size in (100, 800) for method in METHODS)
    yield from (("ising", 20, *method) for method in MAIN)


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """R = 1 and the tuned scale on targets drawn anew."""
    half = LENGTH[profile] // 2
    for model, size, sampler, balance in columns(profile):
        for config in ("C2",) if profile == "quick" else CONFIGS:
            for instance in range(TARGETS[profile]):
                single = table_cell(
                    model, size, config, sampler, balance, instance=instance,
                    options=READING[model], warmup=half, draws=half,
                )  # fmt: skip
                yield from single_and_tuned(single)


EXPERIMENT = Experiment("luck", "Luck of the draw", cells)
