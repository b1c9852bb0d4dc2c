"""The locally balanced proposal."""

from typing import ClassVar

import equinox as eqx

from hopscale import balance as balancing
from hopscale import select, validate
from hopscale.kernels.kernel import ChainState
from hopscale.kernels.metropolis import Metropolis
from hopscale.kernels.weights import settle, site_weights
from hopscale.move import Choice, Move
from hopscale.target import Target

PATHS = ("reversed", "same")


class LBP(Metropolis):
    r"""Flip R sites, drawn without replacement by locally balanced weights (Algorithm 1).

    At x, site i has weight $w_i(x) = g(\pi(x^{(i)}) / \pi(x))$, with x^{(i)} the state that
    differs from x at i. Sites $u_1, \dots, u_R$ are drawn one after the other by weight, and all
    are flipped. The move is accepted with probability (Eq. 5)

    $$1 \wedge \frac{\pi(y) \prod_r w_{u_r}(y) \,/\, (W(y,u) + \sum_{i \le r} w_{u_i}(y))}
                    {\pi(x) \prod_r w_{u_r}(x) \,/\, (W(x,u) + \sum_{i \ge r} w_{u_i}(x))}$$

    where W(x, u) is the weight of the sites not drawn. It is most efficient at an acceptance
    rate of 0.574.

    Args:
        balance: g: "barker", t / (t + 1); "sqrt"; "min"; "max"; or your own function
            log t -> log g(t) with g(t) = t g(1/t).
        path: the order in which the way back draws its sites. "reversed" is Eq. (5): last site
            first. "same" draws them in the order of the way forth, as the paper's tables did;
            it is as valid, and moves about 10% less far.
    """

    balance: str | balancing.LogBalance = eqx.field(
        static=True, default="barker", converter=balancing.by_name
    )
    path: str = eqx.field(static=True, default="reversed")

    name: ClassVar[str] = "lbp"
    rate: ClassVar[float] = 0.574
    informed: ClassVar[bool] = True
    replacement: ClassVar[bool] = False

    def __check_init__(self):
        balancing.resolve(self.balance)
        validate.choice("path", self.path, PATHS)

    def choose(self, key, target: Target, state: ChainState, length):
        weights = site_weights(self.balance, target, state, self.implementation)
        sites, chosen, values, log_prob = weights.race(key, length, self.implementation)
        choice = Choice(sites=sites, chosen=chosen, length=length)
        return Move(choice=choice, moved=chosen, values=values), log_prob

    def score(self, target: Target, state: ChainState, move: Move, way_back: bool):
        weights = site_weights(self.balance, target, state, self.implementation)
        backwards = way_back and self.path == "reversed"
        log_prob = select.order_log_prob(
            weights.sites, move.choice, backwards, implementation=self.implementation
        )
        return log_prob + weights.values_log_prob(move)

    def settle(self, uniform, target: Target, state, there, move: Move, log_forward):
        if type(self).score is not LBP.score:  # a subclass scores otherwise
            return super().settle(uniform, target, state, there, move, log_forward)
        weights = site_weights(self.balance, target, there, self.implementation)
        path = "backwards" if self.path == "reversed" else "forwards"
        step = uniform, state, there, move, log_forward
        return settle(weights, path, *step, self.implementation)
