"""Stores made by hand, for the tests of views and report."""

import numpy as np

from hopscale import theory
from hopscale_reproduction import tables
from hopscale_reproduction.cells import Cell
from hopscale_reproduction.experiments import EXPERIMENTS, finite
from hopscale_reproduction.store import Store
from hopscale_reproduction.views import (
    theorems,
)


def made(**results) -> dict:
    """Results of a cell, plain where nothing is said."""
    plain = {"scale": 2.0, "acceptance": 0.5, "ejd": 1.0, "ess": 150.0, "r_hat": 1.0}
    errors = {"acceptance_error": 0.001, "ejd_error": 0.01, "ess_error": 3.0}
    return {**plain, **errors, "seconds": 1.5, "side_by_side": 2, **results}


def by_theory(cell: Cell) -> dict:
    """Results on the curves of the limit theorems, with a best jump distance as printed."""
    power, best = (0.5, 0.234) if cell.sampler == "rwm" else (1.5, 0.574)
    where = (cell.model, cell.size, cell.config, cell.sampler, cell.balance)
    top = tables.value(*where, "adaptive", "ejd") or float(cell.size) ** (2 / 3)
    rate = 0.65 if cell.sampler == "rwm" else 0.99
    rate = rate if cell.rate is None else cell.rate
    if cell.model == "identical":
        rate = float(theory.acceptance(cell.scale, np.full(cell.size, 0.25)))
        ejd = cell.scale * rate
    elif cell.rate is None:
        ejd = rate
    else:
        ejd = top * float(_efficiency(rate, power) / _efficiency(best, power))
    return made(
        scale=ejd / rate, acceptance=rate, ejd=ejd, ejd_error=0.002 * ejd, ess=0.3 * ejd * 100
    )


def _efficiency(rate: float, power: float):
    return theory.efficiency_curve(rate, [0.2], "rwm" if power == 0.5 else "lbp")


def fill(store: Store, profile: str, results) -> None:
    """Put every cell of a profile."""
    for experiment in EXPERIMENTS:
        for _ in range(2):  # grids are known once R = 1 is there
            for cell in experiment.cells(profile, lambda c: store.get(c.settings())):
                if isinstance(cell, Cell):
                    store.put(cell.settings(), results(cell))


def give_sites(patch) -> None:
    powers = {"half": -2, "zero": -1}
    patch.setattr(
        finite,
        "needed",
        lambda p, path: round(
            (0.5 - p if p > 0.25 else p) ** powers["half" if p > 0.25 else "zero"]
        ),
    )
    patch.setattr(theorems, "best_scale", lambda n, p: (0.7, 0.8))


def put(store: Store, experiment: str, choose, **results) -> int:
    """Put the chosen cells of the quick profile; how many they are."""
    plan = next(e for e in EXPERIMENTS if e.name == experiment)
    cells = [c for c in plan.cells("quick", lambda c: store.get(c.settings())) if choose(c)]
    for cell in cells:
        store.put(cell.settings(), made(**results))
    return len(cells)


# Numbers.
