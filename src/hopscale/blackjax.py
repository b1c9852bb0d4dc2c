"""LBP, GWG, DMALA and the random walk as BlackJAX algorithms; see `hopscale.adapters.blackjax`."""

from hopscale.adapters.blackjax import (
    DiscreteInfo,
    DiscreteState,
    dmala,
    gwg,
    lbp,
    rwm,
    scale_adaptation,
)

__all__ = ["DiscreteInfo", "DiscreteState", "dmala", "gwg", "lbp", "rwm", "scale_adaptation"]
