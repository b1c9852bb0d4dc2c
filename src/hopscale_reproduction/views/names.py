"""Where a number stands in the paper's tables: its column and its row."""

from typing import NamedTuple

from hopscale_reproduction.cells import Cell
from hopscale_reproduction.experiments.plan import BEST_RATE

VARIANTS = ("fixed-1", "adaptive", "grid")
METRICS = ("ejd", "ess", "seconds")


class Method(NamedTuple):
    """A row of the tables."""

    sampler: str
    balance: str
    variant: str

    @property
    def name(self) -> str:
        """As in the paper: RWM-1, AGWG(√t), GLBP(t/(t+1))."""
        stem = sampler_name(self.sampler, self.balance)
        return {"fixed-1": f"{stem}-1", "adaptive": f"A{stem}", "grid": f"G{stem}"}[self.variant]

    @property
    def short(self) -> str:
        """As in the paper's Table 1, without the weight function."""
        return self._replace(balance="").name


ALBP = Method("lbp", "barker", "adaptive")


def sampler_name(sampler: str, balance: str) -> str:
    """RWM, GWG(√t), LBP(t/(t+1)), ..."""
    return sampler.upper() + {"barker": "(t/(t+1))", "sqrt": "(√t)"}.get(balance, "")


class Column(NamedTuple):
    """A target distribution."""

    model: str
    size: int
    config: str


def column_of(cell: Cell) -> Column:
    return Column(cell.model, cell.size, cell.config)


def method_of(cell: Cell) -> Method:
    """The row of a cell: R = 1, the tuned scale, or "grid" for all other rates."""
    if cell.rate is None:
        return Method(cell.sampler, cell.balance, "fixed-1")
    variant = "adaptive" if cell.rate == BEST_RATE[cell.sampler] else "grid"
    return Method(cell.sampler, cell.balance, variant)
