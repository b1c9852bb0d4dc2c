"""A figure of the training of models of Table 2.

Run: python benchmarks/table2_curves.py docs/results/table2_curves.csv docs/assets/ebm-table2.png

Left and middle: the largest gap in each stretch of training, by weight function; training diverged
where a line ends beyond 10^7. Right: the scale R of tuned chains, by the start of the weights.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure

GAPS = {
    "√t": {
        "LBP_s-1:5": ("LBP-1, 5 steps", "#e69f00", "-"),
        "LBP_s-1:15": ("LBP-1, 15", "#e69f00", "--"),
        "LBP_s-1:20": ("LBP-1, 20", "#e69f00", "-."),
        "LBP_s-1:40, bfloat16": ("LBP-1, 40", "#e69f00", ":"),
        "ALBP_s:5": ("ALBP, 5", "#d55e00", "-"),
        "ALBP_s:15": ("ALBP, 15", "#d55e00", "--"),
    },
    "barker": {
        "LBP_b-1:20": ("LBP-1, 20 steps", "#56b4e9", "-"),
        "LBP_b-1:40": ("LBP-1, 40", "#56b4e9", "--"),
        "LBP_b-1:60": ("LBP-1, 60", "#56b4e9", "-."),
        "LBP_b-1:80": ("LBP-1, 80", "#56b4e9", ":"),
        "ALBP_b:20, bfloat16": ("ALBP, 20", "#0072b2", "-"),
        "ALBP_b:40": ("ALBP, 40", "#0072b2", "--"),
        "ALBP_b:60": ("ALBP, 60", "#0072b2", ":"),
    },
}
SCALES = {
    "ALBP_s:15, on in bfloat16": ("uniform, 15 steps", "#0072b2", "-"),
    "ALBP_s:5": ("uniform, 5 steps", "#0072b2", ":"),
    "ALBP_s:15:start=he": ("he, 15 steps", "#d55e00", "-"),
}
MOST_GAP = 1e11


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
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    *gaps, scale = figure.subplots(1, 3)
    panels = [(axis, "largest_gap", GAPS[name]) for axis, name in zip(gaps, GAPS, strict=True)]
    for axis, column, lines in (*panels, (scale, "scale", SCALES)):
        for model, (label, color, style) in lines.items():
            if model in curves:
                own = curves[model]
                axis.plot(own["iteration"], own[column], style, color=color, label=label, lw=1.2)
        axis.set_xlabel("iteration")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, frameon=False, ncols=2, loc="upper right")
    for axis, name in zip(gaps, GAPS, strict=True):
        axis.set(title=f"largest gap of energies, nats; {name}", yscale="log", ylim=(1, MOST_GAP))
        axis.set_xlim(0, 10_000)
    scale.set(title="R of tuned chains, by the start of the weights", ylim=(0, 20))
    for axis in (*gaps, scale):
        axis.title.set_fontsize(10)
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("curves", type=Path)
    parser.add_argument("figure", type=Path)
    options = parser.parse_args()
    draw(read(options.curves), options.figure)
