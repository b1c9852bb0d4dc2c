r"""Tuning of parallel tempering during warm-up: betas, scales and the reference.

Warm-up is divided into rounds, each twice as long as the one before. Scales move at every step,
each level's by the tuner that would tune the kernel alone. The rest moves at the end of a round:

- *betas*, so that all pairs of neighbours reject swaps equally often, which gives the most round
  trips (Syed et al., 2022). Between $\beta_l$ and $\beta_{l+1}$ the communication barrier grows by

  $$\Lambda_l = \tfrac{2}{\sqrt\pi}\, \operatorname{erf}^{-1}(r_l), \qquad \Lambda_l \approx r_l
    \text{ where it is small,}$$

  where $r_l$ is the mean rejection rate. This is exact if V is Gaussian, and still informative if
  almost all swaps are rejected. The new betas divide the sum into equal parts.
- *the reference*: each site's probabilities are those found at the coldest level, mixed with a
  small share of equal ones.
- *log Z* between neighbours: the c that makes the estimate of it precise (Bennett, 1976).
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from hopscale.kernels.levels import Ladder, TemperedInfo
from hopscale.tune import Tuner

FIRST_ROUND = 32  # steps
LEAST_GAP = 1e-3  # the least barrier between neighbours, so that betas stay apart
LEAST_MEAN = 1e-6  # a mean swap probability below this is not distinguished from zero
EQUAL_SHARE = 0.02  # of the fitted reference, so that no value is lost for good


class Sums(NamedTuple):
    """Sums over the steps of a round, averaged over chains."""

    swap_prob: Float[Array, " levels-1"]
    forward: Float[Array, " levels-1"]
    backward: Float[Array, " levels-1"]
    work: Float[Array, " levels-1"]
    values: Float[Array, "*shape values-1"]  # how often each site has each value except the first


class LadderState(NamedTuple):
    """The ladder, and the sums of the present round.

    Attributes:
        inner: the state of the scales' tuner; its last axis is that of levels.
        rejections: the rejection rates of neighbours, over the last completed round.
        done, length: the steps taken in the present round, and its length.
    """

    inner: Any
    betas: Float[Array, " levels"]
    log_probs: Float[Array, "*shape values"]
    log_z: Float[Array, " levels-1"]
    rejections: Float[Array, " levels-1"]
    sums: Sums
    done: Int[Array, ""]
    length: Int[Array, ""]

    @property
    def scale(self) -> Float[Array, "..."]:
        """The scale of the coldest level."""
        return self.inner.scale[..., -1]

    @property
    def ladder(self) -> Ladder:
        return Ladder(self.betas, self.inner.scale, self.log_probs, self.log_z)


class LadderTuner(Tuner):
    """Tunes betas and reference at the end of rounds, and each level's scale by the inner tuner.

    Attributes:
        inner: the tuner of the scale.
        levels: the number of levels, both ends included.
        reference: "fitted" or "uniform".
        equal: log-probabilities of each site's values, all equally likely.
    """

    inner: Tuner
    levels: int = eqx.field(static=True)
    reference: str = eqx.field(static=True)
    equal: Float[Array, "*shape values"]

    @property
    def rate(self):
        """The acceptance rate that the scale's tuner aims at, if any."""
        return getattr(self.inner, "rate", None)

    def check(self, scales) -> None:
        self.inner.check(scales)

    def init(self, scales, chains: int, dtype) -> LadderState:  # type: ignore[override]
        one = self.inner.init(scales, chains, dtype)
        pairs = self.levels - 1
        every = jax.tree.map(lambda a: jnp.repeat(jnp.asarray(a)[..., None], pairs, axis=-1), one)
        return LadderState(
            inner=every,
            betas=jnp.linspace(0.0, 1.0, self.levels, dtype=dtype),
            log_probs=self.equal.astype(dtype),
            log_z=jnp.zeros(pairs, dtype),
            rejections=jnp.zeros(pairs, dtype),
            sums=self._nothing(dtype),
            done=jnp.asarray(0, jnp.int32),
            length=jnp.asarray(FIRST_ROUND, jnp.int32),
        )

    def update(self, state: LadderState, info: TemperedInfo, scales) -> LadderState:  # type: ignore[override]
        inner = jax.vmap(
            lambda one, info: self.inner.update(one, info, scales), in_axes=(-1, 1), out_axes=-1
        )(state.inner, info.levels)
        seen = Sums(
            swap_prob=jnp.mean(info.swap_prob, axis=0),
            forward=jnp.mean(info.forward, axis=0),
            backward=jnp.mean(info.backward, axis=0),
            work=jnp.mean(info.work, axis=0),
            values=self._values(info),
        )
        state = state._replace(
            inner=inner, sums=jax.tree.map(jnp.add, state.sums, seen), done=state.done + 1
        )
        ended = state.done == state.length
        return jax.lax.cond(ended, lambda now: self._next_round(now), lambda now: now, state)

    def settled(self, state: LadderState) -> LadderState:  # type: ignore[override]
        return state._replace(inner=self.inner.settled(state.inner))

    def _values(self, info: TemperedInfo) -> Float[Array, "*shape values-1"]:
        """The share of chains that have each value at each site."""
        if self.reference == "uniform":
            return self._nothing(info.swap_prob.dtype).values
        values = jnp.arange(1, self.equal.shape[-1], dtype=info.x.dtype)
        found = info.x[..., None] == values.reshape(*[1] * info.x.ndim, -1)
        return jnp.mean(found, axis=0, dtype=info.swap_prob.dtype)

    def _nothing(self, dtype) -> Sums:
        pairs = jnp.zeros(self.levels - 1, dtype)
        *sites, values = self.equal.shape
        shape = (*sites, values - 1) if self.reference == "fitted" else (0,)
        return Sums(pairs, pairs, pairs, pairs, jnp.zeros(shape, dtype))

    def _next_round(self, state: LadderState) -> LadderState:
        """Set betas, reference and log Z from the sums of the round; begin one twice as long."""
        mean = jax.tree.map(lambda a: a / state.length.astype(a.dtype), state.sums)
        rejections = 1.0 - mean.swap_prob
        betas = spread(state.betas, rejections)
        return state._replace(
            betas=betas,
            log_probs=self._fitted(mean.values, state.log_probs),
            log_z=_log_z(state, mean, betas),
            rejections=rejections,
            sums=self._nothing(state.betas.dtype),
            done=jnp.zeros_like(state.done),
            length=2 * state.length,
        )

    def _fitted(self, values, log_probs):
        if self.reference == "uniform":
            return log_probs
        first = 1.0 - jnp.sum(values, axis=-1, keepdims=True)
        every = jnp.maximum(jnp.concatenate([first, values], axis=-1), 0.0)
        shared = (1.0 - EQUAL_SHARE) * every + EQUAL_SHARE * jnp.exp(self.equal)
        return jnp.log(shared / jnp.sum(shared, axis=-1, keepdims=True))


def barriers(rejections: Float[Array, " levels-1"]) -> Float[Array, " levels-1"]:
    """The communication barrier between neighbours with these rejection rates."""
    inside = jnp.clip(rejections, 0.0, 1.0 - LEAST_MEAN)
    return 2.0 / math.sqrt(math.pi) * jax.scipy.special.erfinv(inside)


def spread(betas: Float[Array, " levels"], rejections) -> Float[Array, " levels"]:
    """Betas with equal barriers between neighbours, from rejection rates at the present ones."""
    gaps = jnp.maximum(barriers(rejections), LEAST_GAP)
    along = jnp.concatenate([jnp.zeros(1, gaps.dtype), jnp.cumsum(gaps)])
    even = jnp.linspace(0.0, 1.0, betas.size, dtype=betas.dtype) * along[-1]
    inner = _interpolate(even[1:-1], along, betas)
    return jnp.concatenate([betas[:1], inner, betas[-1:]])


def _log_z(state: LadderState, mean: Sums, betas) -> Float[Array, " levels-1"]:
    r"""log Z between neighbours at the new betas, from the means at the present ones.

    The bridge estimate needs a present log Z that is not far off. If it is, the mean of
    $\Delta\beta\, V$ at both levels (thermodynamic integration) takes its place.
    """
    least = jnp.minimum(mean.forward, mean.backward)
    bridge = state.log_z + jnp.log(mean.forward) - jnp.log(mean.backward)
    found = jnp.where(least > LEAST_MEAN, bridge, mean.work)
    along = jnp.concatenate([jnp.zeros(1, found.dtype), jnp.cumsum(found)])
    return jnp.diff(_interpolate(betas, state.betas, along))


def _interpolate(at, x, y):
    """Linear interpolation of (x, y) for rising x; a few sums compile faster than a search."""
    share = jnp.clip((at[:, None] - x[None, :-1]) / jnp.diff(x)[None], 0.0, 1.0)
    return y[0] + share @ jnp.diff(y)
