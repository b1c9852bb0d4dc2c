"""A figure of the cost of an LBP step per site on a GPU, against the number of sites of a chain.

    python benchmarks/gpu_figure.py docs/assets/sites.png

The times are those of `h200.csv`, which `gpu.py table` measures.
"""

import csv
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

TIMES = Path(__file__).parent / "h200.csv"


def main(picture: str) -> None:
    lines = TIMES.read_text().splitlines()
    found = csv.DictReader(line for line in lines if not line.startswith("#"))
    points = [
        (int(r["sites"]), 1e9 * float(r["milliseconds"]) / int(r["sites"]) / int(r["chains"]))
        for r in found
        if r["target"] == "lattice"
    ]
    _, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axes.plot(*zip(*points, strict=True), "o-")
    axes.set(xscale="log", yscale="log", ylim=(20, 400), xlabel="sites of a chain")
    axes.set(ylabel="ps a site and step", title="LBP on one H200, a million sites in all chains")
    axes.set_yticks([20, 50, 100, 200, 400], ["20", "50", "100", "200", "400"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    plt.savefig(picture, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1])
