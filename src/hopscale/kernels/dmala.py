"""The discrete Langevin proposal, with its Metropolis-Hastings correction."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import balance as balancing
from hopscale import move as moves
from hopscale import select
from hopscale.kernels.kernel import ChainState, Kernel, ScaleRange, where
from hopscale.kernels.metropolis import Settled
from hopscale.kernels.weights import SiteWeights, site_weights
from hopscale.move import Move, State
from hopscale.native.paths import log_acceptance
from hopscale.target import Target


class Noise(NamedTuple):
    """The random numbers of a step: keys for the proposal and for its acceptance."""

    propose: Key[Array, ""]
    accept: Key[Array, ""]


class Odds(NamedTuple):
    """The log-odds with which each site changes, and the weights of the values it can take."""

    sites: Float[Array, " n"]
    weights: SiteWeights

    def log_probs(self, moved: Bool[Array, " n"]) -> Float[Array, " n"]:
        """The log-probability that each site does what it did: change, or stay as it was."""
        return jnp.where(moved, self.sites, 0.0) - balancing.softplus(self.sites)


class DMALA(Kernel):
    r"""Let every site change by itself, with odds in proportion to its locally balanced weight.

    Site i has the weights $w_{ic}(x) = g(\pi(x^{(i \to c)}) / \pi(x))$ for its other values c. All
    sites draw their values independently:

    $$q_i(c \mid x) = \frac{h\,w_{ic}(x)}{1 + h \sum_{c'} w_{ic'}(x)}, \qquad
      h = \frac{R}{\sum_{i,c} w_{ic}(x)},$$

    and a site keeps its value otherwise. So R is the mean number of sites that change, as long as
    each is unlikely to change. With R = N and values that are all equally likely, each changes with
    probability 1/2. The move is accepted with probability

    $$1 \wedge \frac{\pi(y)}{\pi(x)} \prod_i \frac{q_i(x_i \mid y)}{q_i(y_i \mid x)}.$$

    With g = sqrt this is the proposal of Zhang, Liu and Liu, *A Langevin-like Sampler for Discrete
    Distributions* (2022), whose step size $\alpha$ gives $h = \exp(-1 / 2\alpha)$. There h is the
    same at all states. Here it depends on the state, as LBP's normalisation does, so that a scale
    means the same for both kernels. On the paper's instances this makes no difference to the
    distance. LBP moves up to 46% further in a step, because it changes exactly R sites.

    Args:
        balance: the balancing function g, as for `LBP`.
    """

    balance: str | balancing.LogBalance = eqx.field(
        static=True, default="sqrt", converter=balancing.by_name
    )

    name: ClassVar[str] = "dmala"
    informed: ClassVar[bool] = True

    def __check_init__(self):
        balancing.resolve(self.balance)

    def scale_range(self, target: Target) -> ScaleRange:
        sites = float(target.num_sites)
        return ScaleRange(
            unit="sites", low=1.0, high=sites, tuned_high=sites, start=1.0, rate=0.574
        )

    def noise(self, key, target: Target) -> Noise:
        key_propose, key_accept = jax.random.split(key)
        return Noise(propose=key_propose, accept=key_accept)

    def step(self, key, target: Target, state: ChainState, scale):
        return self.advance(self.noise(key, target), target, state, scale)

    def advance(self, noise: Noise, target: Target, state: ChainState, scale, active=True):
        odds = self._odds(target, state, scale)
        choice = select.independent(noise.propose, odds.sites)
        values = odds.weights.draw_values(noise.propose, choice)
        move = Move(choice=choice, moved=choice.chosen, values=values)
        there = state.after(target, move)
        log_ratio, invalid = self._log_ratio(target, state, there, odds, move, scale)
        uniform = jax.random.uniform(noise.accept, (), log_ratio.dtype)
        accepted = active & (uniform < jnp.exp(log_ratio))
        settled = Settled(where(accepted, there, state), log_ratio, accepted, invalid)
        return settled.state, settled.info(there.x, choice.length)

    def transitions(self, target: Target, x: State, scale):
        """Every state, since a step can lead to any."""
        state = self.init(target, x)
        odds = self._odds(target, state, scale)

        def follow(y):
            moved = y != state.x.reshape(-1)
            values = None if target.num_states == 2 else y
            move = Move(choice=select.flagged(moved), moved=moved, values=values)
            log_forward = jnp.sum(odds.log_probs(moved)) + odds.weights.values_log_prob(move)
            there = state.after(target, move)
            log_ratio, _ = self._log_ratio(target, state, there, odds, move, scale)
            return there.x, jnp.exp(log_forward + jnp.minimum(log_ratio, 0.0))

        return jax.vmap(follow)(jnp.asarray(_states(target.num_sites, target.num_states)))

    def _odds(self, target: Target, state: ChainState, scale) -> Odds:
        weights = site_weights(self.balance, target, state)
        log_weights = balancing.apply(weights.sites.balance, weights.sites.values)
        total = jax.nn.logsumexp(log_weights)
        # No site has weight if every neighbour is impossible; then all stay as they are.
        log_odds = jnp.where(total == -jnp.inf, -jnp.inf, jnp.log(scale) + log_weights - total)
        return Odds(log_odds.astype(target.dtype), weights)

    def _log_ratio(
        self, target: Target, state: ChainState, there: ChainState, odds: Odds, move: Move, scale
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """The log of the acceptance ratio, and whether the proposal was invalid."""
        odds_back, way_back = self._odds(target, there, scale), moves.reverse(state.x, move)
        # Differences first: most sites have nearly the same odds at both ends.
        sites = odds_back.log_probs(move.moved) - odds.log_probs(move.moved)
        values = odds_back.weights.values_log_prob(way_back) - odds.weights.values_log_prob(move)
        log_probs = state.log_prob, there.log_prob
        return log_acceptance(*log_probs, jnp.zeros_like(state.log_prob), jnp.sum(sites) + values)


def _states(n: int, num_states: int) -> Int[np.ndarray, "m n"]:
    """All states of n sites."""
    return np.indices((num_states,) * n).reshape(n, -1).T.astype(np.int32)
