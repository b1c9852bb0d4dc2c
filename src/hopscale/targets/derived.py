"""The base class of targets made from other targets: tempered, to a power, conditioned."""

from typing import Self

import equinox as eqx
from jaxtyping import Array, Float

from hopscale.target import Target


class Derived(Target):
    """A target whose sites are those of `target`, or some of them.

    The number of values and the precision are those of the inner target. Log-ratios are exact if
    those of all parts are. A subclass defines the shape of a state and the evaluation. `parts` are
    all targets it is made of.
    """

    target: eqx.AbstractVar[Target]

    @property
    def parts(self) -> tuple[Target, ...]:
        return (self.target,)

    @property
    def num_states(self):
        return self.target.num_states

    @property
    def num_states_by_site(self):
        return self.target.num_states_by_site

    @property
    def dtype(self):
        return self.target.dtype

    @property
    def ratios(self):
        found = {part.ratios for part in self.parts}
        return next((kind for kind in ("auto", "gradient") if kind in found), "exact")

    def updates(self, ratios: bool) -> bool:
        return any(part.updates(ratios) for part in self.parts)

    def cautions(self) -> tuple[str, ...]:
        return tuple(sentence for part in self.parts for sentence in part.cautions())

    def decided(self, ratios: str) -> Self:
        parts = tuple(part.decided(ratios) for part in self.parts)
        return eqx.tree_at(lambda t: t.parts, self, parts)


def check_one_beta(beta: Float[Array, "..."]) -> None:
    """Raise if beta holds several values where one target is to be sampled."""
    if beta.ndim:
        raise ValueError(
            f"beta must be one number where a target is sampled; got {beta.size} of shape "
            f"{beta.shape}. For a run at each of them use hs.sample_many([hs.Tempered(base, "
            "target, b) for b in betas]); for parallel tempering hs.sample(target, "
            "temper=hs.Tempering())."
        )
