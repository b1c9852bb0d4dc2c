"""The interface of a kernel: two pure functions that move one chain.

```
state = kernel.init(target, x)
state, info = kernel.step(key, target, state, scale)
```

A kernel is a frozen module of settings, so both functions can be used inside your own `jit`, `scan`
and `vmap`. Everything that changes from step to step is in the state; `info` describes the step.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale.move import Move, State, apply
from hopscale.target import Evaluation, Target


class ChainState(NamedTuple):
    """A state and the target's evaluation of it, so that a step evaluates the target only once.

    Attributes:
        x: the state.
        evaluation: what the target computed there.
    """

    x: State
    evaluation: Evaluation

    @property
    def log_prob(self) -> Float[Array, ""]:
        """The log-probability of the state, up to a constant."""
        return self.evaluation.log_prob

    @property
    def log_ratios(self):
        """What each single change would add to the log-probability."""
        return self.evaluation.log_ratios

    def after(self, target: Target, move: Move) -> "ChainState":
        """The chain's state after a move."""
        evaluation = target.update(self.x, self.evaluation, move)
        return ChainState(x=apply(self.x, move), evaluation=evaluation)


class Info(NamedTuple):
    """A description of one step.

    Attributes:
        accept_prob: the acceptance probability of the proposal; 1 for Gibbs sampling.
        accepted: whether the proposal was accepted.
        distance: the number of sites that changed their value.
        invalid: whether the proposal was rejected as invalid: a log-density of NaN or +inf at y, or
            log-ratios of NaN.
        proposal: the state y that was proposed, accepted or not.
        jump: the expected distance of the step, averaged over acceptance: accept_prob times the
            number of sites that the proposal would change. None if the kernel does not report it.
        log_ratio: the logarithm of the acceptance ratio; accept_prob is min(1, exp(log_ratio)).
            -inf for a proposal that is always rejected. None if the kernel does not report it.
    """

    accept_prob: Float[Array, ""]
    accepted: Bool[Array, ""]
    distance: Int[Array, ""]
    invalid: Bool[Array, ""]
    proposal: State
    jump: Float[Array, ""] | None = None
    log_ratio: Float[Array, ""] | None = None


class ScaleRange(NamedTuple):
    """The meaning of a kernel's scale, and all that a tuner needs to know about it.

    Attributes:
        unit: the unit in words: "sites" for a number of sites.
        low, high: the smallest and the largest valid scale.
        tuned_high: the largest scale that a tuner should use.
        start: the scale at which tuning begins.
        rate: the acceptance rate at which the kernel is most efficient.
    """

    unit: str
    low: float
    high: float
    tuned_high: float | Float[Array, ""]
    start: float
    rate: float


class Kernel(eqx.Module):
    """A way to move one chain that leaves the target invariant and can reach all of it.

    To define a kernel, subclass this class and implement `step`, and `init` if the default does not
    fit. A kernel with a scale describes it in `scale_range`. If random numbers can be drawn for
    many steps at once, which is cheaper, implement `noise` and `advance`, and let `step` call both.

    Attributes:
        name: the kernel's name on the command line.
        informed: whether it uses log-ratios.
    """

    name: ClassVar[str]
    informed: ClassVar[bool]

    @abc.abstractmethod
    def step(
        self, key: Key[Array, ""], target: Target, state: ChainState, scale: Float[Array, ""]
    ) -> tuple[ChainState, Info]:
        """One step of one chain."""

    def init(self, target: Target, x: State) -> ChainState:
        """The state of a chain at x."""
        x = target.as_state(x)
        return ChainState(x=x, evaluation=target.evaluate(x, ratios=self.informed))

    def scale_range(self, target: Target) -> ScaleRange | None:
        """The meaning and range of the scale on this target; None for a kernel without a scale."""
        return None

    def check(self, target: Target) -> None:
        """Raise if the kernel cannot move chains of this target."""

    def updates(self, target: Target) -> bool:
        """Whether steps add to the log-probability, so that a loop must refresh it at times."""
        return target.updates(self.informed)

    def evaluations(self, target: Target) -> int:
        """How often a step evaluates the target, or updates an evaluation."""
        return 1

    def starts(self, key: Key[Array, ""], target: Target, chains: int) -> State | None:
        """Random states for chains to start from; None if each value is to be equally likely."""
        return None

    def check_starts(self, target: Target, x: np.ndarray) -> None:
        """Raise if chains of this kernel cannot start at these states, one per chain."""

    @property
    def replicas(self) -> int:
        """The number of states that each chain has: one, unless the kernel is `Tempering`."""
        return 1

    def tuner_for(self, target: Target, tuner: Any) -> Any:
        """The tuner of the kernel, given the tuner of its scale."""
        return tuner

    def scale_of(self, tuner: Any) -> tuple[Any, Any]:
        """What `step` takes as its scale, from a tuner's state; and its axis of chains, if any."""
        return tuner.scale, 0 if tuner.scale.ndim else None

    def refreshed(self, target: Target, state: ChainState) -> ChainState:
        """The same chain, evaluated from scratch."""
        return self.init(target, state.x)

    def noise(self, key: Key[Array, ""], target: Target) -> Any:
        """The random numbers of a step, drawn in advance; by default the key itself."""
        return key

    def advance(
        self,
        noise: Any,
        target: Target,
        state: ChainState,
        scale: Float[Array, ""],
        active: bool | Bool[Array, ""] = True,
    ) -> tuple[ChainState, Info]:
        """`step`, given its noise. A chain that is not `active` keeps its state, despite `info`."""
        after, info = self.step(noise, target, state, scale)
        return where(active, after, state), info

    def transitions(
        self, target: Target, x: State, scale: Float[Array, ""]
    ) -> tuple[Int[Array, "m *shape"], Float[Array, " m"]]:
        """Every state that one step can lead to from x, repeats allowed, and its probability.

        With the probability that is missing from a total of 1, the chain stays at x. For tests of
        exactness on tiny targets.
        """
        raise TypeError(
            f"{type(self).__name__} does not enumerate its transitions; use check.invariance, "
            "which only takes steps."
        )


def where(condition, new, old):
    """`new` if the condition holds, else `old`; both are trees of arrays."""
    if condition is True:
        return new
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), new, old)
