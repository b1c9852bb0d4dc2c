"""What a kernel is: two pure functions that move one chain.

```
state = kernel.init(target, x)
state, info = kernel.step(key, target, state, scale)
```

A kernel is a frozen module of settings, so both can stand inside a program's own `jit`, `scan` and
`vmap`. What evolves is the state; what an observer may want of a step is in `info`.
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
    """A state and what the target says of it, so that a step evaluates the target only once."""

    x: State
    evaluation: Evaluation

    @property
    def log_prob(self) -> Float[Array, ""]:
        return self.evaluation.log_prob

    @property
    def log_ratios(self):
        return self.evaluation.log_ratios

    def after(self, target: Target, move: Move) -> "ChainState":
        """Where a move leads."""
        evaluation = target.update(self.x, self.evaluation, move)
        return ChainState(x=apply(self.x, move), evaluation=evaluation)


class Info(NamedTuple):
    """What an observer may want of a step.

    Attributes:
        accept_prob: the probability with which the proposal was accepted; 1 for Gibbs sampling.
        accepted: whether it was.
        distance: how many sites changed their value.
        invalid: whether the proposal could not be judged: a log-density of NaN or +inf at y, or
            log-ratios of NaN. It was rejected.
        proposal: the state y that was proposed, accepted or not.
        jump: how far the step goes on average over acceptance: accept_prob times the number of
            sites that the proposal would change. None from kernels that do not say.
        log_ratio: the logarithm of the acceptance ratio, of which accept_prob is the exponential
            where it is below 0; -inf for a proposal that is rejected whatever the chance. None
            from kernels that do not say.
    """

    accept_prob: Float[Array, ""]
    accepted: Bool[Array, ""]
    distance: Int[Array, ""]
    invalid: Bool[Array, ""]
    proposal: State
    jump: Float[Array, ""] | None = None
    log_ratio: Float[Array, ""] | None = None


class ScaleRange(NamedTuple):
    """What a kernel's scale means, and all that a tuner needs to know of it.

    Attributes:
        unit: in words: "sites" for a number of sites.
        low, high: between which a scale must lie.
        tuned_high: beyond which no tuner should go.
        start: where tuning begins.
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

    A new kernel subclasses this and implements `init` and `step`. A kernel with a scale says what
    it means in `scale_range`. One whose random numbers can be drawn for many steps at once, which
    is cheaper, implements `noise` and `advance` and has `step` call both.

    Attributes:
        name: as the command line knows it.
        informed: whether it looks at log-ratios.
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
        return ChainState(x=x, evaluation=target.evaluate(x, ratios=self.informed))

    def scale_range(self, target: Target) -> ScaleRange | None:
        """What the scale means on this target; None for a kernel that has none."""
        return None

    def check(self, target: Target) -> None:
        """Raise if the kernel cannot move chains of this target."""

    def updates(self, target: Target) -> bool:
        """Whether steps add to the log-probability, whose rounding a loop must clear at times."""
        return target.updates(self.informed)

    def starts(self, key: Key[Array, ""], target: Target, chains: int) -> State | None:
        """Random states for chains to start from; None for each value equally likely."""
        return None

    def check_starts(self, target: Target, x: np.ndarray) -> None:
        """Raise if chains of this kernel cannot start at these states, one a chain."""

    @property
    def replicas(self) -> int:
        """How many states each chain has; one, unless the kernel is `Tempering`."""
        return 1

    def tuner_for(self, target: Target, tuner: Any) -> Any:
        """What tunes the kernel, given what tunes its scale."""
        return tuner

    def scale_of(self, tuner: Any) -> tuple[Any, Any]:
        """What `step` takes as its scale, of a tuner's state; and its axis of chains, if any."""
        return tuner.scale, 0 if tuner.scale.ndim else None

    def refreshed(self, target: Target, state: ChainState) -> ChainState:
        """The same chain, evaluated from scratch."""
        return self.init(target, state.x)

    def noise(self, key: Key[Array, ""], target: Target) -> Any:
        """The random numbers of a step, drawn ahead: the key itself, unless a kernel has others."""
        return key

    def advance(
        self,
        noise: Any,
        target: Target,
        state: ChainState,
        scale: Float[Array, ""],
        active: bool | Bool[Array, ""] = True,
    ) -> tuple[ChainState, Info]:
        """`step`, given its noise. A chain that is not `active` stays, whatever `info` says."""
        after, info = self.step(noise, target, state, scale)
        return where(active, after, state), info

    def transitions(
        self, target: Target, x: State, scale: Float[Array, ""]
    ) -> tuple[Int[Array, "m *shape"], Float[Array, " m"]]:
        """Every state that one step can lead to from x, repeats allowed, and its probability.

        What is missing to a total of 1 stays at x. For tests of exactness on tiny targets.
        """
        raise TypeError(
            f"{type(self).__name__} does not enumerate its transitions; use check.invariance, "
            "which only takes steps."
        )


def where(condition, new, old):
    """`new` if the condition holds, else `old`: two trees of arrays."""
    if condition is True:
        return new
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), new, old)
