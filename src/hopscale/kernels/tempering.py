r"""Non-reversible parallel tempering around any kernel.

Levels $0 = \beta_0 < \dots < \beta_L = 1$ lead from a reference $\pi_0$ of independent sites, which
can be drawn exactly, to the target:

$$\pi_{\beta}(x) \propto \pi_0(x)^{1 - \beta}\, \pi(x)^{\beta}.$$

A step draws a fresh state of the reference, takes a step of the kernel at every other level, and
then swaps states of neighbouring levels, each pair with probability

$$1 \wedge e^{(\beta_{l+1} - \beta_l)\,(V(x_l) - V(x_{l+1}))}, \qquad
  V(x) = \log \pi(x) - \log \pi_0(x).$$

Even pairs (0, 1), (2, 3), ... have their turn at one step, odd pairs at the next. So a state that
was swapped up tends to continue upwards, and the rate of round trips does not fall as levels are
added (Syed, Bouchard-Cote, Deligiannidis and Doucet, 2022).
"""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import native
from hopscale.kernels.kernel import ChainState, Kernel, where
from hopscale.kernels.levels import (
    NEITHER,
    Ladder,
    Levels,
    TemperedInfo,
    TemperedState,
    after_swaps,
    at_coldest,
)
from hopscale.target import Evaluation, State, Target
from hopscale.targets.independent import Independent, equally_likely
from hopscale.targets.tempered import Tempered
from hopscale.validate import choice, count, instance

DEFAULT_LEVELS = 12
REFERENCES = ("uniform", "fitted")


def path_to(target: Target) -> Tempered:
    """The path from a uniform reference to a target, at its end (beta = 1)."""
    return Tempered(equally_likely(target), target, 1.0)


class Noise(NamedTuple):
    """The random numbers of a step: the kernel's at each level, and a key for the rest."""

    levels: Any
    rest: Key[Array, ""]


class Tempering(Kernel):
    r"""Parallel tempering, for targets with modes between which a chain does not move.

    Use it as `hs.sample(target, kernel, temper=hs.Tempering())`. Betas, scales and the reference
    are tuned during warm-up, and `run.tempering` holds the results. Each chain has all levels, so a
    step costs as much as a step of `levels` chains.

    Args:
        levels: the number of levels, both ends included. None: twice the communication barrier plus
            one, found by a short run before warm-up.
        reference: "uniform", every state equally likely; or "fitted", independent sites whose
            probabilities follow the target's during warm-up. A fitted reference is closer to the
            target, but most of all to its heaviest mode, so fresh states in other modes are rare.
            It is for targets whose modes have much in common.
        kernel: the kernel that moves each level; `hs.sample` fills it in.
    """

    levels: int | None = eqx.field(static=True, default=None)
    reference: str = eqx.field(static=True, default="uniform")
    kernel: Kernel | None = None

    name: ClassVar[str] = "tempering"

    def __check_init__(self):
        if self.levels is not None:
            count("levels", self.levels, minimum=2)
        choice("reference", self.reference, REFERENCES)
        if self.kernel is not None:
            instance("kernel", self.kernel, Kernel, "hs.LBP()")
        if isinstance(self.kernel, Tempering):
            raise ValueError("tempering goes around a kernel that is not tempered already.")

    @property
    def replicas(self) -> int:
        return self.levels or DEFAULT_LEVELS

    @property
    def inner(self) -> Kernel:
        """The kernel that moves each level."""
        if self.kernel is None:
            raise ValueError(
                "hs.Tempering needs a kernel to move its levels: give it by "
                "hs.sample(target, kernel, temper=hs.Tempering()), or hs.Tempering(kernel=...)."
            )
        return self.kernel

    @property
    def informed(self) -> bool:  # type: ignore[override]
        return self.inner.informed

    def check(self, target: Target) -> None:
        if type(self.inner).starts is not Kernel.starts:
            raise TypeError(
                f"hs.{type(self.inner).__name__} moves among some states only, and the reference "
                "of hs.Tempering has them all: leave temper out."
            )
        self.inner.check(path_to(target))

    def updates(self, target: Target) -> bool:
        return self.inner.updates(path_to(target))

    def evaluations(self, target: Target) -> int:
        return self.replicas * self.inner.evaluations(path_to(target))

    def _evaluate(self, target: Target, x: State) -> Evaluation:
        """The target's evaluation at x that the kernel needs; a `Tempered` has it in its cache."""
        return self.inner.init(path_to(target), x).evaluation.cache[1]

    def scale_range(self, target: Target):
        return self.inner.scale_range(target)

    def tuner_for(self, target: Target, tuner: Any):
        from hopscale.tune.ladder import LadderTuner

        return LadderTuner(
            inner=tuner,
            levels=self.replicas,
            reference=self.reference,
            equal=equally_likely(target).log_probs,
        )

    def scale_of(self, tuner: Any):
        ladder = getattr(tuner, "ladder", None)
        if ladder is None:
            raise TypeError("hs.Tempering runs under hs.sample and hs.sample_many only.")
        if ladder.scales.ndim == 1:
            return ladder, None
        return ladder, Ladder(betas=None, scales=0, log_probs=None, log_z=None)  # type: ignore[arg-type]

    def init(self, target: Target, x: State) -> TemperedState:  # type: ignore[override]
        """All levels at x; the reference is redrawn before its state is used."""
        one = Levels(x=x, evaluation=self._evaluate(target, x), seen=jnp.asarray(NEITHER, jnp.int8))
        repeated = jax.tree.map(lambda a: jnp.broadcast_to(a, (self.replicas, *a.shape)), one)
        return at_coldest(repeated, even=jnp.asarray(True))

    def refreshed(self, target: Target, state: TemperedState) -> TemperedState:  # type: ignore[override]
        again = jax.vmap(lambda x: self._evaluate(target, x))(state.levels.x)
        return at_coldest(state.levels._replace(evaluation=again), state.even)

    def noise(self, key: Key[Array, ""], target: Target) -> Noise:
        size = jax.random.key_data(key).size
        words = native.call("words", key, count=size * self.replicas).reshape(-1, size)
        keys = jax.random.wrap_key_data(words, impl=jax.random.key_impl(key))
        levels = jax.vmap(lambda one: self.inner.noise(one, target))(keys[1:])
        return Noise(levels=levels, rest=keys[0])

    def step(self, key, target: Target, state: Any, scale: Any):
        return self.advance(self.noise(key, target), target, state, scale)

    def advance(self, noise: Any, target: Target, state: Any, scale: Any, active=True):
        """Move every level, then swap neighbours."""
        pairs = self.replicas - 1
        words = native.call("words", noise.rest, count=pairs + target.num_sites)
        uniform = native.reference.uniform_numbers(words, target.dtype)
        fresh = Independent(scale.log_probs).at(uniform[pairs:].reshape(target.shape))
        moved, log_reference, info = self._move(noise, fresh, target, state.levels, scale)
        invalid = jnp.concatenate([_invalid(moved)[None], info.invalid])
        # An invalid fresh state is not swapped, as if it were impossible.
        at_reference = jnp.arange(self.replicas) == 0
        log_target = jnp.where(at_reference & invalid, -jnp.inf, moved.evaluation.log_prob)
        swap_prob = self.swap_prob(scale.betas, log_target, log_reference)
        turn = (jnp.arange(pairs) % 2 == 0) == state.even
        levels, trips = after_swaps(moved, turn & (uniform[:pairs] < swap_prob))
        after = at_coldest(levels, even=~state.even)
        widths = scale.betas[1:] - scale.betas[:-1]
        gain = log_target - log_reference
        found = TemperedInfo(
            accept_prob=info.accept_prob[-1],
            accepted=info.accepted[-1],
            distance=jnp.sum(after.x != state.x, dtype=jnp.int32),
            invalid=jnp.sum(invalid, dtype=jnp.int32),
            proposal=_first(invalid, jnp.concatenate([moved.x[:1], info.proposal])),
            levels=info,
            swap_prob=swap_prob,
            forward=jax.nn.sigmoid(widths * gain[:-1] - scale.log_z),
            backward=jax.nn.sigmoid(scale.log_z - widths * gain[1:]),
            work=widths * _between(gain),
            round_trips=trips,
            x=after.x,
            ladder=scale._replace(log_probs=jnp.zeros(0)),  # too large to be worth observing
        )
        return where(active, after, state), found

    def swap_prob(
        self,
        betas: Float[Array, " levels"],
        log_target: Float[Array, " levels"],
        log_reference: Float[Array, " levels"],
    ) -> Float[Array, " levels-1"]:
        """The probability that a swap of each pair of neighbours would be accepted."""
        gain = log_target - log_reference  # V
        log_ratio = (betas[1:] - betas[:-1]) * (gain[:-1] - gain[1:])
        return jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))

    def _move(self, noise: Noise, drawn: State, target: Target, levels: Levels, ladder: Ladder):
        """A fresh draw of the reference, and a step of each other level."""
        reference, ratios = Independent(ladder.log_probs), self.informed

        def one(noise, x, evaluation, beta, scale):
            path = Tempered(reference, target, beta)
            at = path.combine(reference.evaluate(x, ratios=ratios), evaluation)
            after, info = self.inner.advance(noise, path, ChainState(x=x, evaluation=at), scale)
            base, there = after.evaluation.cache
            return after.x, there, base.log_prob, info

        warm = jax.tree.map(lambda a: a[1:], levels)
        x, there, log_reference, info = jax.vmap(one)(
            noise.levels, warm.x, warm.evaluation, ladder.betas[1:], ladder.scales
        )
        fresh = self._evaluate(target, drawn)
        join = lambda first, rest: jnp.concatenate([first[None], rest])  # noqa: E731
        moved = Levels(
            x=join(drawn, x),
            evaluation=jax.tree.map(join, fresh, there),
            seen=levels.seen,
        )
        return moved, join(reference.log_prob(drawn), log_reference), info


def _invalid(levels: Levels) -> Bool[Array, ""]:
    """Whether the fresh state of the reference is invalid."""
    fresh = jax.tree.map(lambda a: a[0], levels.evaluation)
    invalid = jnp.isnan(fresh.log_prob) | (fresh.log_prob == jnp.inf)
    if fresh.log_ratios is None:
        return invalid
    return invalid | ((fresh.log_prob > -jnp.inf) & jnp.any(jnp.isnan(fresh.log_ratios)))


def _between(gain: Float[Array, " levels"]) -> Float[Array, " levels-1"]:
    """The mean of neighbours; of one that is not finite, the other; 0 if neither is."""
    low, high = gain[:-1], gain[1:]
    low = jnp.where(jnp.isfinite(low), low, high)
    mean = 0.5 * (low + jnp.where(jnp.isfinite(high), high, low))
    return jnp.where(jnp.isfinite(mean), mean, 0.0)


def _first(invalid: Bool[Array, " levels"], proposals: Int[Array, "levels *shape"]) -> State:
    """The first invalid proposal; that of the coldest level if there is none."""
    place = jnp.where(jnp.any(invalid), jnp.argmax(invalid), invalid.size - 1)
    return jax.lax.dynamic_index_in_dim(proposals, place, keepdims=False)
