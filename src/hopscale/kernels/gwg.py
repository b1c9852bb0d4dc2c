"""Gibbs with gradients, several sites at a time."""

from typing import ClassVar

import equinox as eqx

from hopscale import balance as balancing
from hopscale import select, validate
from hopscale.kernels.kernel import ChainState
from hopscale.kernels.metropolis import Metropolis
from hopscale.kernels.weights import settle, site_weights
from hopscale.move import Choice, Move
from hopscale.target import Target

REPEATS = ("once", "parity")


class GWG(Metropolis):
    r"""Draw R sites with replacement by locally balanced weights, and flip them.

    $$q(u \mid x) = \prod_{r=1}^{R} \frac{w_{u_r}(x)}{\sum_i w_i(x)}$$

    A site can be drawn k > 1 times. Both readings are valid.

    Args:
        balance: g, as for `LBP`.
        repeats: "once" flips a site that was drawn at all (the paper's tables); "parity" flips it
            k times, so that an even number of draws leaves it (about 50% further a step).
    """

    balance: str | balancing.LogBalance = eqx.field(
        static=True, default="barker", converter=balancing.by_name
    )
    repeats: str = eqx.field(static=True, default="once")

    name: ClassVar[str] = "gwg"
    rate: ClassVar[float] = 0.574
    informed: ClassVar[bool] = True
    replacement: ClassVar[bool] = True

    def __check_init__(self):
        balancing.resolve(self.balance)
        validate.choice("repeats", self.repeats, REPEATS)

    def moved(self, choice: Choice):
        """The sites that change."""
        return (
            choice.chosen
            if self.repeats == "once"
            else select.odd(choice, implementation=self.implementation)
        )

    def choose(self, key, target: Target, state: ChainState, length):
        weights = site_weights(self.balance, target, state, self.implementation)
        choice, log_prob = select.repeated(
            key, weights.sites, length, implementation=self.implementation
        )
        values = weights.draw_values(key, choice)
        move = Move(choice=choice, moved=self.moved(choice), values=values)
        return move, log_prob + weights.values_log_prob(move)

    def score(self, target: Target, state: ChainState, move: Move, way_back: bool):
        weights = site_weights(self.balance, target, state, self.implementation)
        log_prob = select.repeated_log_prob(
            weights.sites, move.choice, implementation=self.implementation
        )
        return log_prob + weights.values_log_prob(move)

    def settle(self, uniform, target: Target, state, there, move: Move, log_forward):
        if type(self).score is not GWG.score:  # a subclass scores otherwise
            return super().settle(uniform, target, state, there, move, log_forward)
        weights = site_weights(self.balance, target, there, self.implementation)
        step = uniform, state, there, move, log_forward
        return settle(weights, "repeated", *step, self.implementation)
