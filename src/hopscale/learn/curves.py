"""The course of training as a figure."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 400
PANELS = (
    ("mean f(data) - mean f(samples)", (("gap", ""),)),
    ("energy", (("energy_data", "data"), ("energy_samples", "samples"))),
    ("acceptance", (("acceptance", ""),)),
    ("scale R", (("scale", ""),)),
)


def curves(history: dict[str, np.ndarray], title: str = "") -> "Figure":
    """The gap, the energies, acceptance and scale, each averaged over some 400 stretches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.5), dpi=150, layout="constrained")
    for panel, (name, lines) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        for key, label in lines:
            steps, means = _blocks(history[key])
            panel.plot(steps, means, label=label or None, linewidth=1.0)
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("iteration", fontsize=9)
        panel.grid(alpha=0.3)
        if len(lines) > 1:
            panel.legend(fontsize=8)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _blocks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The means of successive stretches, and the iterations where these end."""
    size = max(1, len(values) // POINTS)
    number = len(values) // size
    means = values[: number * size].reshape(number, size).mean(axis=1)
    return size * np.arange(1, number + 1), means
