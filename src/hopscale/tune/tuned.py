r"""The default tuner: reaches an acceptance rate in tens of steps, then seeks the largest jump.

In the paper's limits the log acceptance ratio is normal, $\mathcal N(-s^2/2, s^2)$ with
$s = c R^p$. The acceptance rate is then $a = 2\Phi(-s/2)$ and the jump distance $\rho = R\,a$. So
the acceptance rate gives s, and s at one scale gives the scale of any other s. Two loops use this:

- The fast loop holds the acceptance rate that belongs to a given s, by Newton steps in log R. Far
  from equilibrium it takes the rate that the same log ratios would have in equilibrium.
- The slow loop moves s, and with it the rate to hold, to where the slope of the jump distance
  against log R is zero. It measures the slope by steps at slightly smaller and larger scales.

The limits only set the size of the steps of both loops; measurements decide where they end.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hopscale.kernels.kernel import Info, ScaleRange
from hopscale.tune.law import Law, acceptance, log_s_of
from hopscale.tune.tuner import Tuner, TunerState, check_rate

POOL = 16  # the least number of acceptances for a look at the rate
PRIOR = 2.0  # the number of acceptances at the expected rate with which each look begins
SETTLED = 2.0  # moves per site, after which chains are taken to be near equilibrium
SHIFTS = np.geomspace(0.01, 30.0, 24)  # of log ratios, tried in search of equilibrium
LONGEST = np.log(8.0)  # the largest move of the log scale by one look
LOSS = 0.001  # share of the jump distance that the noise of log R may cost

SPREAD = 0.15  # by which log R alternates
FIRST_LOOKS = 4  # the first look at the slope counts as this many: it may be of a transient
UNSURE = 0.2  # how far log R may be from where the limits expect it
SLOPE_LOSS = 0.0005  # like LOSS, for the slope
SLOPE_LONGEST = 0.3  # the largest move of the log scale by one look at the slope
RATES = (0.98, 0.02)  # the bounds of the rate to hold

TURNS = 5  # changes of sign of the error, after which log R is averaged
ODD_SHARE = 0.25  # the least share of steps that change an odd number of sites
FORGET = 6  # the weight of step n in that average is approximately n^FORGET


class Pool(NamedTuple):
    """Acceptance probabilities since the last look at the rate.

    Attributes:
        count: their number.
        accepted: their sum.
        expected: the sum expected from the s to hold.
        certain: how many would be 1 if log ratios, less their mean, were shifted down by `SHIFTS`.
        others: the sum of the other acceptance probabilities in that case.
    """

    count: Float[Array, ""]
    accepted: Float[Array, ""]
    expected: Float[Array, ""]
    certain: Float[Array, " shifts"]
    others: Float[Array, " shifts"]


class Slope(NamedTuple):
    """The slope of the jump distance since the last look at it.

    Attributes:
        looks: the number of looks so far.
        jump: jump distances of steps at the larger scale, minus those at the smaller one.
        gap: the same for log R.
        level: the mean jump distance.
    """

    looks: Int[Array, ""]
    jump: Float[Array, ""]
    gap: Float[Array, ""]
    level: Float[Array, ""]


class Memory(NamedTuple):
    """Everything that the tuner remembers.

    Attributes:
        step: the number of the warm-up step.
        log_scale: the centre about which the log scale alternates.
        log_s: log of the s whose acceptance rate is held.
        turns: how often the error of the rate changed its sign.
        error: the last error of the rate.
        travelled: how far chains have moved, in units of all sites.
        landed: the number of steps since the error has changed its sign `TURNS` times.
        average: the average of log_scale over these steps, with more weight on late ones.
    """

    step: Int[Array, ""]
    log_scale: Float[Array, ""]
    log_s: Float[Array, ""]
    turns: Int[Array, ""]
    error: Float[Array, ""]
    travelled: Float[Array, ""]
    landed: Int[Array, ""]
    average: Float[Array, ""]
    pool: Pool
    slope: Slope


class Tuned(Tuner):
    r"""Tune the scale to the largest jump distance, or to a given rate; frozen after warm-up.

    The tuner reaches the acceptance rate to hold in tens of steps, by Newton steps in log R. With
    the measured acceptance rate $\bar a$ a step is

    $$\log R \leftarrow \log R + \frac{\gamma}{p} \log\frac{s(\text{rate})}{s(\bar a)}, \qquad
    s(a) = -2\Phi^{-1}(a/2)$$

    with p = 3/2 for LBP, GWG and DMALA, 1/2 for RWM. The gain $\gamma$ is 1 until the error first
    changes its sign. Then it falls with each change of sign, down to a limit set by the noise of
    the chains. If no rate is given, steps alternate between $R e^{\pm 0.15}$, and the rate to hold
    moves to where $d \log(\text{jump distance}) / d \log R = 0$. The frozen scale comes from an
    average of log R in which late steps have more weight. See docs/tuning.md.

    Args:
        rate: the acceptance rate to hold. None: the rate at which chains move furthest.
        site_cost: the time that a site adds to a step, in units of a step that moves none. The
            tuner then maximises distance per second, $R\,a / (1 + \text{site\_cost}\,R)$.
            `hopscale.bench.site_cost` measures it. 0: maximise distance per step.
    """

    rate: float | None = None
    site_cost: float = 0.0

    def __check_init__(self):
        check_rate(self.rate)
        if np.ndim(self.site_cost) or np.asarray(self.site_cost).dtype.kind not in "iuf":
            raise TypeError(f"site_cost must be a number; got {self.site_cost!r}.")
        if not 0 <= self.site_cost < np.inf:
            raise ValueError(f"site_cost must be 0 or more; got {self.site_cost!r}.")

    def init(self, scales: ScaleRange, chains: int, dtype) -> TunerState:
        # A separate array for each entry, because a loop can be donated each array only once.
        def number(value: float = 0.0, kind=dtype):
            return jnp.full((), value, kind)

        rate, start = scales.rate if self.rate is None else self.rate, np.log(scales.start)
        memory = Memory(
            step=number(0, jnp.int32),
            log_scale=number(start),
            log_s=log_s_of(jnp.asarray(rate, dtype)),
            turns=number(0, jnp.int32),
            error=number(),
            travelled=number(),
            landed=number(0, jnp.int32),
            average=number(start),
            pool=_empty(dtype),
            slope=Slope(looks=number(0, jnp.int32), jump=number(), gap=number(), level=number()),
        )
        return TunerState(scale=number(scales.start), memory=memory)

    def update(self, state: TunerState, info: Info, scales: ScaleRange) -> TunerState:
        law, ends = Law.of(scales.rate), (jnp.log(scales.low), jnp.log(scales.tuned_high))
        at, memory = jnp.log(state.scale), state.memory
        jump = info.distance if info.jump is None else info.jump
        memory = _hold_rate(memory, law, at, info, ends)
        if self.rate is None:
            cost = self.site_cost * state.scale / (1.0 + self.site_cost * state.scale)
            memory = _follow_slope(memory, law, at, jump, cost, ends)
        sites = info.proposal.size / jump.size
        memory = _averaged(
            memory._replace(
                step=memory.step + 1,
                travelled=jnp.minimum(memory.travelled + jnp.mean(jump) / sites, 1e3),
            )
        )
        # In double precision too, a target may be in single.
        memory = jax.tree.map(lambda new, old: new.astype(old.dtype), memory, state.memory)
        spread = 0.0 if self.rate is not None else SPREAD * _side(memory.step)
        log_scale = jnp.clip(memory.log_scale + spread, *ends)
        return TunerState(scale=jnp.exp(log_scale).astype(state.scale.dtype), memory=memory)

    def settled(self, state: TunerState) -> TunerState:
        return state._replace(scale=_apart_from_even(jnp.exp(state.memory.average)))


def _apart_from_even(scale: Float[Array, "..."]) -> Float[Array, "..."]:
    """The scale, at least a quarter away from even numbers.

    On bits, steps of an even number of sites leave the parity of the number of ones as it is. The
    jump distance has its maxima at whole numbers, since a scale between two of them is either, so
    without this a tuned scale would often be even, and parity would hardly ever change.
    """
    even = 2.0 * jnp.round(0.5 * scale)
    away = scale - even
    moved = even + jnp.where(away > 0, ODD_SHARE, -ODD_SHARE)
    return jnp.where((even > 0) & (jnp.abs(away) < ODD_SHARE), moved, scale)


def _hold_rate(memory: Memory, law: Law, at, info: Info, ends) -> Memory:
    """Pool acceptances; if there are enough, take a Newton step towards the rate to hold."""
    chains = info.accept_prob.size
    # The expected s at the scale of this step, which is a little off the centre.
    log_s = memory.log_s + law.exponent * (at - memory.log_scale)
    certain, others = _shifted(info.log_ratio, at.dtype)
    pool = Pool(
        count=memory.pool.count + chains,
        accepted=memory.pool.accepted + jnp.sum(info.accept_prob),
        expected=memory.pool.expected + chains * acceptance(log_s),
        certain=memory.pool.certain + certain,
        others=memory.pool.others + others,
    )
    look, early = pool.count >= POOL, jnp.exp(jnp.minimum(SETTLED - memory.travelled, 0.0))
    early = early if info.log_ratio is not None and chains > 1 else 0.0
    # Chains that still climb towards equilibrium accept too much, never too little.
    accepted = jnp.minimum(_in_equilibrium(pool), pool.accepted)
    error = _error(pool, early * accepted + (1.0 - early) * pool.accepted, law)
    turns = memory.turns + (look & (error * memory.error < 0))
    noise = early**2 * law.early_variance + (1.0 - early) ** 2 * law.variance
    steady = jnp.minimum(_steady(law, noise / max(chains, POOL)), 0.5)
    gain = jnp.maximum(1.0 / (1.0 + turns.astype(error.dtype)), steady)
    return memory._replace(
        log_scale=jnp.clip(memory.log_scale + jnp.where(look, gain * error, 0.0), *ends),
        turns=turns,
        error=jnp.where(look, error, memory.error),
        pool=Pool(*(jnp.where(look, 0.0, total) for total in pool)),
    )


def _empty(dtype) -> Pool:
    one, all_shifts = jnp.zeros((), dtype), jnp.zeros(len(SHIFTS), dtype)
    return Pool(*(jnp.array(a) for a in (one, one, one, all_shifts, all_shifts)))


def _error(pool: Pool, accepted, law: Law):
    """The amount by which log R is too small, from the mean acceptance."""
    expected = pool.expected / pool.count
    found = (accepted + PRIOR * expected) / (pool.count + PRIOR)
    return _bounded((log_s_of(expected) - log_s_of(found)) / law.exponent)


def _shifted(log_ratio: Float[Array, " chains"] | None, dtype):
    """`Pool.certain` and `Pool.others` of one step; impossible proposals count for neither."""
    if log_ratio is None or log_ratio.size < 2:
        return jnp.zeros(len(SHIFTS), dtype), jnp.zeros(len(SHIFTS), dtype)
    number = jnp.isfinite(log_ratio)
    count = jnp.maximum(jnp.sum(number), 2).astype(dtype)
    mean = jnp.sum(jnp.where(number, log_ratio, 0.0)) / count
    # Deviations from their own mean are a little smaller than those from the law's mean.
    apart = jnp.where(number, (log_ratio - mean) * jnp.sqrt(count / (count - 1.0)), -jnp.inf)
    above = apart[:, None] > SHIFTS[None].astype(dtype)
    others = jnp.where(above, 0.0, jnp.exp(jnp.minimum(apart, 2 * SHIFTS[-1]))[:, None])
    return jnp.sum(above, axis=0).astype(dtype), jnp.sum(others, axis=0) * np.exp(-SHIFTS)


def _in_equilibrium(pool: Pool) -> Float[Array, ""]:
    r"""The sum of acceptances that the same log ratios x would have in equilibrium.

    Chains that still climb towards equilibrium accept nearly everything: their log ratios are
    larger, but no more spread out than they will be. By detailed balance, in equilibrium

    $$E[e^x; x < 0] = P(x > 0),$$

    so they are shifted to where that holds, with linear interpolation between two of `SHIFTS`.
    """
    gap, total = pool.others - pool.certain, pool.others + pool.certain
    after = jnp.where(jnp.any(gap >= 0), jnp.argmax(gap >= 0), len(SHIFTS) - 1)
    before = jnp.maximum(after - 1, 0)
    share = -gap[before] / jnp.maximum(gap[after] - gap[before], 1e-6)
    share = jnp.clip(share, 0.0, 1.0)
    return (1.0 - share) * total[before] + share * total[after]


def _bounded(error):
    return jnp.clip(error, -LONGEST, LONGEST)


def _follow_slope(memory: Memory, law: Law, at, jump, cost, ends) -> Memory:
    """After every four steps (larger, smaller, smaller, larger), move log R along the slope.

    This begins when chains have moved twice as many sites as there are. Before, the scale that
    moves them furthest is not the one that would do so in equilibrium.
    """
    active, slope, side = memory.travelled > SETTLED, memory.slope, _side(memory.step)
    mean = jnp.mean(jump).astype(at.dtype)
    share = jnp.maximum(1.0 / (1.0 + memory.step.astype(at.dtype)), 0.02)
    slope = slope._replace(
        jump=slope.jump + side * mean,
        gap=slope.gap + side * at,
        level=slope.level + share * (mean - slope.level),
    )
    look = memory.step % 4 == 3
    rise = slope.jump / jnp.maximum(slope.level * slope.gap, 1e-6) - cost
    # The noise of log R from one look, and the best gains for it.
    noise = law.variance / (4 * jump.size * SPREAD**2 * law.curvature**2)
    first, steady = noise / UNSURE**2, min(0.1, _steady(law, noise, SLOPE_LOSS))
    gain = jnp.maximum(1.0 / (FIRST_LOOKS + first + slope.looks.astype(at.dtype)), steady)
    move = jnp.clip(gain * rise / law.curvature, -SLOPE_LONGEST, SLOPE_LONGEST)
    measured = look & active & (slope.gap > SPREAD) & (slope.level > 0)
    log_scale = jnp.clip(memory.log_scale + jnp.where(measured, move, 0.0), *ends)
    # At an end of the range the rate cannot be held: it moves with the scale only.
    held = memory.log_s + law.exponent * (log_scale - memory.log_scale)
    return memory._replace(
        log_scale=log_scale,
        log_s=jnp.clip(held, *(log_s_of(jnp.asarray(rate, at.dtype)) for rate in RATES)),
        slope=Slope(
            looks=slope.looks + measured,
            jump=jnp.where(look, 0.0, slope.jump),
            gap=jnp.where(look, 0.0, slope.gap),
            level=slope.level,
        ),
    )


def _averaged(memory: Memory) -> Memory:
    """Update the average of log R since `TURNS` changes of sign; until then it is log R itself."""
    landed = memory.landed + (memory.turns >= TURNS)
    weight = (FORGET + 1) / (FORGET + jnp.maximum(landed, 1).astype(memory.average.dtype))
    average = memory.average + weight * (memory.log_scale - memory.average)
    return memory._replace(landed=landed, average=average)


def _steady(law: Law, noise, loss: float = LOSS):
    r"""The gain with which steps of this variance cost at most `loss` of the jump distance.

    $\log R$ then has variance v = gain * noise / 2, and the jump distance is 1 - curvature * v / 2
    of its maximum.
    """
    return 4 * loss / (noise * law.curvature)


def _side(step):
    """+1, -1, -1, +1, ...: larger and smaller scales, ordered so that a steady trend cancels."""
    return jnp.where((step + 1) % 4 < 2, 1.0, -1.0)
