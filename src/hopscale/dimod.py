"""hopscale as a dimod sampler, dimod models as targets. Written in `hopscale.adapters.dimod`."""

from hopscale.adapters.dimod import (
    Sampler,
    from_bqm,
    sample_set,
    states,
    to_bqm,
)

__all__ = ["Sampler", "from_bqm", "sample_set", "states", "to_bqm"]
