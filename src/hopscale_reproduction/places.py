"""Where a number stands in the paper's tables: its column and its row."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from hopscale_reproduction.cells import GRID, SINGLE, TUNED, Cell

VARIANTS = (SINGLE, TUNED, GRID)
METRICS = ("ejd", "ess", "seconds")

Run = tuple[Cell, dict[str, Any]]  # a cell and its results


class Method(NamedTuple):
    """A row of the tables."""

    sampler: str
    balance: str
    variant: str

    @property
    def name(self) -> str:
        """As in the paper: RWM-1, AGWG(√t), GLBP(t/(t+1))."""
        stem = sampler_name(self.sampler, self.balance)
        return {SINGLE: f"{stem}-1", TUNED: f"A{stem}", GRID: f"G{stem}"}[self.variant]

    @property
    def accepts_all(self) -> bool:
        """Whether it accepts almost every proposal, whatever the target: GWG-1 and LBP-1."""
        return self.variant == SINGLE and self.sampler != "rwm"

    @property
    def short(self) -> str:
        """As in the paper's Table 1, without the weight function."""
        return self._replace(balance="").name


ALBP = Method("lbp", "barker", TUNED)
ARWM = Method("rwm", "", TUNED)


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
    """The row that a cell belongs to, by its role."""
    return Method(cell.sampler, cell.balance, cell.role)


def by_place(runs: Iterable[Run]) -> dict[tuple[Column, Method], list[Run]]:
    """Runs by their column and row."""
    places: dict[tuple[Column, Method], list[Run]] = {}
    for cell, results in runs:
        places.setdefault((column_of(cell), method_of(cell)), []).append((cell, results))
    return places
