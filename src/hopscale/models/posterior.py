"""What runs say about models: which columns belong, and which models are probable."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hopscale.kernels.kernel import ChainState, Info
from hopscale.record import MeanAndError, Recorder
from hopscale.target import Target


class RankedModel(NamedTuple):
    """A model, how often it was drawn, the standard error of that, and its bits."""

    columns: tuple[str, ...]
    probability: float
    error: float
    x: np.ndarray

    def __repr__(self) -> str:
        names = " ".join(self.columns) or "no column"
        return f"{self.probability:.3f} ± {self.error:.3f}: {names}"


class Inclusion(Recorder):
    r"""The mean over draws of $P(\gamma_j = 1 \mid \text{all other columns})$, for every j.

    Its mean is the inclusion probability. It varies less than the bit itself, because log-ratios
    also give it for columns that did not move. It works for any target of bits with exact ratios.
    If a model marks a log-ratio as not sure, as for columns that repeat others in single precision,
    the bit itself is averaged; its mean is the same.
    """

    def init(self, target: Target, chains: int):
        if target.num_states != 2 or target.ratios != "exact":
            raise ValueError(
                "Inclusion averages exact log-ratios of bits; this target has "
                f"{target.num_states} values a site and {target.ratios} ratios. Use "
                "hs.record.SiteMeans()."
            )
        shape = (chains, *target.shape)
        return jnp.zeros(shape, target.dtype), jnp.zeros(shape, target.dtype)

    def update(self, memory, states: ChainState, info: Info):
        if states.log_ratios is None:
            raise ValueError(
                "Inclusion averages log-ratios, which this kernel does not use. Use an informed "
                "kernel such as hs.LBP(), or hs.record.SiteMeans()."
            )
        total, lost = memory
        turned = jnp.where(states.x == 1, -states.log_ratios, states.log_ratios)
        chance = jax.nn.sigmoid(turned)
        sure = getattr(states.evaluation.cache, "sure", None)
        if sure is not None:  # `sure` depends on the other columns only
            chance = jnp.where(sure, chance, states.x.astype(chance.dtype))
        added = chance - lost
        after = total + added
        return after, (after - total) - added

    def result(self, memory, draws: int) -> MeanAndError:
        return MeanAndError.of(np.asarray(memory[0], np.float64) / max(draws, 1))
