"""Tuning for distance per second instead of per step: where the two differ.

Run: python benchmarks/site_cost.py [--chains 100] [--only NAMES] [--out FILE.csv]

For each target and kernel, the table has what a site adds to the time of a step
(`bench.site_cost`), the scales that `Tuned()` and `Tuned(site_cost=...)` find, and the distance per
second at the second scale divided by that at the first. The time of a step is taken to be linear
in R.
"""

import argparse
import csv
import warnings
from pathlib import Path
from typing import Any

from tuning import TARGETS

import hopscale as hs
from hopscale import bench

CASES = {
    "bernoulli-800": ("bernoulli", 800, "C2"),
    "ising-20": ("ising", 20, "C2"),
    "ising-50": ("ising", 50, "C2"),
    "fhmm-200": ("fhmm", 200, "C2"),
    "rbm-400": ("rbm", 400, "-"),
    "network-100": ("network", 100, "-"),
}
KERNELS = {"LBP": hs.LBP(), "GWG": hs.GWG(), "RWM": hs.RWM()}


def tuned(target: hs.Target, kernel, cost: float, chains: int) -> tuple[float, float]:
    """The scale that is found, and the jump distance there."""
    settings: dict[str, Any] = {"chains": chains, "warmup": 1_000, "draws": 300, "progress": False}
    run = hs.sample(target, kernel, scale=hs.Tuned(site_cost=cost), key=0, **settings)
    return float(run.scale), run.ejd  # type: ignore[arg-type]


def measure(name: str, kernel: str, chains: int) -> dict[str, Any]:
    which, size, config = CASES[name]
    target = TARGETS[which](size, config)
    cost = min(bench.site_cost(target, KERNELS[kernel], chains) for _ in range(2))
    (scale, jump), (other, other_jump) = (
        tuned(target, KERNELS[kernel], c, chains) for c in (0.0, cost)
    )
    by_second = [d / (1.0 + cost * r) for r, d in ((scale, jump), (other, other_jump))]
    return {
        **{"target": name, "kernel": kernel, "chains": chains, "site_cost": f"{cost:.3g}"},
        **{"cost_times_scale": f"{cost * scale:.3g}", "scale": f"{scale:.4g}"},
        **{
            "scale_by_second": f"{other:.4g}",
            "gain_a_second": f"{by_second[1] / by_second[0]:.3f}",
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--kernels", type=lambda text: text.split(","), default=["LBP", "RWM"])
    parser.add_argument("--out", type=Path, default=Path("site_cost.csv"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", hs.ConvergenceWarning)
    print(f"# {bench.hardware()}", flush=True)
    with given.out.open("w", newline="") as file:
        writer = None
        for name in given.only:
            for kernel in given.kernels:
                line = measure(name, kernel, given.chains)
                writer = writer or csv.DictWriter(file, list(line), lineterminator="\n")
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerow(line)
                file.flush()
                print(", ".join(f"{k} {v}" for k, v in line.items()), flush=True)


if __name__ == "__main__":
    main()
