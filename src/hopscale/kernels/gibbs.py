"""Gibbs sampling of whole blocks."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale.kernels.kernel import ChainState, Info, Kernel
from hopscale.target import State, Target
from hopscale.targets.rbm import RBM
from hopscale.validate import count


class BlockGibbs(Kernel):
    r"""Block Gibbs sampling of a restricted Boltzmann machine.

    A step draws all hidden units given the visible ones, then all visible units given these:

    $$z_j \sim \sigma(W_j x + c_j), \qquad x_i \sim \sigma(W_{\cdot i}^\top z + b_i).$$

    Every proposal is accepted, every state can be reached in one step, and there is no scale.

    Args:
        pairs: how many such pairs of draws make a step.
    """

    pairs: int = eqx.field(static=True, default=1)

    name: ClassVar[str] = "gibbs"
    informed: ClassVar[bool] = False

    def __check_init__(self):
        count("pairs", self.pairs, least=1)

    def check(self, target: Target) -> None:
        if not isinstance(target, RBM):
            raise TypeError(
                "BlockGibbs needs a target whose blocks it can draw, an hs.RBM; got "
                f"{type(target).__name__}. Use hs.LBP() there."
            )

    def step(self, key, target: Target, state: ChainState, scale):
        self.check(target)
        assert isinstance(target, RBM)
        y = target.gibbs(key, state.x, self.pairs)
        info = Info(
            accept_prob=jnp.ones((), target.dtype),
            accepted=jnp.asarray(True),
            distance=jnp.sum(y != state.x, dtype=jnp.int32),
            invalid=jnp.asarray(False),
            proposal=y,
        )
        return self.init(target, y), info

    def transitions(self, target: Target, x: State, scale):
        """All y, with probability the sum over z of P(z | x) P(y | z)."""
        self.check(target)
        assert isinstance(target, RBM)
        every_y, every_z = (jnp.asarray(_bits(n)) for n in (target.num_sites, target.num_hidden))
        to_hidden = _probability(every_z, target.hidden_prob(x.reshape(target.shape)))
        back = target.visible_prob(every_z).reshape(len(every_z), -1)
        to_visible = jax.vmap(lambda p: _probability(every_y, p))(back)
        found = to_hidden @ to_visible
        if self.pairs > 1:
            states = every_y.reshape(-1, *target.shape)
            hidden = jax.vmap(lambda p: _probability(every_z, p))(target.hidden_prob(states))
            once = hidden @ to_visible
            for _ in range(self.pairs - 1):
                found = found @ once
        return every_y.reshape(-1, *target.shape), found


def _bits(n: int) -> np.ndarray:
    """All states of n bits."""
    return np.indices((2,) * n).reshape(n, -1).T.astype(np.int8)


def _probability(bits, p):
    """The probability of each row of bits, independent with probabilities p."""
    return jnp.prod(jnp.where(bits == 1, p[None, :], 1.0 - p[None, :]), axis=1)
