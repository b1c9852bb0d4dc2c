"""The shared part of locally balanced proposals: how moves are scored and accepted."""

import abc
from typing import ClassVar

import equinox as eqx

from hopscale import balance as balancing
from hopscale import select
from hopscale.kernels.kernel import ChainState
from hopscale.kernels.metropolis import Metropolis, Settled
from hopscale.kernels.weights import settle, site_weights
from hopscale.move import Move
from hopscale.target import Target


class Balanced(Metropolis):
    r"""Base class of proposals by weights $w_i(x) = g(\pi(x^{(i)}) / \pi(x))$.

    A subclass implements `choose` and `order`.

    Args:
        balance: the balancing function g: "barker", t / (t + 1); "sqrt"; "min"; "max"; or your own
            function log t -> log g(t) with g(t) = t g(1/t).
    """

    balance: str | balancing.LogBalance = eqx.field(
        static=True, default="barker", converter=balancing.by_name
    )

    rate: ClassVar[float] = 0.574
    informed: ClassVar[bool] = True

    def __check_init__(self):
        balancing.resolve(self.balance)

    @abc.abstractmethod
    def order(self, way_back: bool) -> str:
        """How the sites of a move are drawn: "forwards", "backwards" (last first) or "repeated".

        "repeated" is with replacement, where the order does not matter.
        """

    def score(self, target: Target, state: ChainState, move: Move, way_back: bool):
        weights = site_weights(self.balance, target, state, self.implementation)
        sites, order = weights.sites, self.order(way_back)
        if order == "repeated":
            log_prob = select.repeated_log_prob(
                sites, move.choice, implementation=self.implementation
            )
        else:
            backwards = order == "backwards"
            log_prob = select.order_log_prob(
                sites, move.choice, backwards, implementation=self.implementation
            )
        return log_prob + weights.values_log_prob(move)

    def settle(self, uniform, target: Target, state, there, move: Move, log_forward) -> Settled:
        if type(self).score is not Balanced.score:  # a subclass has its own
            return super().settle(uniform, target, state, there, move, log_forward)
        weights = site_weights(self.balance, target, there, self.implementation)
        step = uniform, state, there, move, log_forward
        return settle(weights, self.order(way_back=True), *step, self.implementation)
