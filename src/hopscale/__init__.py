"""Sampling from discrete distributions, with the number of sites a step changes tuned for you."""

from hopscale import balance, check, data, diagnostics, learn, paper, theory
from hopscale.results import Run
from hopscale.run import sample
from hopscale.samplers import GWG, LBP, RWM
from hopscale.scale import Adaptive, Fixed
from hopscale.target import Target
from hopscale.targets import FHMM, RBM, Bernoulli, Ising, LogDensity
from hopscale.validate import InvalidDensityError

__version__ = "0.1.0"

__all__ = [
    "FHMM",
    "GWG",
    "LBP",
    "RBM",
    "RWM",
    "Adaptive",
    "Bernoulli",
    "Fixed",
    "InvalidDensityError",
    "Ising",
    "LogDensity",
    "Run",
    "Target",
    "balance",
    "check",
    "data",
    "diagnostics",
    "learn",
    "paper",
    "sample",
    "theory",
]
