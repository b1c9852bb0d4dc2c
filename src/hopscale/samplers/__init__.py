"""The samplers, one a file."""

from hopscale.samplers.gwg import GWG
from hopscale.samplers.lbp import LBP
from hopscale.samplers.rwm import RWM

__all__ = ["GWG", "LBP", "RWM"]
