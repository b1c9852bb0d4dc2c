"""What an experiment is: cells to run, given what was found so far."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hopscale_reproduction.cells import Cell

Results = dict[str, Any]
Find = Callable[[Cell], Results | None]

PROFILES = ("quick", "paper")
CONFIGS = ("C1", "C2", "C3")

# The five samplers of the paper's Appendix C, as (sampler, balance).
METHODS = (("rwm", ""), ("gwg", "barker"), ("lbp", "barker"), ("gwg", "sqrt"), ("lbp", "sqrt"))
MAIN = (("rwm", ""), ("lbp", "barker"))
BEST_RATE = {"rwm": 0.234, "gwg": 0.574, "lbp": 0.574}

# The sizes of the paper's tables: small, medium, large.
SIZES = {
    "bernoulli": (100, 800, 6400),
    "ising": (20, 50, 100),
    "fhmm": (200, 1000, 4000),
    "rbm": (100, 400, 1000),
}
# Lengths of their chains, of which the first half is burn-in.
LENGTHS = (10_000, 40_000, 100_000)
RBM_LENGTH = 40_000  # for all three


def single_and_tuned(single: Cell) -> tuple[Cell, Cell]:
    """X-1 and AX: a cell with R = 1, and the same tuned for its sampler's best rate."""
    return single, single.but(rate=BEST_RATE[single.sampler])


class Experiment(NamedTuple):
    """An experiment by name.

    `cells(profile, find)` lists the cells of a profile. Some cells are known only when others
    are done (a grid of rates starts at a measured one); `find` looks up what is there, and the
    list is asked for again until nothing in it is left to run.
    """

    name: str
    title: str
    cells: Callable[[str, Find], Iterable[Cell]]
