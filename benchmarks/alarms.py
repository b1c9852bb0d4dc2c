"""The warnings that runs give on the paper's targets, at the paper's lengths.

    python benchmarks/alarms.py [--size 0] [--kernels lbp gwg rwm] [--out benchmarks/alarms.csv]

Each of the paper's targets and configurations is sampled by `hs.sample` with 100 chains and as many
steps as in the paper, half of them warm-up. All of these runs are fine, except those that cannot be
according to the theory. Their warnings are listed, with R-hat and the fewest effective draws.
"""

import argparse
import csv
import os
import sys
import time
import warnings
from pathlib import Path

import jax

import hopscale as hs
from hopscale_reproduction.design import LENGTHS, RBM_LENGTH, SIZES

KERNELS = {"lbp": hs.LBP(), "gwg": hs.GWG(), "rwm": hs.RWM(), "default": None}
COLUMNS = ("target", "config", "size", "kernel", "steps")
COLUMNS += ("seconds", "acceptance", "r_hat", "ess", "warnings")


def targets(place: int, names):
    for name in names:
        size = SIZES[name][place]
        if name == "rbm":
            yield name, "", size, hs.paper.rbm(size)
        else:
            for config in ("C1", "C2", "C3"):
                yield name, config, size, getattr(hs.paper, name)(size, config)


def measure(target, kernel, steps: int, chains: int, key: int) -> tuple:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        half = steps // 2
        run = hs.sample(
            target, kernel, chains=chains, warmup=half, draws=half, key=key, progress=False
        )
    ess = min(s.ess_total for s in run.statistics.values())
    return run.run_seconds, run.acceptance, run.r_hat, ess, " | ".join(run.warnings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=0, choices=(0, 1, 2), help="of the paper's")
    parser.add_argument("--targets", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--kernels", nargs="+", default=["lbp"], choices=list(KERNELS))
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--key", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin nothing after that")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    print(f"# {jax.devices()[0].device_kind}, {os.cpu_count()} cores; JAX {jax.__version__}")
    files = [sys.stdout] + ([asked.out.open("w")] if asked.out else [])
    tables = [csv.writer(file, lineterminator="\n") for file in files]
    for table in tables:
        table.writerow(COLUMNS)
    end = time.monotonic() + 60 * asked.minutes
    for name, config, size, target in targets(asked.size, asked.targets):
        steps = RBM_LENGTH if name == "rbm" else LENGTHS[asked.size]
        for kernel in asked.kernels:
            if time.monotonic() > end:
                return
            found = measure(target, KERNELS[kernel], steps, asked.chains, asked.key)
            row = (name, config, size, kernel, steps, *found)
            for table, file in zip(tables, files, strict=True):
                table.writerow(f"{v:.4g}" if isinstance(v, float) else v for v in row)
                file.flush()


if __name__ == "__main__":
    main()
