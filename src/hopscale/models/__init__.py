"""Statistical models, ready to sample."""

from hopscale.models.posterior import Inclusion, RankedModel
from hopscale.models.variable_selection import GPrior, Slab, VariableSelection

__all__ = ["GPrior", "Inclusion", "RankedModel", "Slab", "VariableSelection"]
