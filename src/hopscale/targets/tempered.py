"""A distribution between two others."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale.move import Move
from hopscale.target import Evaluation, State, Target, as_parameter, has_values
from hopscale.targets.derived import Derived, check_one_beta
from hopscale.targets.sweep import Rule, SpinSweep
from hopscale.validate import kind_of


class Tempered(Derived):
    r"""The geometric mixture of a base and a target.

    $$\log \pi_\beta(x) = (1 - \beta) \log \pi_0(x) + \beta \log \pi(x)$$

    At $\beta = 0$ it is the base, at $\beta = 1$ the target. $\beta$ is an array, which is an
    argument of compiled programs and not a constant in them: parallel tempering is a `jax.vmap`
    over it. The evaluations of base and target are kept, so another $\beta$ costs no evaluation
    (`at`, `combine`).

    Args:
        base: a target of the same shape, such as `Bernoulli`.
        target: the target at the other end of the path.
        beta: a number between 0 and 1.

    Examples:
        >>> base, target = hs.Bernoulli([0.5, 0.5]), hs.Bernoulli([0.9, 0.9])
        >>> print(hs.Tempered(base, target, beta=0.5).log_ratios([0, 1]).round(2))
        [ 1.1 -1.1]
    """

    base: Target
    target: Target
    beta: Float[Array, ""]

    def __init__(self, base: Target, target: Target, beta: Any):
        for name, value in (("base", base), ("target", target)):
            if not isinstance(value, Target):
                raise TypeError(f"{name} must be a hopscale target; got {kind_of(value)}.")
        self.base, self.target = base, target
        self.beta = as_parameter("beta", beta).astype(target.dtype)

    def __check_init__(self):
        ours = (self.base.shape, self.base.num_states, self.base.dtype)
        theirs = (self.target.shape, self.target.num_states, self.target.dtype)
        if ours != theirs:
            raise ValueError(
                "base and target must agree in shape, number of values and precision; got "
                f"{ours} and {theirs}."
            )
        numbers = [part.num_states_by_site for part in self.parts]
        if all(map(has_values, numbers)):
            ours, theirs = (np.broadcast_to(np.asarray(each), self.shape) for each in numbers)
            if np.any(ours != theirs):
                site = int(np.argmax(ours != theirs))
                raise ValueError(
                    "base and target must agree in how many values each site can take; site "
                    f"{site} has {ours.flat[site]} and {theirs.flat[site]}."
                )
        if has_values(self.beta):
            low, high = np.min(np.asarray(self.beta)), np.max(np.asarray(self.beta))
            if not 0 <= low <= high <= 1:
                raise ValueError(f"beta must lie in [0, 1]; got {low:g} to {high:g}.")

    @property
    def shape(self):
        return self.target.shape

    @property
    def parts(self):
        return (self.base, self.target)

    def check(self) -> None:
        check_one_beta(self.beta)
        for part in self.parts:
            part.check()

    def at(self, beta: Float[Array, ""]) -> "Tempered":
        """The distribution at another beta."""
        return Tempered(self.base, self.target, beta)

    def combine(self, base: Evaluation, target: Evaluation) -> Evaluation:
        """The evaluation at this beta, given those of base and target."""
        log_ratios = None
        if base.log_ratios is not None and target.log_ratios is not None:
            log_ratios = self._mix(base.log_ratios, target.log_ratios)
        return Evaluation(
            log_prob=self._mix(base.log_prob, target.log_prob),
            log_ratios=log_ratios,
            cache=(base, target),
        )

    def _mix(self, base, target):
        beta = jnp.broadcast_to(self.beta, base.shape)
        mixed = (1.0 - beta) * base + beta * target
        # At the ends the other distribution does not count, even where it is infinite.
        return jnp.where(beta == 0, base, jnp.where(beta == 1, target, mixed))

    def sweep(self):
        base, inner = self.base.sweep(), self.target.sweep()
        # Not of a subclass: one that is tempered itself has more to it than a graph and a field.
        if type(base) is not SpinSweep or type(inner) is not SpinSweep:
            return None
        return None if base.graph.neighbour.size else TemperedSweep(self, base, inner)

    def _log_prob(self, x: State):
        return self._mix(self.base._log_prob(x), self.target._log_prob(x))

    def _evaluate(self, x: State):
        return self.combine(self.base.evaluate(x), self.target.evaluate(x))

    def _evaluate_log_prob(self, x: State):
        return self.combine(
            self.base.evaluate(x, ratios=False), self.target.evaluate(x, ratios=False)
        )

    def _update(self, x: State, evaluation: Evaluation, move: Move):
        base, target = evaluation.cache
        return self.combine(self.base.update(x, base, move), self.target.update(x, target, move))


class TemperedSweep(SpinSweep):
    """Sweeps between independent bits and a pairwise model; both evaluations are carried along."""

    def __init__(self, tempered: Tempered, base: SpinSweep, inner: SpinSweep):
        beta = tempered.beta
        super().__init__(tempered, inner.graph, inner.field, beta, 1.0 - beta, base.field)

    def begin(self, x: State) -> Evaluation:
        assert isinstance(self.target, Tempered)
        return self._ends(x, self.target.target._log_prob(x))

    def draw(self, key, x: State, evaluation: Evaluation, rule: Rule):
        y, gain = self.moved(key, x, self.blocks, rule)
        return y, self._ends(y, evaluation.cache[1].log_prob + gain)

    def _ends(self, x: State, log_prob: Float[Array, ""]) -> Evaluation:
        assert isinstance(self.target, Tempered)
        base = Evaluation(log_prob=self.target.base._log_prob(x), log_ratios=None)
        return self.target.combine(base, Evaluation(log_prob=log_prob, log_ratios=None))
