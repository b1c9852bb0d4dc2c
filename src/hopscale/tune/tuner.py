"""The interface of a tuner, and the two tuners that leave the scale unchanged.

A tuner is a frozen module; its state is a tuple that holds at least `scale`, one number for all
chains or one for each. The kernel defines what the scale means, and its range: see `ScaleRange`.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale.kernels.kernel import Info, ScaleRange


class TunerState(NamedTuple):
    """The scale of the next step, and anything else that the tuner remembers."""

    scale: Float[Array, "..."]
    memory: Any = ()


class Tuner(eqx.Module):
    """A rule for the scale: where it starts, and how it moves during warm-up."""

    @abc.abstractmethod
    def init(self, scales: ScaleRange, chains: int, dtype) -> TunerState:
        """The state before the first step."""

    @abc.abstractmethod
    def update(self, state: TunerState, info: Info, scales: ScaleRange) -> TunerState:
        """The state after a warm-up step; `info` holds what each chain did."""

    def settled(self, state: TunerState) -> TunerState:
        """The state at the end of warm-up, with the scale to use for the draws."""
        return state

    def check(self, scales: ScaleRange) -> None:
        """Raise if the tuner does not fit a kernel with this range of scales."""

    def with_defaults(self, scales: ScaleRange) -> "Tuner":
        """The tuner, with the settings that it takes from the kernel filled in."""
        return self


class Fixed(Tuner):
    """The same scale at every step: R sites, for kernels that choose sites.

    Args:
        scale: R, from 1 to the number of sites: one number for all chains, or one for each. An R
            that is not an integer is rounded at random at every step.
    """

    scale: float | Float[np.ndarray, " chains"]

    def __init__(self, scale):
        try:
            number = np.asarray(scale)
            if number.dtype.kind not in "iuf":
                raise TypeError(f"{number.dtype}")
            number = number.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"the scale R must be a number; got {scale!r}.") from error
        if number.ndim > 1:
            raise ValueError(
                f"the scale R is one number, or one for each chain; got shape {number.shape}."
            )
        self.scale = number if number.ndim else float(number)

    def __check_init__(self):
        least = np.min(self.scale) if np.size(self.scale) else np.nan
        if not least > 0:
            raise ValueError(f"the scale R must be at least 1; got {least:g}.")

    def check(self, scales: ScaleRange) -> None:
        low, high = np.min(self.scale), np.max(self.scale)
        if low < scales.low:
            raise ValueError(f"the scale R must be at least {scales.low:g}; got {low:g}.")
        if high > scales.high:
            raise ValueError(
                f"the scale R cannot exceed the number of {scales.unit}: R = {high:g} for "
                f"{scales.high:g} {scales.unit}. Use hs.Fixed(R) with 1 <= R <= {scales.high:g}, "
                "or hs.Tuned()."
            )

    def init(self, scales: ScaleRange, chains: int, dtype) -> TunerState:
        if np.ndim(self.scale) and np.size(self.scale) != chains:
            raise ValueError(
                f"the scale R must be one number or one for each of {chains} chains; "
                f"got {np.size(self.scale)}."
            )
        return TunerState(scale=jnp.asarray(self.scale, dtype))

    def update(self, state: TunerState, info: Info, scales: ScaleRange) -> TunerState:
        return state


class NoScale(Tuner):
    """The tuner of kernels without a scale."""

    def init(self, scales, chains: int, dtype) -> TunerState:
        return TunerState(scale=jnp.ones((), dtype))

    def update(self, state: TunerState, info: Info, scales) -> TunerState:
        return state


def check_rate(rate) -> None:
    """Raise unless `rate` is None or an acceptance rate."""
    if rate is None:
        return
    if np.ndim(rate) or np.asarray(rate).dtype.kind not in "iuf":
        raise TypeError(f"rate must be a number; got {rate!r}.")
    if not 0 < rate < 1:
        raise ValueError(f"rate must lie inside (0, 1); got {rate!r}.")
