"""Discrete variables of PyMC models, moved by LBP. Written in `hopscale.adapters.pymc`."""

from hopscale.adapters.pymc import LBP

__all__ = ["LBP"]
