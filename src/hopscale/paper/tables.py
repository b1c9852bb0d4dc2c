"""The paper's printed numbers: 1,350 cells of its appendix tables."""

import csv
import functools
from importlib import resources


@functools.cache
def _cells() -> dict[tuple[str, ...], float]:
    text = resources.files("hopscale.paper").joinpath("tables.csv").read_text()
    rows = csv.DictReader(text.splitlines())
    return {
        tuple(row[name] for name in rows.fieldnames or () if name != "value"): float(row["value"])
        for row in rows
    }


def value(
    model: str, size: int, config: str, sampler: str, balance: str, variant: str, metric: str
) -> float | None:
    """One printed cell; None where the paper has none.

    Args:
        model: "bernoulli", "ising", "fhmm" or "rbm".
        size: N, p, L or h.
        config: "C1", "C2" or "C3".
        sampler: "rwm", "gwg" or "lbp".
        balance: "barker" or "sqrt"; "" for rwm.
        variant: "fixed-1" (X-1), "adaptive" (AX) or "grid" (GX).
        metric: "ejd", "ess" or "seconds".
    """
    return _cells().get((model, str(size), config, sampler, balance, variant, metric))
