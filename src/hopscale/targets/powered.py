"""A distribution to a power: flatter or sharper, for annealing."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hopscale.move import Move
from hopscale.target import Evaluation, State, Target, as_parameter
from hopscale.targets.derived import Derived, check_one_beta
from hopscale.targets.sweep import PairSweep, PottsSweep, Rule, SpinSweep, Sweep

LEAST_BETA = 1e-30


class Powered(Derived):
    r"""A target to the power of an inverse temperature, $\log \pi_\beta(x) = \beta \log \pi(x)$.

    At $\beta = 0$ all possible states are equally likely; a large $\beta$ leaves the most probable
    ones. The target's evaluation of a state is kept, so another $\beta$ costs no evaluation.

    Args:
        target: the distribution.
        beta: the inverse temperature, 0 or more.
    """

    target: Target
    beta: Float[Array, ""]

    def __init__(self, target: Target, beta):
        self.target = target
        self.beta = as_parameter("beta", beta).astype(target.dtype)

    @property
    def shape(self):
        return self.target.shape

    def check(self) -> None:
        check_one_beta(self.beta)
        for part in self.parts:
            part.check()

    def at(self, beta: Float[Array, ""]) -> "Powered":
        """The distribution at another beta."""
        return Powered(self.target, beta)

    def combine(self, found: Evaluation) -> Evaluation:
        """The evaluation at this beta, given that of the target."""
        ratios = found.log_ratios
        if ratios is not None:
            ratios = jnp.broadcast_to(self._beta, ratios.shape) * ratios
        return Evaluation(log_prob=self._beta * found.log_prob, log_ratios=ratios, cache=found)

    @property
    def _beta(self) -> Float[Array, ""]:
        """Beta, or a tiny value instead of 0, so that impossible states stay impossible."""
        return jnp.maximum(self.beta, LEAST_BETA)

    def sweep(self):
        inner = self.target.sweep()
        # Not of a subclass: a tempered one has a beta of its own.
        if isinstance(inner, PairSweep) and type(inner) in (SpinSweep, PottsSweep):
            return PoweredSweep(self, inner)
        return None

    def _log_prob(self, x: State):
        return self._beta * self.target._log_prob(x)

    def _evaluate(self, x: State):
        return self.combine(self.target.evaluate(x))

    def _evaluate_log_prob(self, x: State):
        return self.combine(self.target.evaluate(x, ratios=False))

    def _update(self, x: State, evaluation: Evaluation, move: Move):
        return self.combine(self.target.update(x, evaluation.cache, move))


class PoweredSweep(Sweep):
    """Sweeps at an inverse temperature; the target's own evaluation is carried along."""

    powered: Powered
    inner: PairSweep
    blocks: Array

    def __init__(self, powered: Powered, inner: PairSweep):
        self.powered, self.blocks = powered, inner.blocks
        self.inner = inner.at(powered._beta)

    @property
    def num_sites(self) -> int:
        return self.inner.num_sites

    def begin(self, x: State) -> Evaluation:
        return self.powered.combine(self.inner.begin(x))

    def draw(self, key: jax.Array, x: State, evaluation: Evaluation, rule: Rule):
        y, gain = self.inner.moved(key, x, self.blocks, rule)
        log_prob = evaluation.cache.log_prob + gain
        return y, self.powered.combine(Evaluation(log_prob=log_prob, log_ratios=None))

    def chances(self, x: State, rule: Rule):
        return self.inner.chances(x, rule)
