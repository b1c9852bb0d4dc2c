"""Discrete sites of NumPyro models, moved by LBP; see `hopscale.adapters.numpyro`."""

from hopscale.adapters.numpyro import DiscreteBlock, DiscreteBlockState, HMCWithLBP

__all__ = ["DiscreteBlock", "DiscreteBlockState", "HMCWithLBP"]
