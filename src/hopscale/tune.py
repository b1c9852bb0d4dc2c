"""Tuners: how many sites a step changes.

A tuner is a frozen module; its state is a tuple that holds at least `scale`, one number for all
chains or one for each. The scale is real: a step changes floor(scale) sites or one more, such
that the mean is the scale.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hopscale.sampler import Sampler


class TunerState(NamedTuple):
    scale: Float[Array, "..."]


class Tuner(eqx.Module):
    """How the scale starts, and how it moves during warm-up."""

    @abc.abstractmethod
    def init(self, num_sites: int, chains: int, dtype) -> TunerState:
        """The state before the first step."""

    @abc.abstractmethod
    def update(
        self, state: TunerState, accept_prob: Float[Array, " chains"], num_sites: int
    ) -> TunerState:
        """The state after a warm-up step that accepted with these probabilities."""

    def check(self, num_sites: int) -> None:
        """Raise if the tuner does not fit a target of this size."""

    def ready(self, sampler: Sampler) -> "Tuner":
        """The tuner with what it takes from the sampler filled in."""
        return self


class Fixed(Tuner):
    """Change R sites at every step.

    Args:
        scale: R, from 1 to the number of sites, for all chains or one for each. A fraction is
            rounded at random at every step.
    """

    scale: float | Float[np.ndarray, " chains"]

    def __init__(self, scale):
        try:
            number = np.asarray(scale, np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"the scale R must be a number; got {scale!r}.") from error
        if number.ndim > 1:
            raise ValueError(
                f"the scale R is one number, or one for each chain; got shape {number.shape}."
            )
        self.scale = number if number.ndim else float(number)

    def __check_init__(self):
        least = np.min(self.scale) if np.size(self.scale) else np.nan
        if not least >= 1:
            raise ValueError(f"the scale R must be at least 1; got {least:g}.")

    def check(self, num_sites: int) -> None:
        most = np.max(self.scale)
        if most > num_sites:
            raise ValueError(
                f"the scale R cannot exceed the number of sites: R = {most:g} for "
                f"{num_sites} sites. Use hs.Fixed(R) with 1 <= R <= {num_sites}, or hs.Adaptive()."
            )

    def init(self, num_sites: int, chains: int, dtype) -> TunerState:
        if np.ndim(self.scale) and np.size(self.scale) != chains:
            raise ValueError(
                f"the scale R must be one number or one for each of {chains} chains; "
                f"got {np.size(self.scale)}."
            )
        return TunerState(scale=jnp.asarray(self.scale, dtype))

    def update(self, state: TunerState, accept_prob, num_sites: int) -> TunerState:
        return state


class Adaptive(Tuner):
    r"""The paper's rule (Section 4): move the scale by how far acceptance is from its best rate.

    $$R_{t+1} = R_t + (\bar a_t - \text{rate}), \qquad R_1 = 1$$

    with $\bar a_t$ the mean acceptance probability of all chains, kept within [1, N] and frozen
    after warm-up. The scale can grow by at most 1 - rate a step, so a warm-up should be a few
    times longer than the scale it has to reach.

    Args:
        rate: the acceptance rate to hold; None for the sampler's best, 0.574 for LBP and GWG and
            0.234 for RWM.
        per_chain: tune a scale for each chain by its own acceptance.
    """

    rate: float | None = None
    per_chain: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.rate is None:
            return
        if isinstance(self.rate, str) or np.ndim(self.rate):
            raise TypeError(f"rate must be a number; got {self.rate!r}.")
        if not 0 < self.rate < 1:
            raise ValueError(f"rate must lie inside (0, 1); got {self.rate!r}.")

    def init(self, num_sites: int, chains: int, dtype) -> TunerState:
        return TunerState(scale=jnp.ones((chains,) if self.per_chain else (), dtype))

    def ready(self, sampler: Sampler) -> "Adaptive":
        return self if self.rate is not None else Adaptive(sampler.rate, self.per_chain)

    def update(self, state: TunerState, accept_prob, num_sites: int) -> TunerState:
        accepted = accept_prob if self.per_chain else jnp.mean(accept_prob)
        moved = state.scale + (accepted - jnp.asarray(self.rate)).astype(state.scale.dtype)
        return TunerState(scale=jnp.clip(moved, 1.0, float(num_sites)))


def round_randomly(uniform: Float[Array, ""], scale: Float[Array, ""]) -> Int[Array, ""]:
    """floor(scale), or one more with probability the fraction, so that the mean is `scale`."""
    low = jnp.floor(scale)
    more = uniform < scale - low
    return low.astype(jnp.int32) + more.astype(jnp.int32)
