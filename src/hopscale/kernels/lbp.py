"""The locally balanced proposal."""

from typing import ClassVar

import equinox as eqx

from hopscale import validate
from hopscale.kernels.balanced import Balanced
from hopscale.kernels.kernel import ChainState
from hopscale.kernels.weights import site_weights
from hopscale.move import Choice, Move
from hopscale.target import Target

PATHS = ("reversed", "same")


class LBP(Balanced):
    r"""Flip R sites, drawn without replacement by locally balanced weights (Algorithm 1).

    At x, site i has weight $w_i(x) = g(\pi(x^{(i)}) / \pi(x))$, with $x^{(i)}$ the state that
    differs from x at i. Sites $u_1, \dots, u_R$ are drawn one after the other, with probability
    proportional to weight, and all are flipped. The move is accepted with probability (Eq. 5)

    $$1 \wedge \frac{\pi(y) \prod_r w_{u_r}(y) \,/\, (W(y,u) + \sum_{i \le r} w_{u_i}(y))}
                    {\pi(x) \prod_r w_{u_r}(x) \,/\, (W(x,u) + \sum_{i \ge r} w_{u_i}(x))}$$

    where W(x, u) is the weight of the sites not drawn. The kernel is most efficient at an
    acceptance rate of 0.574.

    Args:
        balance: the balancing function g: "barker", t / (t + 1); "sqrt"; "min"; "max"; or your own
            function log t -> log g(t) with g(t) = t g(1/t).
        path: the order in which the way back draws its sites. "reversed" is Eq. (5): the last site
            first. "same" draws them in the order of the move itself, as in the paper's tables; it
            is equally valid, but moves about 10% less far.
    """

    path: str = eqx.field(static=True, default="reversed")

    name: ClassVar[str] = "lbp"
    replacement: ClassVar[bool] = False

    def __check_init__(self):
        validate.choice("path", self.path, PATHS)

    def choose(self, key, target: Target, state: ChainState, length):
        weights = site_weights(self.balance, target, state, self.implementation)
        sites, chosen, values, log_prob = weights.race(key, length, self.implementation)
        choice = Choice(sites=sites, chosen=chosen, length=length)
        return Move(choice=choice, moved=chosen, values=values), log_prob

    def order(self, way_back: bool) -> str:
        return "backwards" if way_back and self.path == "reversed" else "forwards"
