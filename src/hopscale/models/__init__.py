"""Statistical models, ready to sample."""

from hopscale.models.variable_selection import (
    GPrior,
    Inclusion,
    RankedModel,
    Slab,
    VariableSelection,
)

__all__ = ["GPrior", "Inclusion", "RankedModel", "Slab", "VariableSelection"]
