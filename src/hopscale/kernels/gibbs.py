"""Gibbs sampling: sweeps over all sites, and blocks for targets that have them."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale.kernels.kernel import ChainState, Info, Kernel
from hopscale.native import IMPLEMENTATIONS
from hopscale.target import State, Target
from hopscale.targets.clamp import as_rbm
from hopscale.targets.rbm import RBM
from hopscale.targets.sweep import EvaluatedSweep, Rule, Sweep
from hopscale.validate import choice, count

ORDERS = ("auto", "coloured", "systematic")
RULES = ("gibbs", "metropolis")


class BlockGibbs(Kernel):
    r"""Block Gibbs sampling of a restricted Boltzmann machine.

    A step draws all hidden units given the visible ones, then all visible units given the hidden
    ones:

    $$z_j \sim \sigma(W_j x + c_j), \qquad x_i \sim \sigma(W_{\cdot i}^\top z + b_i).$$

    Every proposal is accepted, every state can be reached in one step, and there is no scale.

    Args:
        pairs: the number of such pairs of draws per step.
    """

    pairs: int = eqx.field(static=True, default=1)

    name: ClassVar[str] = "gibbs"
    informed: ClassVar[bool] = False

    def __check_init__(self):
        count("pairs", self.pairs, minimum=1)

    def check(self, target: Target) -> None:
        self._machine(target)

    def _machine(self, target: Target) -> RBM:
        found = as_rbm(target)
        if found is None:
            raise TypeError(
                "BlockGibbs needs a target whose blocks it can draw, an hs.RBM; got "
                f"{type(target).__name__}. Use hs.LBP() there."
            )
        return found

    def step(self, key, target: Target, state: ChainState, scale):
        rbm, cache = self._machine(target), state.evaluation.cache
        if target is rbm:
            y = rbm.gibbs_given(key, state.x, cache, self.pairs)
        else:
            y = rbm.gibbs(key, state.x, self.pairs)
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
        rbm = self._machine(target)
        every_y, every_z = (jnp.asarray(_bits(n)) for n in (rbm.num_sites, rbm.num_hidden))
        to_hidden = _probability(every_z, rbm.hidden_prob(x.reshape(rbm.shape)))
        back = rbm.visible_prob(every_z).reshape(len(every_z), -1)
        to_visible = jax.vmap(lambda p: _probability(every_y, p))(back)
        found = to_hidden @ to_visible
        if self.pairs > 1:
            states = every_y.reshape(-1, *target.shape)
            hidden = jax.vmap(lambda p: _probability(every_z, p))(rbm.hidden_prob(states))
            once = hidden @ to_visible
            for _ in range(self.pairs - 1):
                found = found @ once
        return every_y.reshape(-1, *target.shape), found


class Gibbs(Kernel):
    r"""Gibbs sampling by sweeps: every site in turn is drawn given all others.

    $$x_i \sim \pi(x_i \mid x_1, \dots, x_{i-1}, x_{i+1}, \dots, x_N)$$

    Sites that do not depend on each other are drawn at once: those of one colour of a `Pairwise`
    or `Potts` model, or of one half of the checkerboard of an `Ising` lattice. For an `RBM`, all
    hidden units are drawn, then all visible ones (`BlockGibbs`). Any other target is evaluated for
    every value of every site, one site after the other, which is exact but slow.

    Args:
        order: "coloured", "systematic" (site after site), or "auto": coloured if the target knows
            which sites do not depend on each other.
        rule: "gibbs", or "metropolis": another value is proposed at each site and accepted with
            probability 0.995 min(1, ratio). This moves more than Gibbs sampling does. Without the
            factor a sweep of a flat target would go from x to its complement and back.
        sweeps: the number of sweeps per step.
        implementation: "auto" for native kernels where they apply, "reference" for plain JAX.
    """

    order: str = eqx.field(static=True, default="auto")
    rule: str = eqx.field(static=True, default="gibbs")
    sweeps: int = eqx.field(static=True, default=1)
    implementation: str = eqx.field(static=True, default="auto", kw_only=True)

    name: ClassVar[str] = "gibbs"
    informed: ClassVar[bool] = False

    def __check_init__(self):
        for field, choices in (
            ("order", ORDERS),
            ("rule", RULES),
            ("implementation", IMPLEMENTATIONS),
        ):
            choice(field, getattr(self, field), choices)
        count("sweeps", self.sweeps, minimum=1)

    def check(self, target: Target) -> None:
        if self.order == "coloured" and target.sweep() is None:
            raise TypeError(
                f"order='coloured' needs a target that knows which sites do not depend on each "
                f"other, such as hs.Ising, hs.Pairwise or hs.Potts; got {type(target).__name__}. "
                "Use order='auto'."
            )
        if as_rbm(target) is not None and (self.order, self.rule) != ("auto", "gibbs"):
            raise TypeError(
                "the units of an hs.RBM are drawn in two blocks: use hs.Gibbs() as it is, or "
                "hs.BlockGibbs()."
            )

    def updates(self, target: Target) -> bool:
        return as_rbm(target) is None

    def evaluations(self, target: Target) -> int:
        if as_rbm(target) is not None or not isinstance(self._sweep(target), EvaluatedSweep):
            return 1
        return self.sweeps * target.num_sites * (target.num_states - 1)

    def init(self, target: Target, x: State) -> ChainState:
        if as_rbm(target) is not None:
            return BlockGibbs(self.sweeps).init(target, x)
        x = target.as_state(x)
        return ChainState(x=x, evaluation=self._sweep(target).begin(x))

    def step(self, key, target: Target, state: ChainState, scale):
        if as_rbm(target) is not None:
            return BlockGibbs(self.sweeps).step(key, target, state, scale)
        y, evaluation = self._sweep(target).draw(key, state.x, state.evaluation, self._rule)
        info = Info(
            accept_prob=jnp.ones((), target.dtype),
            accepted=jnp.asarray(True),
            distance=jnp.sum(y != state.x, dtype=jnp.int32),
            invalid=jnp.asarray(False),
            proposal=y,
        )
        return ChainState(x=y, evaluation=evaluation), info

    def transitions(self, target: Target, x: State, scale):
        """All y: block after block, each drawn at once given the state before it."""
        self.check(target)
        if as_rbm(target) is not None:
            return BlockGibbs(self.sweeps).transitions(target, x, scale)
        sweep, n = self._sweep(target), target.num_sites
        values = np.indices((target.num_states,) * n).reshape(n, -1).T
        every = jnp.asarray(values.reshape(-1, *target.shape), target.state_dtype)
        chances = jax.vmap(lambda state: sweep.chances(state, self._rule))(every)
        # [from, to, site]: the probability of the value that `to` has there, and of no change.
        to = chances[:, jnp.arange(n)[None, :], values]
        still = jnp.asarray(values[:, None, :] == values[None, :, :], chances.dtype)
        sites = tuple(range(1, every.ndim))
        each = jnp.broadcast_to(target.num_states_by_site, every.shape)
        possible = jnp.all(every < each, axis=sites)
        possible &= jnp.isfinite(jax.vmap(target.log_prob)(every))
        to = jnp.where(possible[:, None, None], to, still)  # the others never change
        found = jnp.all(every == x[None], axis=sites).astype(chances.dtype)
        for _ in range(self.sweeps):
            for block in sweep.blocks:
                drawn = jnp.zeros(n, bool).at[block].set(True, mode="drop")
                found = found @ jnp.prod(jnp.where(drawn, to, still), axis=2)
        return every, found

    @property
    def _rule(self) -> Rule:
        return Rule(
            metropolis=self.rule == "metropolis",
            sweeps=self.sweeps,
            implementation=self.implementation,
        )

    def _sweep(self, target: Target) -> Sweep:
        self.check(target)
        found = target.sweep()
        if found is None:
            return EvaluatedSweep(target)
        return found.in_order() if self.order == "systematic" else found


def _bits(n: int) -> np.ndarray:
    """All states of n bits."""
    return np.indices((2,) * n).reshape(n, -1).T.astype(np.int8)


def _probability(bits, p):
    """The probability of each row of bits, independent with probabilities p."""
    return jnp.prod(jnp.where(bits == 1, p[None, :], 1.0 - p[None, :]), axis=1)
