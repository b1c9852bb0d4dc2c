"""How the best scale and its gain grow with the number of sites (Figure 5).

The theory says $R \\propto N^{2/3}$ for LBP and $O(1)$ for RWM, so the ratio of their jump
distances grows as $N^{2/3}$ too.
"""

from collections.abc import Iterator

from hopscale_reproduction.cells import Cell, table_cell
from hopscale_reproduction.experiments.plan import BEST_RATE, MAIN, Experiment, Find

CONFIG = "C2"
SIZES = {
    "quick": {
        "bernoulli": (100, 200, 400, 800),
        "ising": (10, 14, 20, 28),
        "fhmm": (20, 40, 80, 160),
    },
    "paper": {
        "bernoulli": (50, 100, 200, 400, 800, 1600, 3200, 6400),
        "ising": (7, 10, 14, 20, 28, 40, 56, 80, 100),
        "fhmm": (10, 20, 40, 80, 160, 320, 640, 1280),
    },
}
INSTANCES = {"quick": 1, "paper": 3}
DRAWS = {"quick": 1_000, "paper": 4_000}


def sites(model: str, size: int) -> int:
    """N: the number of bits of a target of this size."""
    return {"bernoulli": size, "ising": size * size, "fhmm": 5 * size}[model]


def warmup(n: int, sampler: str) -> int:
    """Long enough to reach equilibrium: some changes of every site, and of the scale."""
    return max(2_000, 3 * n // 2 if sampler == "rwm" else 10 * round(n ** (2 / 3)))


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """Tuned LBP and RWM over sizes."""
    for model, sizes in SIZES[profile].items():
        for size in sizes:
            for sampler, balance in MAIN:
                for instance in range(1 if model == "bernoulli" else INSTANCES[profile]):
                    yield table_cell(
                        model,
                        size,
                        CONFIG,
                        sampler,
                        balance,
                        rate=BEST_RATE[sampler],
                        instance=instance,
                        warmup=warmup(sites(model, size), sampler),
                        draws=DRAWS[profile],
                    )


EXPERIMENT = Experiment("order", "Order of the scale", cells)
