"""A first look: adaptive LBP against the random walk, beside the paper's Table 1."""

import csv
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from rich import box
from rich.console import Console
from rich.table import Table

from hopscale.paper import instances, tables
from hopscale.results import Run
from hopscale.run import sample
from hopscale.samplers import LBP, RWM
from hopscale.scale import Adaptive, Fixed

MODELS = {"bernoulli": 800, "ising": 50, "fhmm": 1000}
TITLES = {"bernoulli": "Bernoulli, N = 800", "ising": "Ising, 50 x 50", "fhmm": "FHMM, 1000 x 5"}
CONFIG = "C2"
COLUMNS = ("scale", "acceptance", "ejd", "paper_ejd", "ess_per_draw")
# The readings behind the paper's tables.
SAMPLERS = {
    "RWM-1": (RWM(), "fixed-1"),
    "ARWM": (RWM(), "adaptive"),
    "LBP-1": (LBP("barker", "same"), "fixed-1"),
    "ALBP": (LBP("barker", "same"), "adaptive"),
}


class Cell(NamedTuple):
    model: str
    sampler: str
    run: Run
    paper_ejd: float | None
    paper_ess: float | None


def target(model: str, seed: int):
    """The paper's medium-sized target, in the reading behind its table."""
    if model == "bernoulli":
        return instances.bernoulli(MODELS[model], CONFIG, seed, spacing="even")
    if model == "ising":
        return instances.ising(MODELS[model], CONFIG, seed)
    return instances.fhmm(MODELS[model], CONFIG, seed, variant="table")


def main(out: Path, chains: int, draws: int, seed: int, console: Console) -> None:
    """Run all, print the table, save table and figure into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    cells = []
    for model in MODELS:
        made = target(model, seed)
        for name, (proposal, variant) in SAMPLERS.items():
            console.print(f"[dim]{TITLES[model]}: {name}[/dim]")
            scale = Fixed(1) if variant == "fixed-1" else Adaptive()
            run = sample(
                made, proposal, chains=chains, warmup=draws, draws=draws, key=seed, scale=scale
            )
            asked = (model, MODELS[model], CONFIG, proposal.name, getattr(proposal, "balance", ""))
            paper = [tables.value(*asked, variant, metric) for metric in ("ejd", "ess")]
            cells.append(Cell(model, name, run, *paper))
            if run.interrupted:
                raise KeyboardInterrupt
    console.print(table(cells))
    save_csv(out / "comparison.csv", cells)
    save_figure(out / "comparison.png", cells)
    console.print(f"saved {out / 'comparison.csv'} and {out / 'comparison.png'}")


def table(cells: list[Cell]) -> Table:
    """Ours and the paper's, side by side."""
    made = Table(
        title="Adaptive LBP against the random walk (paper: Table 1)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    made.add_column("target")
    made.add_column("sampler")
    columns = ("R", "accept", "EJD", "paper", "ESS/draw", "vs ALBP", "paper", "steps/s")
    for column in columns:
        made.add_column(column, justify="right")
    best = {c.model: c for c in cells if c.sampler == "ALBP"}
    for c in cells:
        top = best[c.model]
        made.add_row(
            TITLES[c.model] if c.sampler == "RWM-1" else "",
            c.sampler,
            f"{c.run.scale:.1f}",
            f"{c.run.acceptance:.3f}",
            f"{c.run.ejd:.2f}",
            _number(c.paper_ejd),
            f"{c.run.ess_per_draw:.4f}",
            f"{c.run.ess / top.run.ess:.3f}",
            _number(c.paper_ess and top.paper_ess and c.paper_ess / top.paper_ess, 3),
            f"{c.run.steps_per_second:,.0f}",
            end_section=c.sampler == "ALBP",
        )
    return made


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def save_csv(path: Path, cells: list[Cell]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "size", "config", "sampler", *COLUMNS])
        for c in cells:
            numbers = (c.run.scale, c.run.acceptance, c.run.ejd, c.paper_ejd, c.run.ess_per_draw)
            writer.writerow([c.model, MODELS[c.model], CONFIG, c.sampler, *numbers])


def save_figure(path: Path, cells: list[Cell]) -> None:
    """Jump distances on a log scale, the paper's as open circles."""
    figure, axes = plt.subplots(1, len(MODELS), figsize=(9, 2.9), sharey=True)
    colors = {"RWM-1": "#b8c4d0", "ARWM": "#6b8299", "LBP-1": "#f0c9a4", "ALBP": "#d1622b"}
    for axis, model in zip(axes, MODELS, strict=True):
        ours = [c for c in cells if c.model == model]
        names = [c.sampler for c in ours]
        axis.bar(names, [c.run.ejd for c in ours], color=[colors[n] for n in names], width=0.65)
        marks = [(c.sampler, c.paper_ejd) for c in ours if c.paper_ejd is not None]
        axis.plot(*zip(*marks, strict=True), "o", mfc="none", mec="black", ms=7, label="paper")
        for c in ours:
            axis.annotate(
                f"{c.run.ejd:.3g}",
                (c.sampler, max(c.run.ejd, c.paper_ejd or 0)),
                (0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        axis.set_yscale("log")
        axis.set_title(TITLES[model], fontsize=10)
        axis.set_ylim(0.3, 1500)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=9)
    axes[0].set_ylabel("expected jump distance")
    axes[0].legend(frameon=False, fontsize=9, loc="upper left")
    figure.tight_layout()
    figure.savefig(path, dpi=160)
    plt.close(figure)
