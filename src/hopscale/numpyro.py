"""Discrete sites of NumPyro models, moved by LBP. Written in `hopscale.adapters.numpyro`."""

from hopscale.adapters.numpyro import DiscreteBlock, DiscreteBlockState, HMCWithLBP

__all__ = ["DiscreteBlock", "DiscreteBlockState", "HMCWithLBP"]
