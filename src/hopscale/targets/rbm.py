"""The restricted Boltzmann machine, with its hidden units summed out."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from hopscale import native
from hopscale.move import Move, apply
from hopscale.target import (
    Evaluation,
    State,
    Target,
    as_float,
    as_parameter,
    check_ratios,
    has_values,
)
from hopscale.targets.absorb import in_precision
from hopscale.validate import as_key, bits, count

# A GPU would otherwise round factors to 10 bits, which a difference of log-densities shows.
PRECISE = jax.lax.Precision.HIGHEST


class RBM(Target):
    r"""The visible units x of a restricted Boltzmann machine with hidden units z.

    $$\pi(x, z) \propto \exp(b^\top x + c^\top z + z^\top W x), \qquad
      \log \pi(x) = b^\top x + \sum_j \log(1 + e^{W_j x + c_j}) + \text{const}$$

    The paper's tables use `ratios="gradient"`, the default, which costs one product with W and one
    with its transpose. `ratios="exact"` costs a softplus for each pair of a hidden and a visible
    unit,

    $$d_i b_i + \sum_j \log(1 + e^{a_j + d_i W_{ji}}) - \log(1 + e^{a_j}),
      \quad a = W x + c,\ d = 1 - 2x.$$

    The inputs a of the hidden units are carried from step to step. A change of R units updates them
    by R columns of W, instead of a product with all of W.

    Args:
        weights: W, of shape (hidden, visible), or (hidden, *shape) for images.
        visible_bias: b; its shape is that of a state, (visible,) or an image's such as (28, 28).
        hidden_bias: c, of shape (hidden,).
        ratios: "gradient" or "exact".
    """

    by_visible: Float[Array, "visible hidden"]  # W transposed: a row for each visible unit
    visible_bias: Float[Array, "*shape"]
    hidden_bias: Float[Array, " hidden"]
    ratios: str = eqx.field(static=True)

    num_states: ClassVar[int] = 2

    def __init__(self, weights, visible_bias, hidden_bias, ratios: str = "gradient"):
        weights = as_parameter("weights", weights)
        self.visible_bias = as_parameter("visible_bias", visible_bias).astype(weights.dtype)
        self.hidden_bias = as_parameter("hidden_bias", hidden_bias, ndim=1).astype(weights.dtype)
        self.ratios = ratios
        hidden, visible, shape = self.hidden_bias.size, self.visible_bias.size, self.shape
        if visible == 0 or hidden == 0 or not shape:
            raise ValueError(
                "an RBM needs at least one visible and one hidden unit; got a visible_bias of "
                f"shape {shape} and a hidden_bias of shape {self.hidden_bias.shape}."
            )
        if weights.shape not in ((hidden, visible), (hidden, *shape)):
            raise ValueError(
                f"weights must have shape {(hidden, visible)}, a row for each of {hidden} hidden "
                f"units; got {weights.shape}. Transpose weights that have a column for each."
            )
        self.by_visible = weights.reshape(hidden, visible).T

    def __check_init__(self):
        check_ratios(self.ratios)

    @property
    def weights(self) -> Float[Array, "hidden visible"]:
        """W, with the sites of images row by row."""
        return self.by_visible.T

    @property
    def shape(self):
        return self.visible_bias.shape

    @property
    def dtype(self):
        return self.by_visible.dtype

    @property
    def num_hidden(self) -> int:
        """The number of hidden units."""
        return self.hidden_bias.size

    def given(self, free, state):
        if not (has_values(self.by_visible) and has_values(self.visible_bias)):
            return None
        by_visible = np.asarray(self.by_visible, np.float64)
        values = np.array(state, np.float64)
        values[free] = 0.0
        hidden_bias = np.asarray(self.hidden_bias, np.float64) + values @ by_visible
        bias = np.asarray(self.visible_bias, np.float64).reshape(-1)[free]
        return in_precision(RBM(by_visible[free].T, bias, hidden_bias, self.ratios), self.dtype)

    def free_energy(self, x: ArrayLike) -> Float[Array, "*batch"]:
        r"""$F(x) = -\log \sum_z e^{-E(x, z)}$, the negative log-density. Takes batches."""
        flat = self._flat(x)
        inputs = self._inputs(flat)
        return -(flat @ self.visible_bias.reshape(-1)) - jnp.sum(jax.nn.softplus(inputs), axis=-1)

    def hidden_prob(self, x: ArrayLike) -> Float[Array, "*batch hidden"]:
        r"""$P(z_j = 1 \mid x) = \sigma(W_j x + c_j)$. Takes batches."""
        return jax.nn.sigmoid(self._inputs(self._flat(x)))

    def visible_prob(self, z: ArrayLike) -> Float[Array, "..."]:
        r"""$P(x_i = 1 \mid z) = \sigma(W_{\cdot i}^\top z + b_i)$. Takes batches."""
        z = jnp.asarray(z)
        back = jnp.matmul(as_float(z, self.dtype), self.by_visible.T, precision=PRECISE)
        back = back.reshape(*z.shape[:-1], *self.shape)
        return jax.nn.sigmoid(back + jnp.broadcast_to(self.visible_bias, back.shape))

    def gibbs(self, key: int | Key[Array, ""], x: ArrayLike, steps: int = 1) -> State:
        """Block Gibbs sampling: all z given x, then all x given z, `steps` times.

        Args:
            key: a seed or JAX key.
            x: one state, or any number of them along leading axes: independent chains.
            steps: the number of pairs of draws.
        """
        key = as_key(key)
        count("steps", steps, minimum=0)
        x = bits("x", x)
        self._flat(x)  # raises for states of another shape
        return _gibbs(self, key, jnp.asarray(x), int(steps))

    def gibbs_given(
        self, key: Key[Array, ""], x: State, inputs: Float[Array, " hidden"], steps: int
    ) -> State:
        """`gibbs` of one state whose hidden inputs, the cache of its evaluation, are known."""
        return _gibbs(self, key, x, steps, inputs)

    def _flat(self, x: ArrayLike) -> Float[Array, "*batch visible"]:
        x = jnp.asarray(x)
        batch = x.shape[: x.ndim - len(self.shape)]
        if x.shape != (*batch, *self.shape):
            raise ValueError(
                f"states of this RBM have shape {self.shape}, after axes of a batch; got {x.shape}."
            )
        return as_float(x, self.dtype).reshape(*batch, -1)

    def _inputs(self, flat: Float[Array, "*batch visible"]) -> Float[Array, "*batch hidden"]:
        """The inputs of the hidden units, W x + c."""
        product = jnp.matmul(flat, self.by_visible, precision=PRECISE)
        return product + jnp.broadcast_to(self.hidden_bias, product.shape)

    def _log_prob(self, x: State):
        return -self.free_energy(x)

    def _evaluate(self, x: State):
        return self._given(x, self._inputs(self._flat(x)), ratios=True)

    def _evaluate_log_prob(self, x: State):
        return self._given(x, self._inputs(self._flat(x)), ratios=False)

    def _update(self, x: State, evaluation: Evaluation, move: Move):
        inputs = native.call(
            "rbm_inputs", evaluation.cache, x.reshape(-1), move.moved, self.by_visible
        )
        return self._given(apply(x, move), inputs, ratios=evaluation.log_ratios is not None)

    def _given(self, x: State, inputs: Float[Array, " hidden"], ratios: bool) -> Evaluation:
        """The evaluation, given the inputs of the hidden units."""
        flat, bias = self._flat(x), self.visible_bias.reshape(-1)
        soft = jax.nn.softplus(inputs)
        log_prob = flat @ bias + jnp.sum(soft)
        if not ratios:
            return Evaluation(log_prob=log_prob, log_ratios=None, cache=inputs)
        turn = 1.0 - 2.0 * flat
        if self.ratios == "exact":
            after = jax.nn.softplus(inputs[None, :] + turn[:, None] * self.by_visible)
            found = turn * bias + jnp.sum(after - soft[None, :], axis=1)
        else:
            back = jnp.matmul(self.by_visible, jax.nn.sigmoid(inputs), precision=PRECISE)
            found = turn * (bias + back)
        return Evaluation(log_prob=log_prob, log_ratios=found.reshape(self.shape), cache=inputs)


@eqx.filter_jit
def _gibbs(rbm: RBM, key: Key[Array, ""], x: State, steps: int, inputs: Any = None) -> State:
    def drawn(step, hidden_prob):
        key_hidden, key_visible = jax.random.split(jax.random.fold_in(key, step))
        z = jax.random.bernoulli(key_hidden, hidden_prob)
        return jax.random.bernoulli(key_visible, rbm.visible_prob(z)).astype(x.dtype)

    first, begin = 0, x
    if inputs is not None:
        first, begin = 1, drawn(0, jax.nn.sigmoid(inputs))
    return jax.lax.fori_loop(first, steps, lambda step, x: drawn(step, rbm.hidden_prob(x)), begin)
