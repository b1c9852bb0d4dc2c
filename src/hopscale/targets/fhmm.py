"""The factorial hidden Markov model's posterior."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hopscale import lattice
from hopscale.target import State, Target, as_float, as_parameter, check_ratios, has_values
from hopscale.validate import choice

AXES = {"time": 0, "factor": 1}


class FHMM(Target):
    r"""K binary Markov chains of length L, seen through one noisy linear reading.

    $$y_l \sim \mathcal N(w^\top x_l + b, \sigma^2), \qquad
      P(x_{1,k} = 1) = \text{first}, \quad P(x_{l,k} = x_{l-1,k}) = \text{stay}$$

    The target is the posterior of the hidden x in {0, 1}^(L x K) given y. The likelihood is
    quadratic in x, so the gradient form of the ratios is an approximation; the exact one costs
    the same and is the default.

    The paper's formula chains x along k within each time step (`axis="factor"`); a time series
    chains along l (`axis="time"`, the default).

    Args:
        observations: y, of shape (L,).
        weights: w, of shape (K,).
        bias: b.
        sigma: the standard deviation of the noise.
        stay: probability that a chain keeps its value from one link to the next.
        first: probability of a 1 at the start of a chain.
        axis: "time" or "factor".
        ratios: "exact" or "gradient".
    """

    observations: Float[Array, " l"]
    weights: Float[Array, " k"]
    bias: Float[Array, ""]
    sigma: Float[Array, ""]
    stay: Float[Array, ""]
    first: Float[Array, ""]
    axis: str = eqx.field(static=True)
    ratios: str = eqx.field(static=True)

    num_states: ClassVar[int] = 2

    def __init__(
        self,
        observations,
        weights,
        bias,
        sigma,
        stay=0.8,
        first=0.1,
        axis: str = "time",
        ratios: str = "exact",
    ):
        self.observations = as_parameter("observations", observations, ndim=1)
        dtype = self.observations.dtype
        self.weights = as_parameter("weights", weights, ndim=1).astype(dtype)
        self.bias = as_parameter("bias", bias, ndim=0).astype(dtype)
        self.sigma = as_parameter("sigma", sigma, ndim=0).astype(dtype)
        self.stay = as_parameter("stay", stay, ndim=0).astype(dtype)
        self.first = as_parameter("first", first, ndim=0).astype(dtype)
        self.axis = axis
        self.ratios = ratios

    def __check_init__(self):
        check_ratios(self.ratios)
        choice("axis", self.axis, AXES)
        if self.observations.size == 0 or self.weights.size == 0:
            raise ValueError(
                "an FHMM needs at least one observation and one weight; got "
                f"{self.observations.size} and {self.weights.size}."
            )
        if has_values(self.sigma) and not float(self.sigma) > 0:
            raise ValueError(f"sigma must be positive; got {float(self.sigma):g}.")
        for name, value in (("stay", self.stay), ("first", self.first)):
            if has_values(value) and not 0 < float(value) < 1:
                raise ValueError(f"{name} must lie inside (0, 1); got {float(value):g}.")

    @property
    def shape(self):
        return (self.observations.size, self.weights.size)

    @property
    def dtype(self):
        return self.observations.dtype

    def _log_prob(self, x: State):
        return self._evaluate(x)[0]

    def _evaluate(self, x: State):
        along = AXES[self.axis]
        spins = lattice.spins(x)
        s = as_float(lattice.inside(spins), self.dtype)
        # In spins the chain prior is an Ising chain: a bond J between links, a field at the start.
        bond = 0.5 * (jnp.log(self.stay) - jnp.log1p(-self.stay))
        start = 0.5 * (jnp.log(self.first) - jnp.log1p(-self.first))
        pull = lattice.pull(spins, bond, along)
        at_start = jax.lax.broadcasted_iota(jnp.int32, s.shape, along) == 0
        field = jnp.where(at_start, start, 0.0)

        residual = self.observations - as_float(x, self.dtype) @ self.weights - self.bias
        fit = -0.5 * jnp.sum((residual / self.sigma) ** 2)
        shift = -s * self.weights[None, :]  # what flipping a bit adds to the mean reading
        gain = residual[:, None] * shift
        if self.ratios == "exact":
            gain = gain - 0.5 * shift**2
        log_prob = fit + jnp.sum(s * (field + 0.5 * pull))
        return log_prob, -2.0 * s * (field + pull) + gain / self.sigma**2
