"""Discrete variables of PyMC models, moved by LBP; see `hopscale.adapters.pymc`."""

from hopscale.adapters.pymc import LBP

__all__ = ["LBP"]
