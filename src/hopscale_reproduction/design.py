"""The design of the paper's sampling experiments: samplers, sizes, chain lengths."""

from hopscale_reproduction.cells import SINGLE, TUNED, Cell

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
# The chain lengths for these sizes; the first half of a chain is burn-in.
LENGTHS = (10_000, 40_000, 100_000)
RBM_LENGTH = 40_000  # for all three sizes
CHAINS = {"quick": 50, "paper": 100}  # of every run


def tuned(cell: Cell) -> Cell:
    """The same cell with the scale tuned for its sampler's best rate."""
    return cell.but(rate=BEST_RATE[cell.sampler], role=TUNED)


def single_and_tuned(cell: Cell) -> tuple[Cell, Cell]:
    """X-1 and AX: a cell with R = 1, and the same tuned for its sampler's best rate."""
    return cell.but(role=SINGLE), tuned(cell)


def stated_draws(model: str, size: int) -> int:
    """The number of draws per chain that the paper says it kept."""
    if model == "rbm":
        return RBM_LENGTH // 2
    return LENGTHS[SIZES[model].index(size)] // 2
