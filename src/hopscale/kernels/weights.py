"""Weights of sites from balanced log-ratios; with more than two values, weights of values too.

A site is chosen first, then its value. A site's weight is the sum of g(ratio) over the values it
could take instead. All sites need that sum; only sites that were chosen draw a value.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from hopscale import move as moves
from hopscale import native, select
from hopscale.balance import Balance
from hopscale.kernels.kernel import ChainState
from hopscale.kernels.metropolis import Settled
from hopscale.move import Choice, Move
from hopscale.select import Weights
from hopscale.target import Target


class ByValue(NamedTuple):
    """The log-ratio of each (site, value), the present value of each site, and g."""

    ratios: Float[Array, "n s"]
    here: Int[Array, " n"]
    balance: Balance
    implementation: str

    def call(self, name: str, *arrays, key=(), **settings):
        """Call an operation of `native` on these arrays."""
        return native.call(
            name,
            *key,
            self.ratios,
            self.here,
            *arrays,
            balance=self.balance,
            implementation=self.implementation,
            **settings,
        )


class SiteWeights(NamedTuple):
    """The weight of each site and, with more than two values, the data to draw values from."""

    sites: Weights
    by_value: ByValue | None

    @property
    def in_one_go(self) -> ByValue | None:
        """`by_value`, if native kernels may exist that choose sites and values together."""
        small = self.by_value is not None and self.by_value.here.dtype == jnp.int8
        return self.by_value if small else None

    def race(self, key: Key[Array, ""], length: Int[Array, ""], implementation: str):
        """Draw sites without replacement and a value for each; also return the log-probability."""

        def in_turn(*_):
            choice, log_prob = select.race(key, self.sites, length, implementation=implementation)
            values = self.draw_values(key, choice)
            move = Move(choice=choice, moved=choice.chosen, values=values)
            return *choice[:2], values, log_prob + self.values_log_prob(move)

        by_value = self.in_one_go
        if by_value is None:
            return in_turn()
        return by_value.call("race_values", length, key=(key,), plain=in_turn)

    def draw_values(self, key: Key[Array, ""], choice: Choice) -> Int[Array, " n"] | None:
        """A new value for every chosen site, by weight; any value for the others."""
        if self.by_value is None:
            return None
        return self.by_value.call("draw_values", choice.sites, choice.length, key=(key,))

    def values_log_prob(self, move: Move) -> Float[Array, ""] | float:
        """Log-probability of the values of the sites that move."""
        if self.by_value is None or move.values is None:
            return 0.0
        arrays = self.sites.values, move.values.astype(self.by_value.here.dtype), move.moved
        return self.by_value.call("values_log_prob", *arrays)


def settle(
    weights: SiteWeights,
    path: str,
    uniform: Float[Array, ""],
    state: ChainState,
    there: ChainState,
    move: Move,
    log_forward: Float[Array, ""],
    implementation: str,
) -> Settled:
    """Score the way back from a proposal by the weights there, and accept the proposal or stay.

    Args:
        path: the way back: "backwards", the last site first; "forwards"; or "repeated", with
            replacement.
    """
    # In both, the log-probability comes first.
    new, structure = jax.tree.flatten((there.evaluation, there.x))
    states = tuple(new), tuple(jax.tree.leaves((state.evaluation, state.x)))
    way_back, choice = moves.reverse(state.x, move), move.choice

    def in_turn(*_):
        rest = jnp.asarray(weights.values_log_prob(way_back), log_forward.dtype)
        return native.call(
            "settle",
            uniform,
            log_forward,
            rest,
            choice.length,
            weights.sites.values,
            choice.sites,
            choice.chosen,
            *states,
            balance=weights.sites.balance,
            path=path,
            implementation=implementation,
        )

    by_value = None if path == "repeated" else weights.in_one_go
    if by_value is None:
        found = in_turn()
    else:
        arrays = way_back.values, *choice, uniform, log_forward, *states
        found = by_value.call(
            "settle_values", *arrays, backwards=path == "backwards", plain=in_turn
        )
    log_ratio, accepted, invalid, leaves = found
    evaluation, x = jax.tree.unflatten(structure, leaves)
    return Settled(ChainState(x, evaluation), log_ratio, accepted, invalid)


def site_weights(
    balance: Balance, target: Target, state: ChainState, implementation: str = "auto"
) -> SiteWeights:
    """Site weights from the balanced log-ratios at a state."""
    assert state.log_ratios is not None
    if target.num_states == 2:
        return SiteWeights(Weights(state.log_ratios.reshape(-1), balance), by_value=None)
    ratios = state.log_ratios.reshape(-1, target.num_states)
    here = state.x.reshape(-1)
    by_value = ByValue(ratios, here, balance, implementation)
    return SiteWeights(Weights(by_value.call("value_totals"), balance=None), by_value)
