"""The paper's experiments, one module or folder each.

To add one, write a module with an `EXPERIMENT` (see `experiment.py`) and list it here.
"""

from hopscale_reproduction.cells import AnyCell
from hopscale_reproduction.experiment import SLOW, Experiment
from hopscale_reproduction.experiments import (
    finite,
    instances,
    jumps,
    lengths,
    near_fair,
    order,
    readings,
    sampling,
    table2,
    weights,
)

__all__ = ["EXPERIMENTS", "cell_types", "choices", "named"]

EXPERIMENTS: tuple[Experiment, ...] = (
    *sampling.EXPERIMENTS,
    order.EXPERIMENT,
    readings.EXPERIMENT,
    instances.EXPERIMENT,
    lengths.EXPERIMENT,
    weights.EXPERIMENT,
    jumps.EXPERIMENT,
    near_fair.EXPERIMENT,
    finite.EXPERIMENT,
    table2.EXPERIMENT,
)

# Groups of experiments on the command line.
GROUPS = {
    "table1": ("bernoulli", "ising", "fhmm"),
    "figures": ("bernoulli", "ising", "fhmm", "order", "jumps", "near-fair"),
}
# Earlier names of experiments, still understood.
ALIASES = {
    "luck": "instances",
    "kept": "lengths",
    "fit": "weights",
    "fair": "near-fair",
    "ebm": "table2",
}


def choices() -> list[str]:
    """The words that the command line understands."""
    return [*GROUPS, *(experiment.name for experiment in EXPERIMENTS), "default", "all"]


def cell_types() -> dict[str, type[AnyCell]]:
    """The types of all cells, by the kind that the store knows them by."""
    return {experiment.cell_type.kind: experiment.cell_type for experiment in EXPERIMENTS}


def named(names: list[str], profile: str = "quick") -> list[Experiment]:
    """Experiments by name or group, in their order here.

    Args:
        names: names or groups; "default" is what the profile runs by default, "all" everything.
        profile: "quick" or "paper".

    Raises:
        ValueError: a name is not among the choices.
    """
    every = [experiment.name for experiment in EXPERIMENTS]
    groups = {
        "all": every,
        "default": [name for name in every if name not in SLOW[profile]],
        **GROUPS,
        **{name: [name] for name in every},
        **{old: [new] for old, new in ALIASES.items()},
    }
    for name in names:
        if name not in groups:
            raise ValueError(
                f"there is no experiment {name!r}; choose from {', '.join(choices())}."
            )
    chosen = {experiment for name in names for experiment in groups[name]}
    return [experiment for experiment in EXPERIMENTS if experiment.name in chosen]
