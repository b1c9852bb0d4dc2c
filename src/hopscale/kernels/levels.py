"""The data of parallel tempering: the states of all levels, and the ladder of levels."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hopscale.kernels.kernel import Info
from hopscale.move import State
from hopscale.target import Evaluation

# The end of the ladder that a state visited last.
NEITHER, FROM_REFERENCE, FROM_TARGET = 0, 1, 2


class Ladder(NamedTuple):
    r"""The ladder of levels, which a step of `Tempering` takes as its scale.

    Attributes:
        betas: from 0, the reference, to 1, the target.
        scales: the kernel's scale at each level except the reference.
        log_probs: log-probabilities of the reference, by site and value.
        log_z: a guess of $\log Z_{l+1} / Z_l$ for neighbours, which the estimate of it needs.
    """

    betas: Float[Array, " levels"]
    scales: Float[Array, " levels-1"]
    log_probs: Float[Array, "*shape values"]
    log_z: Float[Array, " levels-1"]


class Levels(NamedTuple):
    """The states of all levels, their evaluations, and the end that each visited last."""

    x: Int[Array, "levels *shape"]
    evaluation: Evaluation
    seen: Int[Array, " levels"]


class TemperedState(NamedTuple):
    """A tempered chain: the state of the coldest level, as in `ChainState`, and all levels.

    Attributes:
        even: whether even pairs are the next to swap.
    """

    x: State
    evaluation: Evaluation
    levels: Levels
    even: Bool[Array, ""]

    @property
    def log_prob(self) -> Float[Array, ""]:
        return self.evaluation.log_prob

    @property
    def log_ratios(self):
        return self.evaluation.log_ratios


class TemperedInfo(NamedTuple):
    r"""A step of all levels. The first five fields are those of `Info`, for the coldest level.

    Attributes:
        distance: the number of sites that the coldest level changed, its swap included.
        invalid: the number of invalid proposals at all levels; `proposal` is the first, if any.
        levels: the `Info` of each level except the reference.
        swap_prob: the probability of a swap, for each pair of neighbours.
        forward, backward: $\sigma(\Delta\beta\, V - c)$ at the lower level of each pair, and
            $\sigma(c - \Delta\beta\, V)$ at the upper one, where c is the ladder's log_z. The ratio
            of their means is $e^{-c} Z_{l+1} / Z_l$ (Bennett, 1976).
        work: $\Delta\beta\, V$, averaged over the two levels of each pair.
        round_trips: the number of states that returned to the reference from the target.
        x: the state of the coldest level.
        ladder: the ladder of the step, without the reference's log-probabilities.
    """

    accept_prob: Float[Array, ""]
    accepted: Bool[Array, ""]
    distance: Int[Array, ""]
    invalid: Int[Array, ""]
    proposal: State
    levels: Info
    swap_prob: Float[Array, " levels-1"]
    forward: Float[Array, " levels-1"]
    backward: Float[Array, " levels-1"]
    work: Float[Array, " levels-1"]
    round_trips: Int[Array, ""]
    x: State
    ladder: Ladder


def at_coldest(levels: Levels, even: Bool[Array, ""]) -> TemperedState:
    return TemperedState(
        x=levels.x[-1],
        evaluation=jax.tree.map(lambda a: a[-1], levels.evaluation),
        levels=levels,
        even=even,
    )


def swapped(levels: Array, accepted: Bool[Array, " levels-1"]) -> Array:
    """The values of all levels after these pairs, which share no level, have swapped theirs."""
    no, axes = jnp.zeros(1, bool), [1] * (levels.ndim - 1)
    from_above = jnp.concatenate([accepted, no]).reshape(-1, *axes)
    from_below = jnp.concatenate([no, accepted]).reshape(-1, *axes)
    down = jnp.where(from_below, jnp.roll(levels, 1, axis=0), levels)
    return jnp.where(from_above, jnp.roll(levels, -1, axis=0), down)


def after_swaps(
    levels: Levels, accepted: Bool[Array, " levels-1"]
) -> tuple[Levels, Int[Array, ""]]:
    """The levels after swaps, and the number of states that have completed a round trip."""
    levels = jax.tree.map(lambda a: swapped(a, accepted), levels)
    seen, level = levels.seen, jnp.arange(accepted.size + 1)
    trips = (seen[0] == FROM_TARGET).astype(jnp.int32)
    arrived = (level == accepted.size) & (seen == FROM_REFERENCE)
    seen = jnp.where(level == 0, FROM_REFERENCE, jnp.where(arrived, FROM_TARGET, seen))
    return levels._replace(seen=seen.astype(levels.seen.dtype)), trips
