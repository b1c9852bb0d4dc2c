"""The course of models of Table 2 as a figure.

Run: python benchmarks/table2_curves.py docs/results/table2_curves.csv docs/assets/ebm-table2.png

Left, the largest gap of stretches of training: where a line ends above the figure, training
diverged. Right, the scale R of tuned chains by how the weights started.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure

GAPS = {
    "LBP_s-1:5": ("LBP-1, √t, 5 steps", "#e69f00", "-"),
    "LBP_s-1:15": ("LBP-1, √t, 15", "#e69f00", "--"),
    "LBP_b-1:5": ("LBP-1, barker, 5", "#56b4e9", "-"),
    "LBP_b-1:20": ("LBP-1, barker, 20", "#56b4e9", "--"),
    "LBP_s-1:40, bfloat16": ("LBP-1, √t, 40", "#e69f00", ":"),
    "ALBP_b:20": ("ALBP, barker, 20", "#0072b2", "--"),
    "ALBP_b:30": ("ALBP, barker, 30", "#0072b2", ":"),
    "ALBP_s:5": ("ALBP, √t, 5", "#d55e00", "-"),
    "ALBP_s:15": ("ALBP, √t, 15", "#d55e00", "--"),
}
SCALES = {
    "ALBP_s:15, on in bfloat16": ("uniform, 15 steps", "#0072b2", "-"),
    "ALBP_s:5": ("uniform, 5 steps", "#0072b2", ":"),
    "ALBP_s:15:start=he": ("he, 15 steps", "#d55e00", "-"),
}
MOST_GAP = 1e8


def read(path: Path) -> dict[str, dict[str, list[float]]]:
    """Columns by model."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with path.open() as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if name != "model":
                    found[row["model"]][name].append(float(value))
    return found


def draw(curves, file: Path) -> None:
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    gap, scale = figure.subplots(1, 2)
    for axis, column, lines in ((gap, "largest_gap", GAPS), (scale, "scale", SCALES)):
        for model, (label, color, style) in lines.items():
            if model in curves:
                own = curves[model]
                axis.plot(own["iteration"], own[column], style, color=color, label=label, lw=1.2)
        axis.set_xlabel("iteration")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, frameon=False, ncols=2)
    gap.set(
        title="largest |mean f(data) - mean f(samples)|, nats", yscale="log", ylim=(1, MOST_GAP)
    )
    gap.set_xlim(0, 10_000)
    scale.set(title="R of tuned chains, by the start of the weights", ylim=(0, 20))
    for axis in (gap, scale):
        axis.title.set_fontsize(10)
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("curves", type=Path)
    parser.add_argument("figure", type=Path)
    options = parser.parse_args()
    draw(read(options.curves), options.figure)
