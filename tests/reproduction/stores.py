"""Stores filled by hand, for the tests of numbers and report."""

import numpy as np

from hopscale import theory
from hopscale_reproduction import printed
from hopscale_reproduction.cells import SINGLE, Cell
from hopscale_reproduction.experiments import EXPERIMENTS
from hopscale_reproduction.experiments.finite import HALF, SitesCell
from hopscale_reproduction.rows import new_row
from hopscale_reproduction.store import Store


def plain(**results) -> dict:
    """Results of a run, of no interest where nothing is said."""
    values = {"scale": 2.0, "acceptance": 0.5, "ejd": 1.0, "ess": 150.0, "r_hat": 1.0}
    errors = {"acceptance_error": 0.001, "ejd_error": 0.01, "ess_error": 3.0}
    return {**values, **errors, "seconds": 1.5, "side_by_side": 2, **results}


def by_theory(cell: Cell) -> dict:
    """Results on the curves of the limit theorems, with a best jump distance as printed."""
    best = 0.234 if cell.sampler == "rwm" else 0.574
    where = (cell.model, cell.size, cell.config, cell.sampler, cell.balance)
    top = printed.value(*where, "adaptive", "ejd") or float(cell.size) ** (2 / 3)
    rate = 0.65 if cell.sampler == "rwm" else 0.99
    rate = rate if cell.rate is None else cell.rate
    if cell.model == "identical":
        rate = float(theory.acceptance(cell.scale, np.full(cell.size, 0.25)))
        ejd = cell.scale * rate
    elif cell.role == SINGLE:
        ejd = rate
    else:
        ejd = top * float(_efficiency(rate, cell.sampler) / _efficiency(best, cell.sampler))
    return plain(
        scale=ejd / rate, acceptance=rate, ejd=ejd, ejd_error=0.002 * ejd, ess=0.3 * ejd * 100
    )


def _efficiency(rate: float, sampler: str):
    return theory.efficiency_curve(rate, [0.2], "rwm" if sampler == "rwm" else "lbp")


def sites(cell: SitesCell) -> dict:
    """Sites needed that grow exactly as the paper says."""
    power = -2 if cell.case == HALF else -1
    number = round(cell.epsilon**power)
    best = (0.7, 0.8) if cell.case == HALF else (None, None)
    ours = {"reversed": number, "same": number}
    return {"ours": ours, "best_rate": best[0], "best_share": best[1]}


def fill(store: Store, profile: str, results, every: int = 1) -> None:
    """Put the cells of a profile, or every n-th; models of Table 2 apart."""
    for experiment in EXPERIMENTS:
        for _ in range(2):  # grids are listed once R = 1 is there
            cells = [
                cell
                for cell in experiment.cells(profile, lambda c: store.get(c.settings()))
                if cell.kind in ("run", "finite")
            ]
            store.add_all(
                new_row(cell.settings(), sites(cell) if isinstance(cell, SitesCell)
                        else results(cell), cell.kind)
                for cell in cells[every - 1 :: every]
            )  # fmt: skip


def put(store: Store, experiment: str, choose, **results) -> int:
    """Put the chosen cells of the quick profile; how many they are."""
    plan = next(e for e in EXPERIMENTS if e.name == experiment)
    cells = [c for c in plan.cells("quick", lambda c: store.get(c.settings())) if choose(c)]
    store.add_all(new_row(cell.settings(), plain(**results), cell.kind) for cell in cells)
    return len(cells)
