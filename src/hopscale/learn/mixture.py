"""A mixture of independent bits: a base that shortens the path of annealing."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from hopscale.target import State, Target, as_float, as_parameter, has_values
from hopscale.validate import as_key, bits, count, number

PRECISE = jax.lax.Precision.HIGHEST
MARGIN = 0.01
SAME = 1e-6  # tolerance for the sum of the weights


class Mixture(Target):
    r"""A mixture of products of independent bits, with a known normaliser.

    $$\pi(x) = \sum_c w_c \prod_i p_{ci}^{x_i} (1 - p_{ci})^{1 - x_i}$$

    The log-ratios are exact: with $r_c$ the probability of component c given x and $d = 1 - 2x$,

    $$\log \sum_c r_c \left(\frac{p_{ci}}{1 - p_{ci}}\right)^{d_i}.$$

    Args:
        weights: w, one for each component, positive, with sum 1.
        p: of shape (components, *shape), inside (0, 1).
    """

    weights: Float[Array, " components"]
    p: Float[Array, "components *shape"]

    num_states: ClassVar[int] = 2
    ratios: ClassVar[str] = "exact"

    def __init__(self, weights, p):
        self.p = as_parameter("p", p)
        self.weights = as_parameter("weights", weights, ndim=1).astype(self.p.dtype)

    def __check_init__(self):
        if self.p.ndim < 2 or len(self.p) != len(self.weights):
            raise ValueError(
                "p must hold the probabilities of each component along its first axis, as many as "
                f"there are weights; got shapes {self.p.shape} and {self.weights.shape}."
            )
        if not (has_values(self.p) and has_values(self.weights)):
            return
        weights, p = np.asarray(self.weights, np.float64), np.asarray(self.p)
        if not (np.all(weights > 0) and abs(weights.sum() - 1) < SAME * max(len(weights), 10)):
            raise ValueError(f"weights must be positive with sum 1; their sum is {weights.sum()}.")
        if not (p.min() > 0 and p.max() < 1):
            raise ValueError(
                f"p must lie strictly inside (0, 1); it ranges over [{p.min()}, {p.max()}]."
            )

    @property
    def shape(self):
        return self.p.shape[1:]

    @property
    def dtype(self):
        return self.p.dtype

    def _joint(self, x: State) -> Float[Array, " components"]:
        """The log-probability of each component together with x."""
        p, code = self._flat(), as_float(x, self.dtype).reshape(-1)
        logit = jnp.log(p) - jnp.log1p(-p)
        inside = jnp.sum(jnp.log1p(-p), axis=1) + jnp.matmul(logit, code, precision=PRECISE)
        return jnp.log(self.weights) + inside

    def _flat(self) -> Float[Array, "components sites"]:
        return self.p.reshape(len(self.p), -1)

    def _log_prob(self, x: State):
        return jax.nn.logsumexp(self._joint(x))

    def _evaluate(self, x: State):
        joint, p = self._joint(x), self._flat()
        given = jax.nn.softmax(joint)
        on = jnp.log(jnp.matmul(given, p / (1.0 - p), precision=PRECISE))
        off = jnp.log(jnp.matmul(given, (1.0 - p) / p, precision=PRECISE))
        log_ratios = jnp.where(x.reshape(-1) == 1, off, on).reshape(self.shape)
        return jax.nn.logsumexp(joint), log_ratios

    def draw(self, key: Key[Array, ""], number: int) -> State:
        """Draw `number` independent states."""
        key_component, key_bits = jax.random.split(key)
        component = jax.random.categorical(key_component, jnp.log(self.weights), shape=(number,))
        uniform = jax.random.uniform(key_bits, (number, *self.shape), self.dtype)
        return (uniform < self.p[component]).astype(self.state_dtype)

    @staticmethod
    def fit(
        data, components: int = 50, *, iterations: int = 50, margin: float = MARGIN, key=0
    ) -> "Mixture":
        r"""Fit a mixture to states by expectation maximisation.

        Args:
            data: states of bits along the first axis: samples of the model that is annealed to.
            components: the number of components.
            iterations: the number of iterations.
            margin: $\epsilon$; probabilities are kept inside $\epsilon \dots 1 - \epsilon$.
            key: a seed or a JAX key, for the initial components.
        """
        x = bits("data", data)
        count("components", components, minimum=1)
        count("iterations", iterations, minimum=1)
        number("margin", margin, 0.0, 0.5, "()")
        if x.ndim < 2 or len(x) < components:
            raise ValueError(
                f"data must hold at least {components} states along the first axis; got {x.shape}."
            )
        chosen = jax.random.choice(as_key(key), len(x), (components,), replace=False)
        flat = jnp.asarray(x.reshape(len(x), -1), jnp.float32)
        weights, p = _fit(flat, flat[chosen], iterations, margin)
        return Mixture(weights, p.reshape(components, *x.shape[1:]))


@eqx.filter_jit
def _fit(x: Float[Array, "n sites"], begin: Float[Array, "components sites"], iterations, margin):
    """Weights and probabilities after some iterations, starting at the chosen states."""

    def iterate(_, parts):
        weights, p = parts
        logit = jnp.log(p) - jnp.log1p(-p)
        constant = jnp.log(weights) + jnp.sum(jnp.log1p(-p), axis=1)
        joint = jnp.matmul(x, logit.T, precision=PRECISE) + constant[None]
        given = jax.nn.softmax(joint, axis=1)  # (n, components)
        mass = jnp.sum(given, axis=0) + 1e-3  # so that no component dies out
        means = jnp.matmul(given.T, x, precision=PRECISE) / mass[:, None]
        return mass / jnp.sum(mass), margin + (1.0 - 2.0 * margin) * means

    even = jnp.full(len(begin), 1.0 / len(begin))
    return jax.lax.fori_loop(0, iterations, iterate, (even, 0.25 + 0.5 * begin))
