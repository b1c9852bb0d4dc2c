"""The paper's rule."""

import equinox as eqx
import jax.numpy as jnp

from hopscale.kernels.kernel import Info, ScaleRange
from hopscale.tune.tuner import Tuner, TunerState, check_rate


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
