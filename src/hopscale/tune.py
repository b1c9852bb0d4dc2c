"""Tuners: how a kernel's scale moves during warm-up.

A tuner is a frozen module; its state is a tuple that holds at least `scale`, one number for all
chains or one for each. What the scale means, and between which ends it may move, is the kernel's
to say: see `ScaleRange`.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale.kernels.kernel import Info, ScaleRange


class TunerState(NamedTuple):
    scale: Float[Array, "..."]


class Tuner(eqx.Module):
    """How the scale starts, and how it moves during warm-up."""

    @abc.abstractmethod
    def init(self, scales: ScaleRange, chains: int, dtype) -> TunerState:
        """The state before the first step."""

    @abc.abstractmethod
    def update(self, state: TunerState, info: Info, scales: ScaleRange) -> TunerState:
        """The state after a warm-up step; `info` holds what each chain did."""

    def check(self, scales: ScaleRange) -> None:
        """Raise if the tuner does not fit a kernel with such scales."""

    def with_defaults(self, scales: ScaleRange) -> "Tuner":
        """The tuner with what it takes from the kernel filled in."""
        return self


class Fixed(Tuner):
    """The same scale at every step: R sites, for kernels that choose sites.

    Args:
        scale: R, from 1 to the number of sites, for all chains or one for each. A fraction is
            rounded at random at every step.
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
                "or hs.Adaptive()."
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


class Adaptive(Tuner):
    r"""The paper's rule (Section 4): move the scale by how far acceptance is from its best rate.

    $$R_{t+1} = R_t + (\bar a_t - \text{rate}), \qquad R_1 = 1$$

    with $\bar a_t$ the mean acceptance probability of all chains, kept within the kernel's range
    and frozen after warm-up. The scale can grow by at most 1 - rate a step, so a warm-up should be
    a few times longer than the scale it has to reach.

    Args:
        rate: the acceptance rate to hold; None for the kernel's best, 0.574 for LBP and GWG and
            0.234 for RWM.
        per_chain: tune a scale for each chain by its own acceptance.
    """

    rate: float | None = None
    per_chain: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.rate is None:
            return
        if np.ndim(self.rate) or np.asarray(self.rate).dtype.kind not in "iuf":
            raise TypeError(f"rate must be a number; got {self.rate!r}.")
        if not 0 < self.rate < 1:
            raise ValueError(f"rate must lie inside (0, 1); got {self.rate!r}.")

    def init(self, scales: ScaleRange, chains: int, dtype) -> TunerState:
        shape = (chains,) if self.per_chain else ()
        return TunerState(scale=jnp.full(shape, scales.start, dtype))

    def with_defaults(self, scales: ScaleRange) -> "Adaptive":
        return self if self.rate is not None else Adaptive(scales.rate, self.per_chain)

    def update(self, state: TunerState, info: Info, scales: ScaleRange) -> TunerState:
        accepted = info.accept_prob if self.per_chain else jnp.mean(info.accept_prob)
        moved = state.scale + (accepted - jnp.asarray(self.rate)).astype(state.scale.dtype)
        return TunerState(scale=jnp.clip(moved, scales.low, scales.tuned_high))


class NoScale(Tuner):
    """For kernels without a scale."""

    def init(self, scales, chains: int, dtype) -> TunerState:
        return TunerState(scale=jnp.ones((), dtype))

    def update(self, state: TunerState, info: Info, scales) -> TunerState:
        return state


def fitted(tuner: Tuner | None, scales: ScaleRange | None) -> Tuner:
    """The tuner for a kernel with these scales: the default where none is given.

    Its numbers become arrays: another rate or scale is then another argument of a compiled
    program, not another program.
    """
    if scales is None:
        if tuner is not None and not isinstance(tuner, NoScale):
            raise ValueError(
                f"this kernel has no scale to tune or fix; leave scale out (got {tuner!r})."
            )
        return NoScale()
    tuner = Adaptive() if tuner is None else tuner
    tuner.check(scales)
    return jax.tree.map(jnp.asarray, tuner.with_defaults(scales))
