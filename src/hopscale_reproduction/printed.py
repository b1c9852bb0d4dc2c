"""The paper's printed numbers: all cells of its tables."""

import csv
import functools
from importlib import resources


@functools.cache
def _cells() -> dict[tuple[str, ...], float]:
    text = resources.files("hopscale_reproduction").joinpath("printed.csv").read_text()
    rows = csv.DictReader(text.splitlines())
    return {
        tuple(row[name] for name in rows.fieldnames or () if name != "value"): float(row["value"])
        for row in rows
    }


def value(
    model: str, size: int, config: str, sampler: str, balance: str, variant: str, metric: str
) -> float | None:
    """One printed cell; None if the paper does not have it.

    Args:
        model: "bernoulli", "ising", "fhmm" or "rbm".
        size: N, p, L or h.
        config: "C1", "C2" or "C3"; "Table 1" for C2 as in the main text.
        sampler: "rwm", "gwg" or "lbp".
        balance: "barker" or "sqrt"; "" for rwm.
        variant: "fixed-1" (X-1), "adaptive" (AX) or "grid" (GX).
        metric: "ejd", "ess" or "seconds".
    """
    return _cells().get((model, str(size), config, sampler, balance, variant, metric))


def steps(data: str, balance: str, variant: str) -> int:
    """The least number of steps per iteration to train a deep EBM (Table 2).

    Args:
        data: "static-mnist", "dynamic-mnist", "omniglot" or "caltech".
        balance: "barker" or "sqrt".
        variant: "fixed-1" (LBP-1) or "adaptive" (ALBP).
    """
    return int(_cells()["ebm", "0", data, "lbp", balance, variant, "steps"])


def sites(case: str, epsilon: float) -> int:
    """How many sites the rate 0.574 needs (Appendix B.2): all p at 1/2 - epsilon, or at epsilon.

    Args:
        case: "half" or "zero", the value that p is close to.
        epsilon: how close.
    """
    return int(_cells()["finite", "", case, "lbp", "sqrt", str(epsilon), "sites"])
