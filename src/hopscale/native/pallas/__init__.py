"""Pallas kernels for NVIDIA GPUs; `hopscale.native.gpu` calls them."""
