"""Over how many draws the tables' effective sample sizes were taken.

A printed size over our size a draw gives the number of draws behind it. For the Ising model it is
the stated one. For Bernoulli it is 2,000, 5,000 and 20,000 instead of 5,000, 20,000 and 50,000,
for the FHMM of length 1,000 it is 10,000 instead of 20,000: the chains were shorter than stated.
This matters beyond a factor, as a slow chain's estimate does not fall with its length. Here are
those columns once more, with the lengths that the printed numbers imply.
"""

from collections.abc import Iterator

from hopscale_reproduction.cells import Cell, table_cell
from hopscale_reproduction.experiments.plan import (
    CONFIGS,
    MAIN,
    METHODS,
    Experiment,
    Find,
    single_and_tuned,
)

KEPT = {"bernoulli": {100: 2_000, 800: 5_000, 6400: 20_000}, "fhmm": {1000: 10_000}}
INSTANCES = {"bernoulli": 1, "fhmm": 2}


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """R = 1 and the tuned scale, over as many draws as the tables kept."""
    for model, sizes in KEPT.items():
        for size, draws in sizes.items():
            if profile == "quick" and size != 100:
                continue
            for sampler, balance in MAIN if profile == "quick" else METHODS:
                for config in ("C2",) if profile == "quick" else CONFIGS:
                    for instance in range(INSTANCES[model]):
                        single = table_cell(
                            model, size, config, sampler, balance, instance=instance,
                            warmup=draws, draws=draws,
                        )  # fmt: skip
                        yield from single_and_tuned(single)


EXPERIMENT = Experiment("kept", "Draws kept", cells)
