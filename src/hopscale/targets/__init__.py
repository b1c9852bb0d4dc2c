"""The distributions that come with the library, one per file."""

from hopscale.targets.bernoulli import Bernoulli
from hopscale.targets.clamp import Clamped, clamp
from hopscale.targets.fhmm import FHMM
from hopscale.targets.ising import Ising
from hopscale.targets.log_density import LogDensity
from hopscale.targets.pairwise import Pairwise
from hopscale.targets.potts import Potts
from hopscale.targets.rbm import RBM
from hopscale.targets.tempered import Tempered

__all__ = [
    "FHMM",
    "RBM",
    "Bernoulli",
    "Clamped",
    "Ising",
    "LogDensity",
    "Pairwise",
    "Potts",
    "Tempered",
    "clamp",
]
