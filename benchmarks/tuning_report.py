"""The results of benchmarks/tuning.py: its table, as rows of a page and as a figure."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = (
    *("target", "size", "config", "sites", "kernel", "chains", "seeds"),
    *("best_scale", "best_rate", "best_jump", "tuner", "horizon"),
    *("steps", "steps_worst", "efficiency", "efficiency_worst"),
)
COLORS = {"LBP": "tab:blue", "GWG": "tab:green", "RWM": "tab:red"}
BEGIN, END = "<!-- table: benchmarks/tuning.py -->", "<!-- end of table -->"


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def append(path: Path, lines: list[dict[str, Any]]) -> None:
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(lines)


def key_of(line: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(line[name]) for name in ("target", "size", "config", "kernel", "chains"))


def by_case(path: Path) -> dict[tuple, dict[str, dict[str, str]]]:
    """The lines of each case, by tuner."""
    found: dict[tuple, dict[str, dict[str, str]]] = {}
    for line in read(path):
        found.setdefault(key_of(line), {})[line["tuner"]] = line
    return found


def figure(path: Path, trajectories: dict[str, np.ndarray], picture: Path) -> None:
    """Steps of the paper's rule against those of `Tuned()`, and scales during warm-up."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    _, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for (label, scales), color in zip(
        trajectories.items(), ("tab:orange", "tab:blue"), strict=True
    ):
        steps = np.arange(1, scales.shape[1] + 1)
        left.plot(steps, scales.T, color=color, lw=0.8, label=[label, None, None])
    left.set(xscale="log", yscale="log", xlabel="step of warm-up", ylabel="scale R")
    left.set_yticks((2, 5, 10, 20, 50), labels=("2", "5", "10", "20", "50"))
    left.minorticks_off()
    left.set_title("Ising, 400 sites, LBP, 100 chains, 3 seeds", fontsize=10)
    left.legend()
    for kernel, color in COLORS.items():
        lines = [found for key, found in by_case(path).items() if key[3] == kernel]
        pairs = [[float(line[t]["steps"]) for t in ("Adaptive", "Tuned")] for line in lines]
        x, y = np.maximum(np.array(pairs).reshape(-1, 2).T, 1)
        late = x > np.array([int(line["Adaptive"]["horizon"]) for line in lines])
        right.scatter(x[~late], y[~late], color=color, s=22, label=kernel, alpha=0.8)
        right.scatter(x[late], y[late], color=color, s=30, marker=">", alpha=0.8)
    ends = np.array([1, 1e5])
    for factor in (1, 20):
        right.plot(ends, ends / factor, color="0.6", lw=0.8, ls=":" if factor == 1 else "--")
    right.set(xscale="log", yscale="log", xlim=(1, 5e4), ylim=(0.8, 2e3))
    right.set(xlabel="steps of Adaptive() (> not there yet)", ylabel="steps of Tuned()")
    right.set_title("until the jump is within 5% of the largest (dashed: 20x)", fontsize=10)
    right.legend()
    plt.savefig(picture, dpi=130)


def table(path: Path, page: Path) -> None:
    """Write the table into a page, between two comments, with C2 of the paper's configurations."""
    head = (
        "| target | sites | kernel | chains | best R | its rate | `Adaptive` | `Tuned` "
        "| times fewer | worst seed | efficiency | worst seed |"
    )
    rows = [head, "|---|---:|---" + "|---:" * 9 + "|"]
    for key, found in by_case(path).items():
        if key[2] not in ("C2", "-"):
            continue
        new, old = found["Tuned"], found["Adaptive"]
        times = max(float(old["steps"]), 1) / max(float(new["steps"]), 1)
        shown = f"{times:,.0f}" if times >= 100 else f"{times:.3g}"
        late = ">" if int(old["steps"]) > int(old["horizon"]) else ""
        name = new["target"] + (f", {new['size']} hidden" if new["target"] == "rbm" else "")
        cells = [
            *(name, f"{int(new['sites']):,}", new["kernel"], new["chains"]),
            *(new["best_scale"], new["best_rate"], late + old["steps"], new["steps"]),
            *(f"{late}{shown}", new["steps_worst"]),
            *(new["efficiency"], new["efficiency_worst"]),
        ]
        rows.append(f"| {' | '.join(cell or '-' for cell in cells)} |")
    text = page.read_text()
    before, rest = text.split(BEGIN)
    page.write_text(before + BEGIN + "\n" + "\n".join(rows) + "\n" + END + rest.split(END)[1])
