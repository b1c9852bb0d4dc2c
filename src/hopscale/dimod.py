"""hopscale as a dimod sampler, and dimod models as targets; see `hopscale.adapters.dimod`."""

from hopscale.adapters.dimod import (
    Sampler,
    from_bqm,
    sample_set,
    states,
    to_bqm,
)

__all__ = ["Sampler", "from_bqm", "sample_set", "states", "to_bqm"]
