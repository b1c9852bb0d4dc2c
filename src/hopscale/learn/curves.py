"""Training curves as a figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hopscale.learn.health import Crisis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 400
PANELS = (
    ("mean f(data) - mean f(samples)", (("gap", ""),)),
    ("energy", (("energy_data", "data"), ("energy_samples", "samples"))),
    ("norm of the gradient", (("gradient", ""),)),
    ("acceptance", (("acceptance", ""),)),
    ("scale R", (("scale", ""),)),
    ("variety of samples, over the data's", (("variety", ""),)),
)
WIDE = 100.0  # an axis with larger values is logarithmic away from 0


def curves(
    history: dict[str, np.ndarray], title: str = "", crises: Sequence[Crisis] = ()
) -> "Figure":
    """Plot what training recorded, averaged over some 400 stretches; crises are shaded."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 5.5), dpi=120, layout="constrained")
    for panel, (name, lines) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for key, label in lines:
            steps, means = _blocks(history[key])
            panel.plot(steps, means, label=label or None, linewidth=1.0)
            if np.nanmax(np.abs(means), initial=0.0) > WIDE:
                panel.set_yscale("symlog", linthresh=1.0)
        for crisis in crises:
            end = len(history["gap"]) if crisis.end is None else crisis.end
            panel.axvspan(crisis.begin, end, color="tab:red", alpha=0.15, linewidth=0)
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("iteration", fontsize=9)
        panel.grid(alpha=0.3)
        if len(lines) > 1:
            panel.legend(fontsize=8)
    if title:
        figure.suptitle(f"{title}; shaded: crises" if crises else title, fontsize=11)
    return figure


def _blocks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The iterations at which successive stretches end, and the means of the stretches."""
    size = max(1, len(values) // POINTS)
    number = len(values) // size
    means = values[: number * size].reshape(number, size).mean(axis=1)
    return size * np.arange(1, number + 1), means
