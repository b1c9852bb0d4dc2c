"""Sampling from discrete distributions, with the number of sites a step changes tuned for you."""

import importlib
from typing import TYPE_CHECKING

from hopscale import balance, deprecated, diagnostics, record
from hopscale.annealing.optimum import Optimum, optimize
from hopscale.kernels import (
    DMALA,
    GWG,
    LBP,
    RWM,
    BlockGibbs,
    ChainState,
    Exchange,
    Gibbs,
    Info,
    Kernel,
    Metropolis,
    ScaleRange,
    Swap,
    Tempering,
)
from hopscale.move import Move
from hopscale.results.run import ConvergenceWarning, Run
from hopscale.runs.comparison import Comparison, compare
from hopscale.runs.host import Interrupted
from hopscale.runs.run import sample, sample_many
from hopscale.target import Evaluation, Target
from hopscale.targets import (
    FHMM,
    RBM,
    Bernoulli,
    Clamped,
    Ising,
    LogDensity,
    Pairwise,
    Potts,
    Tempered,
    clamp,
)
from hopscale.tune import Adaptive, Fixed, Tuned, Tuner
from hopscale.validate import InvalidDensityError

if TYPE_CHECKING:
    from hopscale import (
        blackjax,
        check,
        data,
        dimod,
        learn,
        models,
        numpyro,
        paper,
        plot,
        pymc,
        theory,
    )
    from hopscale.disk.storage import FileError
    from hopscale.learn import log_z
    from hopscale.runs.saving import load

__version__ = "0.2.0"

__all__ = [
    "DMALA",
    "FHMM",
    "GWG",
    "LBP",
    "RBM",
    "RWM",
    "Adaptive",
    "Bernoulli",
    "BlockGibbs",
    "ChainState",
    "Clamped",
    "Comparison",
    "ConvergenceWarning",
    "Evaluation",
    "Exchange",
    "FileError",
    "Fixed",
    "Gibbs",
    "Info",
    "Interrupted",
    "InvalidDensityError",
    "Ising",
    "Kernel",
    "LogDensity",
    "Metropolis",
    "Move",
    "Optimum",
    "Pairwise",
    "Potts",
    "Run",
    "ScaleRange",
    "Swap",
    "Target",
    "Tempered",
    "Tempering",
    "Tuned",
    "Tuner",
    "balance",
    "blackjax",
    "check",
    "clamp",
    "compare",
    "data",
    "diagnostics",
    "dimod",
    "learn",
    "load",
    "log_z",
    "models",
    "numpyro",
    "optimize",
    "paper",
    "plot",
    "pymc",
    "record",
    "sample",
    "sample_many",
    "theory",
]

# Imported on first use, with what they depend on: SciPy, optax, image sets, the shipped weights.
_LAZY = ("check", "data", "learn", "models", "paper", "plot", "theory")
_EXTRAS = ("blackjax", "dimod", "numpyro", "pymc")  # each needs a package that may be missing
_LAZY_NAMES = {
    "FileError": "hopscale.disk.storage",
    "load": "hopscale.runs.saving",
    "log_z": "hopscale.learn",
}

_RENAMED = {"sampler": "kernels", "samplers": "kernels", "scale": "tune", "observe": "record"}


def __getattr__(name: str):
    if name in _RENAMED:
        deprecated.warn(f"hopscale.{name}", f"hopscale.{_RENAMED[name]}")
        return importlib.import_module(f"hopscale.{_RENAMED[name]}")
    if name in _LAZY or name in _EXTRAS:
        return importlib.import_module(f"hopscale.{name}")
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module(_LAZY_NAMES[name]), name)
    raise AttributeError(f"module 'hopscale' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
