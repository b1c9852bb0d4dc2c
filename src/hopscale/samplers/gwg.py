"""Gibbs with gradients, several sites at a time."""

from typing import ClassVar

import equinox as eqx
import jax

from hopscale import balance as balancing
from hopscale import select
from hopscale.sampler import ChainState, Move, Sampler, draw_values, site_weights, values_log_prob
from hopscale.target import Target

REPEATS = ("once", "parity")


class GWG(Sampler):
    r"""Draw R sites with replacement by locally balanced weights, and flip them.

    $$q(u \mid x) = \prod_{r=1}^{R} \frac{w_{u_r}(x)}{\sum_i w_i(x)}$$

    A site can be drawn k > 1 times. Both readings are valid.

    Args:
        balance: g, as for `LBP`.
        repeats: "once" flips a site that was drawn at all (the paper's tables); "parity" flips it
            k times, so that an even number of draws leaves it (about 50% further a step).
    """

    balance: str | balancing.LogBalance = eqx.field(static=True, default="barker")
    repeats: str = eqx.field(static=True, default="once")

    name: ClassVar[str] = "gwg"
    rate: ClassVar[float] = 0.574
    informed: ClassVar[bool] = True
    replacement: ClassVar[bool] = True

    def __check_init__(self):
        balancing.resolve(self.balance)
        if self.repeats not in REPEATS:
            raise ValueError(f"repeats must be 'once' or 'parity'; got {self.repeats!r}.")

    def _weights(self, target: Target, state: ChainState):
        return site_weights(balancing.resolve(self.balance), target, state)

    def moved(self, choice: select.Choice):
        """The sites that change."""
        return choice.chosen if self.repeats == "once" else select.odd(choice)

    def choose(self, key, target: Target, state: ChainState, length):
        key_sites, key_values = jax.random.split(key)
        log_weights, by_value = self._weights(target, state)
        choice, log_prob = select.repeated(key_sites, log_weights, length)
        move = Move(
            choice=choice,
            moved=self.moved(choice),
            values=draw_values(key_values, by_value),
        )
        return move, log_prob + values_log_prob(log_weights, by_value, move)

    def score(self, target: Target, state: ChainState, move: Move, way_back: bool):
        log_weights, by_value = self._weights(target, state)
        log_prob = select.repeated_log_prob(log_weights, move.choice)
        return log_prob + values_log_prob(log_weights, by_value, move)
