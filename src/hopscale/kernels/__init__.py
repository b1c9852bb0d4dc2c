"""The kernels, one per file: ways to move one chain."""

from hopscale.kernels.dmala import DMALA
from hopscale.kernels.exchange import Exchange
from hopscale.kernels.gibbs import BlockGibbs, Gibbs
from hopscale.kernels.gwg import GWG
from hopscale.kernels.kernel import ChainState, Info, Kernel, ScaleRange
from hopscale.kernels.lbp import LBP
from hopscale.kernels.metropolis import Metropolis
from hopscale.kernels.rwm import RWM
from hopscale.kernels.swap import Swap
from hopscale.kernels.tempering import Tempering

__all__ = [
    "DMALA",
    "GWG",
    "LBP",
    "RWM",
    "BlockGibbs",
    "Exchange",
    "Gibbs",
    "ChainState",
    "Info",
    "Kernel",
    "Metropolis",
    "ScaleRange",
    "Swap",
    "Tempering",
]
