"""The factorial hidden Markov model's posterior."""

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from hopscale import native
from hopscale.move import Move
from hopscale.target import Evaluation, State, Target, as_parameter, check_ratios, has_values
from hopscale.validate import choice

AXES = ("time", "factor")


class FHMM(Target):
    r"""K binary Markov chains of length L, observed through a noisy linear combination.

    $$y_l \sim \mathcal N(w^\top x_l + b, \sigma^2), \qquad
      P(x_{1,k} = 1) = \text{first}, \quad P(x_{l,k} = x_{l-1,k}) = \text{stay}$$

    The target is the posterior of the hidden x in {0, 1}^(L x K) given y. The likelihood is
    quadratic in x, so the gradient form of the ratios is an approximation; the exact form costs
    the same and is the default.

    In the paper's formula the chains run along k within each time step (`axis="factor"`). In a time
    series they run along l (`axis="time"`, the default).

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

    @property
    def _parameters(self) -> tuple[Float[Array, "..."], ...]:
        return (
            self.observations,
            self.weights,
            self.bias,
            self.sigma,
            self.stay,
            self.first,
        )

    @property
    def _by_time(self) -> bool:
        return self.axis == "time"

    def _log_prob(self, x: State):
        return self._evaluate(x)[0]

    def _evaluate(self, x: State):
        settings = {"by_time": self._by_time, "exact": self.ratios == "exact"}
        return native.differentiable_call("fhmm", x, *self._parameters, **settings)

    def updates(self, ratios: bool) -> bool:
        # Flips change the ratios of their rows; those of a usual step would change most rows.
        return not ratios

    def _update(self, x: State, evaluation: Evaluation, move: Move):
        if not self.updates(evaluation.log_ratios is not None):
            return super()._update(x, evaluation, move)
        arrays = (evaluation.log_prob, x, move.moved.reshape(self.shape), *self._parameters)
        log_prob = native.call("fhmm_update", *arrays, by_time=self._by_time)
        return Evaluation(log_prob=log_prob, log_ratios=None)
