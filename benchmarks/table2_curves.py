"""Figures of the training of models of Table 2.

Run: python benchmarks/table2_curves.py docs/results docs/assets

`ebm-table2.png`: the largest gap in each stretch of training, by weight function and with a larger
buffer; training diverged where a line ends beyond 10^7. `ebm-start.png`: both ways in which the
weights can start, a line for each seed.
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
    "buffer of 10,000": {
        "LBP_s-1:40:buffer=10000": ("LBP-1, √t, 40 steps", "#e69f00", "-"),
        "LBP_b-1:90:buffer=10000": ("LBP-1, barker, 90", "#56b4e9", "-"),
        "ALBP_b:20:buffer=10000": ("ALBP, barker, 20", "#0072b2", "-"),
        "train ebm, static-mnist": ("the defaults of train ebm, 15", "#d55e00", "-"),
    },
}
STARTS = {
    "uniform": ("#0072b2", ("ALBP_s:15, bfloat16", "ALBP_s:15:seed=1", "ALBP_s:15:seed=2")),
    "he": (
        "#d55e00",
        ("ALBP_s:15:start=he, again", "ALBP_s:15:start=he:seed=1", "ALBP_s:15:start=he:seed=2"),
    ),
}
MOST_GAP = 1e11
ITERATIONS = 10_000


def read(path: Path) -> dict[str, dict[str, list[float]]]:
    """Columns by model."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with path.open() as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if name != "model":
                    found[row["model"]][name].append(float(value))
    return found


def draw_gaps(curves, file: Path) -> None:
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    for axis, (name, lines) in zip(figure.subplots(1, len(GAPS)), GAPS.items(), strict=True):
        for model, (label, color, style) in lines.items():
            own = curves[model]
            axis.plot(own["iteration"], own["largest_gap"], style, color=color, label=label, lw=1.2)
        axis.set(yscale="log", ylim=(1, MOST_GAP), xlim=(0, ITERATIONS), xlabel="iteration")
        axis.set_title(f"largest gap of energies, nats; {name}", fontsize=10)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, frameon=False, ncols=2, loc="upper right")
    figure.savefig(file, dpi=130)


def likelihoods(path: Path) -> dict[str, list[tuple[float, float]]]:
    """By start: the log-likelihoods of ALBP with √t and 15 steps, and their errors."""
    found = defaultdict(list)
    wanted = {"balance": "sqrt", "variant": "adaptive", "steps": "15", "buffer": "1000"}
    with path.open() as file:
        for row in csv.DictReader(file):
            own = {**wanted, "data": "static-mnist", "precision": "bfloat16", "warmup": "10000"}
            if all(row[f"settings.{name}"] == value for name, value in own.items()):
                value = float(row["results.log_likelihood"]), float(row["results.error"])
                found[row["settings.start"]].append(value)
    return found


def draw_starts(curves, measured, file: Path) -> None:
    figure = Figure(figsize=(13, 3.2), layout="constrained")
    axes = figure.subplots(1, 4)
    columns = {
        "scale": "R",
        "acceptance": "acceptance",
        "largest_gap": "largest gap of energies, nats",
    }
    for axis, (column, title) in zip(axes, columns.items(), strict=False):
        for start, (color, models) in STARTS.items():
            for k, model in enumerate(models):
                own = curves[model]
                label = None if k else start
                axis.plot(own["iteration"], own[column], color=color, label=label, lw=1, alpha=0.8)
        axis.set_title(title, fontsize=10)
        axis.set(xlabel="iteration", xlim=(0, ITERATIONS))
    axes[0].set_ylim(0, 20)
    axes[0].legend(fontsize=8, frameon=False)
    axes[1].set_ylim(0.5, 0.65)
    axes[2].set_yscale("log")
    for place, (start, (color, _)) in enumerate(STARTS.items()):
        for k, (value, error) in enumerate(measured[start]):
            axes[3].errorbar(place + 0.1 * (k - 1), value, error, fmt="o", color=color, ms=4)
    axes[3].set_title("log-likelihood, validation, nats", fontsize=10)
    axes[3].set_xticks(range(len(STARTS)), list(STARTS))
    axes[3].set_xlim(-0.6, len(STARTS) - 0.4)
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("figures", type=Path)
    options = parser.parse_args()
    found = read(options.results / "table2_curves.csv")
    draw_gaps(found, options.figures / "ebm-table2.png")
    draw_starts(
        found, likelihoods(options.results / "table2.csv"), options.figures / "ebm-start.png"
    )
