"""Weights of sites within kernels, from log-ratios, in a suitable unit."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import triton as plgpu

# If the sum of weights is between these bounds, and no weight is above them, the unit is kept.
PLENTY, TOO_MUCH = np.float32(2.0**-20), np.float32(2.0**60)
PER_BIT = np.float32(1.0 / np.log(2.0))


class Weighing(NamedTuple):
    """g, by name: "barker", "sqrt", "min", "max", or "none" for inputs that are log-weights.

    A weight takes a few machine instructions on a GPU. Its relative error is about 2^-24 times one
    plus the distance of the input from the unit's. The weight is NaN if the input is NaN; it is
    zero if the input is -inf, or if it underflows.
    """

    name: str
    interpret: bool = True  # as plain JAX, on any device

    def unit(self, largest):
        """The input whose weight is the unit, given the largest; and the unit over weight 1."""
        top = jnp.where(largest > -jnp.inf, largest, 0.0)  # no site has weight: all are alike
        if self.name in ("barker", "min"):
            top = jnp.minimum(top, 0.0)
        elif self.name == "max":
            top = jnp.maximum(top, 0.0)
        return top, jnp.exp(top)

    def weight(self, x, unit):
        """Weights in this unit."""
        top, one = unit
        if self.name in ("none", "sqrt"):
            return self._power((x - top) * (PER_BIT * (0.5 if self.name == "sqrt" else 1.0)))
        inverse = self._power((top - x) * PER_BIT)
        if self.name == "barker":
            return self._over(one + inverse)
        # NaN stays NaN.
        beyond = inverse < one if self.name == "min" else inverse > one
        return self._over(jnp.where(beyond, one, inverse))

    def weightless(self, x):
        """Whether the weight is zero: max(1, t) never is."""
        return (x == -jnp.inf) & (self.name != "max")

    def log_weight(self, x):
        """The logarithm of a weight in the unit 1."""
        if self.name == "barker":
            return jnp.minimum(x, 0.0) - jnp.log1p(jnp.exp(-jnp.abs(x)))
        if self.name == "min":
            return jnp.minimum(x, 0.0)
        if self.name == "max":
            return jnp.maximum(x, 0.0)
        return x * (0.5 if self.name == "sqrt" else 1.0)

    def log_unit(self, unit):
        """The logarithm of the weight that `weight` counts as 1."""
        return unit[0] * (0.5 if self.name == "sqrt" else 1.0)

    def in_unit(self, weigh, initial=()):
        """Sums of weights in a suitable unit; the unit comes first.

        Weights are summed in the unit 1. They are summed again in that of the largest only if all
        are small, or some are large.

        Args:
            weigh: given a unit, returns the sum of all weights, the largest of their inputs, and
                any further results.
            initial: arrays of the shapes of the further results.
        """

        def once(state):
            unit, turn, *_ = state
            total, largest, *more = weigh(unit)
            suits = (total >= PLENTY) & (total <= TOO_MUCH)
            suits = suits & (self.log_weight(largest) <= np.log(TOO_MUCH))
            again = (turn == 0) & ~suits
            better = self.unit(largest)
            unit = tuple(jnp.where(again, a, b) for a, b in zip(better, unit, strict=True))
            return unit, 2 - again.astype(jnp.int32), total, *more

        begin = (jnp.float32(0.0), jnp.float32(1.0)), jnp.int32(0), jnp.float32(0.0), *initial
        unit, _, *sums = lax.while_loop(lambda state: state[1] < 2, once, begin)
        return unit, *sums

    def _power(self, x):
        """2^x."""
        return jnp.exp2(x) if self.interpret else _instruction("ex2.approx.ftz.f32", x)

    def _over(self, x):
        """1 / x."""
        return 1.0 / x if self.interpret else _instruction("rcp.approx.ftz.f32", x)


def _instruction(name, x):
    """A machine instruction on each number."""
    shape = [jax.ShapeDtypeStruct(x.shape, jnp.float32)]
    asm = f"{name} $0, $1;"
    (y,) = plgpu.elementwise_inline_asm(
        asm, args=[x], constraints="=f,f", pack=1, result_shape_dtypes=shape
    )
    return y
