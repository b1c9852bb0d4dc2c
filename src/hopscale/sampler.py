"""What a sampler is: a way to choose a move, and the probability of choosing it.

One Metropolis-Hastings step draws an auxiliary choice u of sites at x, moves them to reach y,
and weighs the move by the probability of drawing its way back at y. The map (x, u) -> (y, u)
is its own inverse, so detailed balance holds whatever the weights.
"""

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import balance as balancing
from hopscale.balance import Balance
from hopscale.select import Choice, Weights
from hopscale.target import Ratios, State, Target


class ChainState(NamedTuple):
    """A state and what the target says of it, so that a step evaluates the target only at y."""

    x: State
    log_prob: Float[Array, ""]
    log_ratios: Ratios | None


class Move(NamedTuple):
    """The sites drawn, those of them that change, and (for more than two values) to what."""

    choice: Choice
    moved: Bool[Array, " n"]
    values: Int[Array, " n"] | None


class Proposal(NamedTuple):
    state: ChainState
    log_forward: Float[Array, ""]
    log_backward: Float[Array, ""]
    distance: Int[Array, ""]


class Sampler(eqx.Module):
    """A proposal. Subclasses are frozen settings; what evolves is the `ChainState`.

    Attributes:
        name: as the command line knows it.
        rate: the acceptance rate at which it is most efficient.
        informed: whether it looks at log-ratios.
        replacement: whether a site can be drawn twice.
    """

    name: ClassVar[str]
    rate: ClassVar[float]
    informed: ClassVar[bool]
    replacement: ClassVar[bool]

    @abc.abstractmethod
    def choose(
        self, key: Key[Array, ""], target: Target, state: ChainState, length: Int[Array, ""]
    ) -> tuple[Move, Float[Array, ""]]:
        """Draw a move at `state`, and its log-probability."""

    @abc.abstractmethod
    def score(
        self, target: Target, state: ChainState, move: Move, way_back: bool
    ) -> Float[Array, ""]:
        """Log-probability of drawing this move at `state`, as a way forth or a way back."""

    def moved(self, choice: Choice) -> Bool[Array, " n"]:
        """Which sites a choice changes: all of them, unless a subclass reads repeats otherwise."""
        return choice.chosen

    def distance(self, move: Move) -> Int[Array, ""]:
        """How many sites a move changes. Without replacement that needs no counting."""
        if self.replacement:
            return jnp.sum(move.moved, dtype=jnp.int32)
        return move.choice.length

    def init(self, target: Target, x: State) -> ChainState:
        """Evaluate the target at x."""
        if not self.informed:
            return ChainState(x=x, log_prob=target.log_prob(x), log_ratios=None)
        log_prob, log_ratios = target.evaluate(x)
        return ChainState(x=x, log_prob=log_prob, log_ratios=log_ratios)

    def propose(
        self, key: Key[Array, ""], target: Target, state: ChainState, length: Int[Array, ""]
    ) -> Proposal:
        """Draw a move of `length` sites and follow it."""
        move, log_forward = self.choose(key, target, state, length)
        return self.follow(target, state, move, log_forward)

    def follow(
        self, target: Target, state: ChainState, move: Move, log_forward: Float[Array, ""]
    ) -> Proposal:
        """Where a move leads, and the probability of its way back."""
        there = self.init(target, apply(state.x, move))
        return Proposal(
            state=there,
            log_forward=log_forward,
            log_backward=self.score(target, there, back(state.x, move), way_back=True),
            distance=self.distance(move),
        )


def apply(x: State, move: Move) -> State:
    """The state a move leads to."""
    moved = move.moved.reshape(x.shape)
    if move.values is None:
        return x ^ moved.astype(x.dtype)
    return jnp.where(moved, move.values.reshape(x.shape).astype(x.dtype), x)


def back(x: State, move: Move) -> Move:
    """The move that returns to x."""
    values = None if move.values is None else x.reshape(-1).astype(jnp.int32)
    return Move(choice=move.choice, moved=move.moved, values=values)


# -- Sites with more than two values: which site first, then which value. ------------------------


class SiteWeights(NamedTuple):
    """The weight of each site, and of each (site, value) where there are more than two values.

    A site's weight is the sum of g(ratio) over the values it could take instead.
    """

    sites: Weights
    by_value: Float[Array, "n s"] | None

    def draw_values(self, key: Key[Array, ""]) -> Int[Array, " n"] | None:
        """A new value for every site, by weight."""
        if self.by_value is None:
            return None
        key = jax.random.fold_in(key, 1)  # the key itself chose the sites
        return jax.random.categorical(key, self.by_value, axis=1).astype(jnp.int32)

    def values_log_prob(self, move: Move) -> Float[Array, ""] | float:
        """Log-probability of the values of the sites that move."""
        if self.by_value is None or move.values is None:
            return 0.0
        taken = jnp.take_along_axis(self.by_value, move.values[:, None], axis=1)[:, 0]
        steps = jnp.where(taken == -jnp.inf, -jnp.inf, taken - self.sites.values)
        return jnp.sum(jnp.where(move.moved, steps, 0.0))


def site_weights(balance: Balance, target: Target, state: ChainState) -> SiteWeights:
    """Weights by balancing the log-ratios at a state."""
    assert state.log_ratios is not None
    if target.num_states == 2:
        return SiteWeights(Weights(state.log_ratios.reshape(-1), balance), by_value=None)
    ratios = state.log_ratios.reshape(-1, target.num_states)
    here = jax.nn.one_hot(state.x.reshape(-1), target.num_states, dtype=bool)
    by_value = jnp.where(here, -jnp.inf, balancing.apply(balance, ratios))
    return SiteWeights(Weights(jax.nn.logsumexp(by_value, axis=1), balance=None), by_value)
