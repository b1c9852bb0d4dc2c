"""The paper's rule."""

import equinox as eqx
import jax.numpy as jnp

from hopscale.kernels.kernel import Info, ScaleRange
from hopscale.tune.tuner import Tuner, TunerState, check_rate


class Adaptive(Tuner):
    r"""The paper's rule (Section 4): change the scale by acceptance minus the rate to hold.

    $$R_{t+1} = R_t + (\bar a_t - \text{rate}), \qquad R_1 = 1$$

    where $\bar a_t$ is the mean acceptance probability of all chains. The scale R is kept within
    the kernel's range and frozen after warm-up. It can grow by at most 1 - rate per step, so the
    warm-up should have a few times as many steps as the scale that it has to reach.

    Args:
        rate: the acceptance rate to hold; None for the kernel's best, 0.234 for RWM and 0.574 for
            the others.
        per_chain: whether to tune a scale for each chain by its own acceptance.
    """

    rate: float | None = None
    per_chain: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_rate(self.rate)

    def init(self, scales: ScaleRange, chains: int, dtype) -> TunerState:
        shape = (chains,) if self.per_chain else ()
        return TunerState(scale=jnp.full(shape, scales.start, dtype))

    def with_defaults(self, scales: ScaleRange) -> "Adaptive":
        return self if self.rate is not None else Adaptive(scales.rate, self.per_chain)

    def update(self, state: TunerState, info: Info, scales: ScaleRange) -> TunerState:
        accepted = info.accept_prob if self.per_chain else jnp.mean(info.accept_prob)
        moved = state.scale + (accepted - jnp.asarray(self.rate)).astype(state.scale.dtype)
        return TunerState(scale=jnp.clip(moved, scales.low, scales.tuned_high))
