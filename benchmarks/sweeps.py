"""Gibbs or Metropolis, sweeps or LBP: effective draws of each, on models of two values and more.

    python benchmarks/sweeps.py [--seconds 3] [--only rules] [--out benchmarks/sweeps-cpu.csv]

`rules` compares the two rules of a sweep, below and above criticality and with fields. `colours`
compares sweeps and LBP where sites depend on many others: cliques of as many sites as there are
colours, drawn one colour after the other. `reference` is the same without the C++ kernels.
"""

import argparse
import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

import hopscale as hs

RNG = np.random.default_rng(0)
COLUMNS = ("model", "chains", "kernel", "ess_a_draw", "steps_a_second", "ess_a_second", "r_hat")
TWO_RULES: list[hs.Kernel] = [hs.Gibbs(), hs.Gibbs(rule="metropolis")]
SWEEP_OR_LBP: list[hs.Kernel] = [hs.Gibbs(), hs.LBP()]


def ising(coupling: float, field: float = 0.0, side: int = 32) -> hs.Target:
    return hs.Ising(np.full((side, side), field), coupling)


def signs(shape) -> np.ndarray:
    return RNG.choice([-1.0, 1.0], shape)


def glass(scale: float, side: int = 32) -> hs.Target:
    from hopscale.graphs import lattice

    i, j = lattice.bonds((side, side))
    return hs.Pairwise((i, j, scale * signs(len(i))))


def dense(scale: float, n: int = 128) -> hs.Target:
    return hs.Pairwise(np.triu(scale * RNG.normal(size=(n, n)) / np.sqrt(n), 1))


def cliques(colours: int, n: int = 1024) -> hs.Target:
    """Groups of `colours` sites; all sites of a group are coupled."""
    i, j = np.triu_indices(colours, 1)
    first = np.arange(0, n, colours)[:, None]
    pairs = (first + i).ravel(), (first + j).ravel()
    return hs.Pairwise((*pairs, RNG.normal(size=pairs[0].size) * 0.5 / np.sqrt(colours)))


RULES = {
    "Ising 32 x 32, J = 0.01": ising(0.01),
    "Ising 32 x 32, J = 0.05": ising(0.05),
    "Bernoulli, 1,024 sites, p in 0.25-0.75": hs.Bernoulli(RNG.uniform(0.25, 0.75, 1024)),
    "Bernoulli, 1,024 sites, p = 0.5": hs.Bernoulli(np.full(1024, 0.5)),
    "Ising 32 x 32, J = 0.2": ising(0.2),
    "Ising 32 x 32, J = 0.35": ising(0.35),
    "Ising 32 x 32, J = 0.44 (critical)": ising(0.44),
    "Ising 32 x 32, J = 0.44, field 0.1": ising(0.44, 0.1),
    "Ising 32 x 32, J = 0.6, field 0.1": ising(0.6, 0.1),
    "Ising 32 x 32, J = -0.35": ising(-0.35),
    "+-J lattice 32 x 32, 0.5": glass(0.5),
    "+-J lattice 32 x 32, 0.8": glass(0.8),
    "dense, 128 sites, 0.5": dense(0.5),
    "dense, 128 sites, 0.9": dense(0.9),
    "Potts 32 x 32, 3 values, J = 0.6": hs.Potts.lattice((32, 32), 3, 0.6),
    "Potts 32 x 32, 5 values, J = 0.8": hs.Potts.lattice((32, 32), 5, 0.8),
}
COLOURS = {f"cliques of {c}, 1,024 sites": cliques(c) for c in (4, 16, 32, 64, 256)}


def cases(only: str) -> Iterator[tuple[str, hs.Target, list[hs.Kernel]]]:
    if only in ("", "rules"):
        yield from ((name, target, TWO_RULES) for name, target in RULES.items())
    if only in ("", "colours"):
        yield from ((name, target, SWEEP_OR_LBP) for name, target in COLOURS.items())
    if only in ("", "reference"):
        plain: list[hs.Kernel] = [
            hs.Gibbs(implementation="reference"),
            hs.LBP(implementation="reference"),
        ]
        yield from ((f"{name}, plain", target, plain) for name, target in COLOURS.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--only", default="", choices=["", "rules", "colours", "reference"])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    print(f"# {jax.devices()[0].device_kind}, {os.cpu_count()} cores; JAX {jax.__version__}")
    files = [sys.stdout] + ([asked.out.open("w")] if asked.out else [])
    tables = [csv.DictWriter(f, COLUMNS, lineterminator="\n") for f in files]
    for table in tables:
        table.writeheader()
    for name, target, kernels in cases(asked.only):
        found = hs.compare(target, asked.seconds, kernels=kernels, chains=asked.chains)
        for c in sorted(found.candidates, key=lambda c: kernels.index(c.kernel)):
            rule = f" {c.kernel.rule}" if isinstance(c.kernel, hs.Gibbs) else ""
            each = c.ess / max(c.draws * asked.chains, 1)
            numbers = each, c.steps_per_second, c.ess_per_second
            values = (name, asked.chains, type(c.kernel).__name__ + rule, *numbers, c.r_hat)
            row = [f"{v:.4g}" if isinstance(v, float) else v for v in values]
            for table, file in zip(tables, files, strict=True):
                table.writerow(dict(zip(COLUMNS, row, strict=True)))
                file.flush()


if __name__ == "__main__":
    main()
