"""Gibbs with gradients, several sites at a time."""

from typing import ClassVar

import equinox as eqx

from hopscale import select, validate
from hopscale.kernels.balanced import Balanced
from hopscale.kernels.kernel import ChainState
from hopscale.kernels.weights import site_weights
from hopscale.move import Choice, Move
from hopscale.target import Target

REPEATS = ("once", "parity")


class GWG(Balanced):
    r"""Draw R sites with replacement by locally balanced weights, and flip them.

    $$q(u \mid x) = \prod_{r=1}^{R} \frac{w_{u_r}(x)}{\sum_i w_i(x)}$$

    A site can be drawn k > 1 times; `repeats` says what happens then. Both settings are valid.

    Args:
        balance: the balancing function g, as for `LBP`.
        repeats: "once" flips each site that was drawn at all, as in the paper's tables. "parity"
            flips it k times, so that an even k leaves it unchanged; a step then goes about 50%
            further.
    """

    repeats: str = eqx.field(static=True, default="once")

    name: ClassVar[str] = "gwg"
    replacement: ClassVar[bool] = True

    def __check_init__(self):
        validate.choice("repeats", self.repeats, REPEATS)

    def moved(self, choice: Choice):
        if self.repeats == "once":
            return choice.chosen
        return select.odd(choice, implementation=self.implementation)

    def choose(self, key, target: Target, state: ChainState, length):
        weights = site_weights(self.balance, target, state, self.implementation)
        choice, log_prob = select.repeated(
            key, weights.sites, length, implementation=self.implementation
        )
        values = weights.draw_values(key, choice)
        move = Move(choice=choice, moved=self.moved(choice), values=values)
        return move, log_prob + weights.values_log_prob(move)

    def order(self, way_back: bool) -> str:
        return "repeated"
