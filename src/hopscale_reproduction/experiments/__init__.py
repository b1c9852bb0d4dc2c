"""The paper's experiments, a module each. `plan.py` says what an experiment is."""

from hopscale_reproduction.experiments import (
    fair,
    finite,
    fit,
    jumps,
    kept,
    luck,
    order,
    readings,
    sampling,
)
from hopscale_reproduction.experiments.plan import Experiment, Find

__all__ = ["EXPERIMENTS", "Experiment", "Find", "named"]

EXPERIMENTS: tuple[Experiment, ...] = (
    *sampling.EXPERIMENTS,
    order.EXPERIMENT,
    readings.EXPERIMENT,
    luck.EXPERIMENT,
    kept.EXPERIMENT,
    fit.EXPERIMENT,
    jumps.EXPERIMENT,
    fair.EXPERIMENT,
    finite.EXPERIMENT,
)

# What the command line's words stand for, beside the experiments' own names and "all".
GROUPS = {
    "table1": ("bernoulli", "ising", "fhmm"),
    "figures": ("bernoulli", "ising", "fhmm", "order", "jumps", "fair"),
    # What a first look should have.
    "default": (
        "bernoulli",
        "ising",
        "fhmm",
        "order",
        "readings",
        "luck",
        "kept",
        "fit",
        "jumps",
        "fair",
        "finite",
    ),
}


def named(names: list[str]) -> list[Experiment]:
    """Experiments by name or group, in their order here."""
    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    chosen = set()
    for name in names:
        if name != "all" and name not in known and name not in GROUPS:
            choices = ", ".join([*GROUPS, *known, "ebm", "all"])
            raise ValueError(f"there is no experiment {name!r}; choose from {choices}.")
        chosen |= set(known) if name == "all" else set(GROUPS.get(name, (name,)))
    return [experiment for experiment in EXPERIMENTS if experiment.name in chosen]
