r"""Metropolis-Hastings with a proposal that chooses sites.

A step draws an auxiliary choice u of sites at x and changes them to reach y. The acceptance
probability takes into account the probability of drawing the way back at y. The map
(x, u) -> (y, u) is its own inverse, so detailed balance holds whatever the weights are.
"""

import abc
import itertools
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import move as moves
from hopscale import native, select
from hopscale.kernels.kernel import ChainState, Info, Kernel, ScaleRange, where
from hopscale.move import Choice, Move, State
from hopscale.native.paths import log_acceptance
from hopscale.target import Target
from hopscale.validate import choice

LENGTHS = ("mixed", "paper")

# The share of steps that change one or two sites, half of them each, whatever the scale is.
SHORT_STEPS = 1 / 200


class Noise(NamedTuple):
    """The random numbers of a step: a key for the proposal, uniform numbers for the rest."""

    propose: Key[Array, ""]
    rounding: Float[Array, ""]
    accept: Float[Array, ""]


class Settled(NamedTuple):
    """The outcome of a proposal: the state after it, and whether it was accepted."""

    state: ChainState
    log_ratio: Float[Array, ""]
    accepted: Bool[Array, ""]
    invalid: Bool[Array, ""]

    @property
    def accept_prob(self) -> Float[Array, ""]:
        return jnp.exp(jnp.minimum(self.log_ratio, 0.0))

    def info(self, proposal: State, distance: Int[Array, ""]) -> Info:
        """What the step did, given the number of sites that the proposal changes."""
        accept_prob = self.accept_prob
        return Info(
            accept_prob=accept_prob,
            accepted=self.accepted,
            distance=jnp.where(self.accepted, distance, 0),
            invalid=self.invalid,
            proposal=proposal,
            jump=accept_prob * distance.astype(accept_prob.dtype),
            log_ratio=self.log_ratio,
        )


class Metropolis(Kernel):
    r"""Choose R sites, change them all, and accept with probability

    $$1 \wedge \frac{\pi(y)\, q(u \mid y)}{\pi(x)\, q(u \mid x)}.$$

    To define a proposal, subclass this class and implement `choose` and `score`, as LBP, GWG and
    RWM do. The scale is the mean number of sites R, rounded at random at every step.

    With R = N at every step a chain would go from x to its complement and back, and with an even R
    on bits it would never change its parity. So, by default (`lengths="mixed"`), one step in 200
    changes one or two sites instead, whatever the scale is. This costs at most 0.5% of the jump
    distance. Tuners stop at the number of sites that a fresh draw of equally likely values would
    change: $\sum_i (1 - 1 / S_i)$ if site i has $S_i$ values, which is half of all sites for bits.

    Attributes:
        lengths: "mixed", or "paper": R sites at every step, with R up to N. With "paper" a chain
            may be unable to reach all states.
        implementation: "auto" for native kernels where they apply, "reference" for plain JAX.
    """

    lengths: str = eqx.field(static=True, default="mixed", kw_only=True)
    implementation: str = eqx.field(static=True, default="auto", kw_only=True)

    rate: ClassVar[float]  # the acceptance rate at which the proposal is most efficient
    replacement: ClassVar[bool]  # whether a site can be drawn twice

    def __check_init__(self):
        choice("lengths", self.lengths, LENGTHS)
        choice("implementation", self.implementation, ("auto", "reference"))

    @abc.abstractmethod
    def choose(
        self, key: Key[Array, ""], target: Target, state: ChainState, length: Int[Array, ""]
    ) -> tuple[Move, Float[Array, ""]]:
        """Draw a move at `state`; also return its log-probability."""

    @abc.abstractmethod
    def score(
        self, target: Target, state: ChainState, move: Move, way_back: bool
    ) -> Float[Array, ""]:
        """Log-probability of drawing this move at `state`, as the move itself or as a way back."""

    def moved(self, choice: Choice) -> Bool[Array, " n"]:
        """Which sites a choice changes."""
        return choice.chosen

    def scale_range(self, target: Target) -> ScaleRange:
        sites = float(target.num_sites)
        return ScaleRange(
            unit="sites",
            low=1.0,
            high=sites,
            tuned_high=sites if self.lengths == "paper" else _changed_by_a_fresh_draw(target),
            start=1.0,
            rate=self.rate,
        )

    def noise(self, key: Key[Array, ""], target: Target) -> Noise:
        size = jax.random.key_data(key).size
        words = native.call("words", key, count=size + 2, implementation=self.implementation)
        rounding, accept = native.reference.uniform_numbers(words[size:], target.dtype)
        return Noise(
            propose=jax.random.wrap_key_data(words[:size], impl=jax.random.key_impl(key)),
            rounding=rounding,
            accept=accept,
        )

    def step(self, key, target: Target, state: ChainState, scale):
        return self.advance(self.noise(key, target), target, state, scale)

    def advance(self, noise: Noise, target: Target, state: ChainState, scale, active=True):
        """Round the scale, draw a proposal, and accept it or stay."""
        length = self._length(noise.rounding, scale, target.num_sites)
        move, log_forward = self.choose(noise.propose, target, state, length)
        there = state.after(target, move)
        # A chain that is not active accepts nothing.
        uniform = noise.accept if active is True else jnp.where(active, noise.accept, jnp.inf)
        settled = self.settle(uniform, target, state, there, move, log_forward)
        return settled.state, settled.info(there.x, self._distance(move))

    def settle(
        self,
        uniform: Float[Array, ""],
        target: Target,
        state: ChainState,
        there: ChainState,
        move: Move,
        log_forward: Float[Array, ""],
    ) -> Settled:
        """Accept a proposal if `uniform` is below its acceptance probability, or stay.

        A kernel with a faster way to `score` the way back may override this and do all of it.
        """
        back = moves.reverse(state.x, move)
        log_backward = self.score(target, there, back, way_back=True)
        log_probs = state.log_prob, there.log_prob
        log_ratio, invalid = log_acceptance(*log_probs, log_forward, log_backward)
        accepted = uniform < jnp.exp(log_ratio)
        return Settled(where(accepted, there, state), log_ratio, accepted, invalid)

    def _distance(self, move: Move) -> Int[Array, ""]:
        """The number of sites that a move changes; without replacement it needs no counting."""
        if self.replacement:
            return jnp.sum(move.moved, dtype=jnp.int32)
        return move.choice.length

    def _length(self, uniform, scale, num_sites: int) -> Int[Array, ""]:
        """The number of sites that this step draws."""
        if self.lengths == "paper":
            return round_randomly(uniform, scale)
        usual = (uniform - SHORT_STEPS) / (1.0 - SHORT_STEPS)
        short = jnp.minimum(jnp.where(uniform < 0.5 * SHORT_STEPS, 1, 2), num_sites)
        return jnp.where(uniform < SHORT_STEPS, short, round_randomly(usual, scale))

    def length_probabilities(self, scale, num_sites: int) -> Float[Array, " n"]:
        """The probability that a step draws 1, 2, ..., N sites."""
        lengths, low = jnp.arange(1, num_sites + 1), jnp.floor(scale)
        more = scale - low
        usual = jnp.where(lengths == low, 1.0 - more, jnp.where(lengths == low + 1, more, 0.0))
        if self.lengths == "paper":
            return usual
        short = 0.5 * (lengths == 1) + 0.5 * (lengths == min(2, num_sites))
        return (1.0 - SHORT_STEPS) * usual + SHORT_STEPS * short

    def transitions(self, target: Target, x: State, scale):
        """Every sequence of sites that could be drawn, evaluated by the functions of a step."""
        state, n = self.init(target, x), target.num_sites
        shares = self.length_probabilities(scale, n)
        sequences, lengths = _sequences(n, self.replacement)

        def follow(sequence, length, by):
            move, counts = self._listed(target, state, sequence, length, by)
            y, prob = self.followed(target, state, move)
            return y, jnp.where(counts, shares[length - 1], 0.0) * prob

        over = jax.vmap(jax.vmap(follow, (None, None, 0)), (0, 0, None))
        y, found = over(sequences, lengths, jnp.asarray(_offsets(n, target.num_states)))
        return y.reshape(-1, *target.shape), found.reshape(-1)

    def followed(self, target: Target, state: ChainState, move: Move) -> tuple[State, Array]:
        """The state after a move, and the probability that the move is drawn and accepted."""
        log_forward = self.score(target, state, move, way_back=False)
        there = state.after(target, move)
        never = jnp.full_like(log_forward, jnp.inf)
        settled = self.settle(never, target, state, there, move, log_forward)
        drawn = log_forward > -jnp.inf  # not if it is NaN: the sites left have no weight at all
        return there.x, jnp.where(drawn, jnp.exp(log_forward) * settled.accept_prob, 0.0)

    def _listed(self, target: Target, state: ChainState, sequence, length, by):
        """The move along a sequence, and whether it counts: idle sites count at offset 1 only."""
        choice = select.listed(sequence, length)
        moved = self.moved(choice)
        values, each = None, jnp.ravel(target.num_states_by_site)
        if target.num_states > 2:
            values = (state.x.reshape(-1).astype(jnp.int32) + by) % each
        counts = jnp.where(moved, by < each, by == 1)
        return Move(choice=choice, moved=moved, values=values), jnp.all(counts)


def _changed_by_a_fresh_draw(target: Target) -> float | Float[Array, ""]:
    """The mean number of sites that change if all values are drawn afresh, equally likely."""
    each = target.num_states_by_site
    if isinstance(each, int):
        return max(1.0, target.num_sites * (each - 1) / each)
    return jnp.sum(1.0 - 1.0 / each.astype(target.dtype))  # at least 1 with two sites


def round_randomly(uniform: Float[Array, ""], scale: Float[Array, ""]) -> Int[Array, ""]:
    """floor(scale), plus 1 with probability equal to the fraction, so that the mean is `scale`."""
    low = jnp.floor(scale)
    more = uniform < scale - low
    return low.astype(jnp.int32) + more.astype(jnp.int32)


def _sequences(n: int, replacement: bool) -> tuple[Array, Array]:
    """Every sequence of 1 to n sites, padded to n, and the number of sites in each."""
    padded, lengths = [], []
    for length in range(1, n + 1):
        if replacement:
            drawn = itertools.product(range(n), repeat=length)
        else:
            drawn = itertools.permutations(range(n), length)
        for path in drawn:
            rest = () if replacement else tuple(set(range(n)) - set(path))
            padded.append((*path, *rest, *[0] * n)[:n])
            lengths.append(length)
    return jnp.asarray(padded, jnp.int32), jnp.asarray(lengths, jnp.int32)


def _offsets(n: int, num_states: int) -> Int[np.ndarray, "combinations n"]:
    """All combinations of the offsets by which the sites could change their values."""
    return np.array(list(itertools.product(range(1, num_states), repeat=n)), np.int32)
