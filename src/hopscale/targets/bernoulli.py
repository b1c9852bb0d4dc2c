"""Independent bits."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale.graphs import graph
from hopscale.move import Move
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
from hopscale.targets.sweep import SpinSweep


class Bernoulli(Target):
    r"""A product of independent bits, the paper's Eq. (1).

    $$\log \pi(x) = \sum_i x_i \log p_i + (1 - x_i) \log(1 - p_i)$$

    The log-density is linear in each x_i, so the gradient form of the ratios is exact.

    Args:
        p: the probability of a 1 at each site, inside (0, 1), of any shape.
        ratios: "exact" or "gradient", which are the same here.
    """

    p: Float[Array, "*shape"]
    logit: Float[Array, "*shape"]
    log_all_zero: Float[Array, ""]
    ratios: str = eqx.field(static=True)

    num_states: ClassVar[int] = 2

    def __init__(self, p, ratios: str = "exact"):
        self.p = as_parameter("p", p)
        self.logit, self.log_all_zero = _logarithms(self.p)
        self.ratios = ratios

    def __check_init__(self):
        check_ratios(self.ratios)
        if self.p.ndim == 0 or self.p.size == 0:
            raise ValueError(
                f"p must hold one probability for each site; got shape {self.p.shape}."
            )
        if not has_values(self.p):
            return
        low, high = np.min(np.asarray(self.p)), np.max(np.asarray(self.p))
        if not 0 < low <= high < 1:
            raise ValueError(
                f"p must lie strictly inside (0, 1); it ranges over [{low:g}, {high:g}]. "
                "A site that never varies should be left out of the target."
            )

    @property
    def shape(self):
        return self.p.shape

    @property
    def dtype(self):
        return self.p.dtype

    def sweep(self):
        return SpinSweep(self, graph.no_pairs(self.num_sites, self.dtype), 0.5 * self._logits)

    def given(self, free, state):
        if not has_values(self.p):
            return None
        smaller = Bernoulli(np.asarray(self.p).reshape(-1)[free], self.ratios)
        return in_precision(smaller, self.dtype)

    @property
    def _logits(self):
        return self.logit.reshape(-1)

    def _log_prob(self, x: State):
        return self.log_all_zero + jnp.sum(as_float(x, self.dtype) * self.logit)

    def _evaluate(self, x: State):
        return Evaluation(self._log_prob(x), jnp.where(x == 1, -self.logit, self.logit))

    def _update(self, x: State, evaluation: Evaluation, move: Move):
        moved = move.moved.reshape(self.shape)
        gains, ratios = evaluation.log_ratios, None
        if gains is None:
            gains = jnp.where(x == 1, -self.logit, self.logit)
        else:
            ratios = jnp.where(moved, -gains, gains)
        change = jnp.sum(jnp.where(moved, gains, 0.0))
        return Evaluation(log_prob=evaluation.log_prob + change, log_ratios=ratios)


def _logarithms(p: Float[Array, "*shape"]) -> tuple[Array, Array]:
    """log(p / (1 - p)) at each site, and the log-probability of all zeros."""
    if not has_values(p):
        return jnp.log(p) - jnp.log1p(-p), jnp.sum(jnp.log1p(-p))
    # By NumPy: JAX keeps a compiled program in memory for each operation outside a program.
    q = np.asarray(p, np.float64)
    with np.errstate(all="ignore"):  # p of 0 or 1 raises an error later
        log_zero = np.log1p(-q)
        found = (np.log(q) - log_zero, np.sum(log_zero))
    return jax.device_put(tuple(np.asarray(a, p.dtype) for a in found))
