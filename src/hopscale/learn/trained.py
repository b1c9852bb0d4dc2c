"""The result of training an energy-based model."""

import dataclasses
from pathlib import Path

import numpy as np

from hopscale import tables
from hopscale.learn.ebm import EBM
from hopscale.learn.health import Crisis
from hopscale.target import State


@dataclasses.dataclass(frozen=True)
class Trained:
    """The result of training.

    Attributes:
        model: the model with the average of the weights.
        last: the model with the weights of the last iteration.
        samples: the replay buffer, the present states of the chains.
        scale: the kernel's scale at the end; None for kernels without a scale.
        history: by iteration: "gap" (mean f(data) - mean f(samples)), "energy_data",
            "energy_samples", "acceptance", "scale", "gradient" (its norm), "variety" (of the
            samples, over that of the data).
        crises: stretches in which the gap was open; the last one may still be open
            (`hopscale.learn.health`).
        iterations: all iterations taken, including those before a resume.
        seconds: the time of this call's iterations, without compilation.
        compile_seconds: the time of this call's compilation.
        checkpoint: the last one written, if a directory was given.
        interrupted: whether Ctrl-C ended it.
    """

    model: EBM
    last: EBM
    samples: State
    scale: float | None
    history: dict[str, np.ndarray]
    crises: tuple[Crisis, ...]
    iterations: int
    seconds: float
    compile_seconds: float
    checkpoint: Path | None
    interrupted: bool

    @property
    def in_crisis(self) -> bool:
        """Whether training ended while the gap was open."""
        return bool(self.crises) and self.crises[-1].end is None

    def __str__(self) -> str:
        return tables.text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.html(self)

    def __rich__(self, title: str | None = None):
        shape = " x ".join(map(str, self.model.shape))
        title = title or f"EBM ({shape}) with {type(self.model.network).__name__}"
        return tables.table(title, self._rows(), "means of the last 100 iterations")

    def _rows(self):
        stopped = ", stopped by Ctrl-C" if self.interrupted else ""
        yield "iterations", f"{self.iterations:,}{stopped}"
        recent = {
            name: float(np.mean(values[-100:])) if len(values) else float("nan")
            for name, values in self.history.items()
        }
        yield "f(data) - f(samples)", f"{recent['gap']:.4g}"
        yield "energy of data", f"{recent['energy_data']:.4g}"
        yield "variety of samples", f"{recent['variety']:.2f} of the data's"
        if self.crises:
            left = ", NOT OVER: take more iterations" if self.in_crisis else ""
            yield "crises", f"{len(self.crises)}, the last in {self.crises[-1]}{left}"
        yield "acceptance", f"{recent['acceptance']:.3f}"
        if self.scale is not None:
            yield "scale R", f"{self.scale:.2f} of {self.model.num_sites:,} sites"
        yield "seconds", f"{self.seconds:.1f} run + {self.compile_seconds:.1f} compile"
        if self.checkpoint is not None:
            yield "checkpoint", str(self.checkpoint)
