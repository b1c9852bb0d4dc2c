"""Exchanges of a one and a zero, for sites that can stand in for each other."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import select
from hopscale.kernels.kernel import ChainState, Info, Kernel, where
from hopscale.kernels.lbp import LBP
from hopscale.kernels.metropolis import Metropolis
from hopscale.move import Choice, Move, State
from hopscale.select import Weights
from hopscale.target import Target
from hopscale.validate import instance


class Noise(NamedTuple):
    """The random numbers of a step: the inner kernel's, and a key for the exchange."""

    inner: Any
    exchange: Key[Array, ""]


class Exchange(Kernel):
    r"""A step of another kernel, then an exchange: one site goes from 1 to 0, another from 0 to 1.

    One of the ones, i, is chosen uniformly and set to 0, which leads to x'. Then a site j that is 0
    in x', possibly i itself, is set to 1. It is drawn with probability

    $$P(j) \propto \pi(x' + e_j) / \pi(x'),$$

    which is an exact draw of j given x'. It is always accepted if the target's ratios are exact.
    Otherwise it is accepted with probability $1 \wedge \pi(y) w_i / (\pi(x) w_j)$, where w are the
    weights by which j was drawn. If two sites can stand in for each other, like correlated columns
    in a regression, single changes lead from one to the other only by way of both or neither.

    An exchange costs two changes of one site, in addition to the inner kernel's step. It is for
    bits only.

    Args:
        kernel: the inner kernel, whose scale is tuned.
    """

    kernel: Metropolis = LBP()

    name: ClassVar[str] = "exchange"
    informed: ClassVar[bool] = True

    def __check_init__(self):
        instance("kernel", self.kernel, Metropolis, "hs.LBP()")
        if not self.kernel.informed:
            raise TypeError(
                f"kernel must be one that looks at log-ratios, such as hs.LBP(); got {self.kernel}."
            )

    def check(self, target: Target) -> None:
        if target.num_states != 2:
            raise TypeError(
                f"hs.Exchange exchanges ones for zeros; sites of this {type(target).__name__} have "
                f"{target.num_states} values. Use hs.LBP()."
            )
        self.kernel.check(target)

    def scale_range(self, target: Target):
        return self.kernel.scale_range(target)

    def evaluations(self, target: Target) -> int:
        return self.kernel.evaluations(target) + 2

    def noise(self, key, target: Target) -> Noise:
        key_inner, key_exchange = jax.random.split(key)
        return Noise(inner=self.kernel.noise(key_inner, target), exchange=key_exchange)

    def step(self, key, target: Target, state: ChainState, scale):
        return self.advance(self.noise(key, target), target, state, scale)

    def advance(self, noise: Noise, target: Target, state: ChainState, scale, active=True):
        after, info = self.kernel.advance(noise.inner, target, state, scale)
        y = self._exchanged(noise.exchange, target, after)
        return where(active, y, state), self._told(info, state, y)

    def _told(self, info: Info, before: ChainState, after: ChainState) -> Info:
        """The inner kernel's `Info`, with the distance of its step and the exchange together."""
        return info._replace(distance=jnp.sum(before.x != after.x, dtype=jnp.int32))

    def _exchanged(self, key, target: Target, state: ChainState) -> ChainState:
        key_out, key_in, key_accept = jax.random.split(key, 3)
        ones = state.x.reshape(-1) == 1
        out = self._drawn(key_out, jnp.where(ones, 0.0, -jnp.inf).astype(target.dtype))
        between = _changed(target, state, out)
        into = self._drawn(key_in, _entering(between))
        there = _changed(target, between, into)
        accept_prob = _acceptance(state, between, there, out.sites[0], into.sites[0])
        uniform = jax.random.uniform(key_accept, (), target.dtype)
        accepted = (uniform < accept_prob) & jnp.any(ones)
        return where(accepted, there, state)

    def _drawn(self, key, log_weights: Float[Array, " n"]) -> Choice:
        implementation = self.kernel.implementation
        weights = Weights(log_weights, balance=None)
        return select.repeated(key, weights, jnp.int32(1), implementation=implementation)[0]

    def transitions(self, target: Target, x: State, scale):
        """Every state that the inner kernel leads to, followed by every exchange of two sites."""
        middle, share = self.kernel.transitions(target, x, scale)
        stays = jnp.append(share, 1.0 - jnp.sum(share))
        middle = jnp.concatenate([middle, x[None]])
        n = target.num_sites

        def follow(x, out, into):
            state = self.init(target, x)
            between = _changed(target, state, _one(out, n))
            weights = jax.nn.softmax(_entering(between))
            there = _changed(target, between, _one(into, n))
            ones = x.reshape(-1) == 1
            chosen = jnp.where(ones[out], 1.0 / jnp.maximum(jnp.sum(ones), 1), 0.0)
            accept_prob = _acceptance(state, between, there, out, into)
            share = jnp.where(chosen > 0, chosen * weights[into] * accept_prob, 0.0)
            return jnp.where(share > 0, there.x, x), share

        sites = jnp.arange(n)
        pairs = jax.vmap(jax.vmap(follow, (None, None, 0)), (None, 0, None))
        y, found = jax.vmap(lambda x: pairs(x, sites, sites))(middle)
        found = found.reshape(len(middle), -1)
        found = stays[:, None] * jnp.append(found, 1.0 - jnp.sum(found, 1, keepdims=True), axis=1)
        y = y.reshape(len(middle), -1, *x.shape)
        y = jnp.concatenate([y, middle[:, None]], axis=1)
        return y.reshape(-1, *x.shape), found.reshape(-1)


def _one(site: Int[Array, ""], n: int) -> Choice:
    sites = jnp.zeros(n, jnp.int32).at[0].set(site.astype(jnp.int32))
    return Choice(sites=sites, chosen=jnp.arange(n) == site, length=jnp.int32(1))


def _changed(target: Target, state: ChainState, choice: Choice) -> ChainState:
    """The state after a change of the chosen site."""
    return state.after(target, Move(choice=choice, moved=choice.chosen, values=None))


def _entering(between: ChainState) -> Float[Array, " n"]:
    """The log-weight of each site that could be set to 1."""
    assert between.log_ratios is not None
    zeros: Bool[Array, " n"] = between.x.reshape(-1) == 0
    return jnp.where(zeros, between.log_ratios.reshape(-1), -jnp.inf)


def _acceptance(state, between, there, out, into) -> Float[Array, ""]:
    """The acceptance probability of an exchange: 1 up to rounding if ratios are exact."""
    weights = _entering(between)
    log_ratio = there.log_prob - state.log_prob + weights[out] - weights[into]
    found = jnp.where(out == into, 1.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
    return jnp.where(jnp.isnan(found), 0.0, found)
