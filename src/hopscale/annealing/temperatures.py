"""The temperatures between which a target freezes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hopscale.kernels import Swap
from hopscale.kernels.kernel import Kernel, where
from hopscale.runs.arguments import ATTEMPTS
from hopscale.target import State, Target
from hopscale.targets.powered import Powered
from hopscale.targets.ratios import evaluation_operations, operations

HOT = 2.0  # at the first beta, one in two of the costliest changes is accepted
EXCESS = 0.003  # the expected cost of changes at the last beta, relative to a cheap change
PART = 200  # changes for which that holds, if a state has more
CHEAP = 0.1  # the share of changes that cost less than a cheap one
LOOKED_AT, ENOUGH_SITES = 16, 2**18  # states, and sites of all of them together, at most
SWAPS = 5_000  # tried on the way to an optimum of swaps, and there
WANDERED = 20  # changes away from given states
DESCENTS = 100  # evaluations on the way to an optimum; most take a tenth of that
OPERATIONS = 2e10  # of all evaluations together, approximately: they take seconds
ROUNDING = 10.0  # resolutions of the largest change, below which a change counts as zero


def beta_range(
    target: Target, seed: int = 0, x: Any = None, kernel: Kernel | None = None
) -> tuple[float, float]:
    r"""Inverse temperatures between which a target freezes, from what changes cost at optima.

    Random states, or some near those of `x`, are improved until no change of one site is better.
    Every change from there has a cost c, and is accepted with probability $e^{-\beta c}$. At the
    first beta, half of the costliest changes are accepted. At the last, the expected cost of the
    changes of a state (of each 200 of them, if there are more), $\sum c\, e^{-\beta c}$, is
    negligible compared with a cheap change. Random states would not do: far from optima, a penalty
    makes every change cost many times more than the changes that remain to be decided in the end.

    A kernel that swaps ones and zeros, from the states of `x`, never changes one site alone, which
    may cost far more or be impossible: there the changes are swaps.
    """
    rng = np.random.default_rng(seed)
    number, descents = _effort(target)
    if isinstance(kernel, Swap):
        x = np.asarray(x)[:number]
        first, ratios, noise = _swapped(target, kernel, x, seed)
    else:
        x = _possible_states(target, number, rng) if x is None else _away(target, x, number, rng)
        first, ratios = _descended(target, x, descents, rng)
        noise = _noise(target, first)
    costs = -ratios[np.isfinite(ratios)]
    if not np.any(costs > noise):  # misleading ratios can have only gains
        costs = np.abs(first[np.isfinite(first)])
    return _freezing(costs[costs > noise], len(x))


def _freezing(costs: np.ndarray, states: int) -> tuple[float, float]:
    """The two inverse temperatures, given what changes of some states cost."""
    from scipy.optimize import brentq  # takes long to import

    if not costs.size:  # flat, as far as can be seen
        return 1.0, 1.0
    parts = max(states, costs.size / PART)
    hot, allowed = np.log(HOT) / costs.max(), EXCESS * parts * np.quantile(costs, CHEAP)
    coldest = 2.0 * np.log(costs.sum() / allowed) / costs.min()  # as if all were the cheapest

    def excess(log_beta):
        return np.sum(costs * np.exp(-np.exp(log_beta) * costs)) - allowed

    log_cold: Any = brentq(excess, np.log(hot), np.log(coldest))
    return float(hot), float(np.exp(log_cold))


def _swapped(target: Target, kernel: Swap, x: np.ndarray, seed: int):
    """The log-ratios of swaps at states, those after swaps have improved them, and the noise."""
    # One pair at a time, all pairs equally likely.
    swap = Swap(kernel.groups, kernel.ones, balance=None, lengths="paper")
    affordable = OPERATIONS / operations(target) / len(x)
    steps = int(np.clip(affordable, SWAPS // 10, SWAPS))
    keys = jax.random.split(jax.random.key(seed), (len(x), steps))
    found = _swap_by_swap(target, swap, jnp.asarray(x), keys)
    gains, log_probs = (np.asarray(a, np.float64) for a in found)
    noise = _noise(target, log_probs)  # ratios are differences
    return gains[:, : steps // 10], gains[:, steps // 2 :], noise


@eqx.filter_jit
def _swap_by_swap(target: Target, swap: Swap, x: State, keys: Key[Array, "states steps"]):
    """What each swap of some states gains, taken if it is better, and the last log-probabilities.

    At infinite temperature a kernel accepts whatever it proposes that is possible.
    """
    hot = Powered(target, 0.0)

    def step(state, key):
        after, _ = swap.step(key, hot, state, jnp.ones((), target.dtype))
        gain = after.evaluation.cache.log_prob - state.evaluation.cache.log_prob
        return where(gain > 0, after, state), gain

    def one(x, keys):
        last, gains = jax.lax.scan(step, swap.init(hot, x), keys)
        return gains, last.evaluation.cache.log_prob

    return jax.vmap(one)(x, keys)


def _possible_states(target: Target, number: int, rng: np.random.Generator) -> np.ndarray:
    """Random states, drawn again where the density is zero."""
    below, shape = np.asarray(target.num_states_by_site), (number, *target.shape)
    x = rng.integers(0, below, shape).astype(target.state_dtype)
    for _ in range(1, ATTEMPTS):
        zero = _evaluated(target, x)[0] == -np.inf
        if not zero.any():
            break
        x = _where(zero, rng.integers(0, below, shape).astype(target.state_dtype), x)
    return x


def _away(target: Target, x: Any, number: int, rng: np.random.Generator) -> np.ndarray:
    """States to which random changes lead from those of x, which may be an optimum, and a poor one.

    Changes to states of zero density are left out.
    """
    x = np.resize(np.asarray(x), (number, *target.shape))
    for _ in range(WANDERED):
        ratios = _evaluated(target, x)[1].reshape(number, target.num_sites, -1)
        order = np.where(np.isfinite(ratios), rng.random(ratios.shape), -1.0)
        chosen = order.reshape(number, -1).argmax(axis=1)
        site, value = np.divmod(chosen, ratios.shape[2])
        rows, y = np.arange(number), x.reshape(number, -1).copy()
        y[rows, site] = value if ratios.shape[2] > 1 else 1 - y[rows, site]
        possible = np.isfinite(ratios[rows, site, value])
        x = _where(possible, y.reshape(x.shape), x)
    return x


def _effort(target: Target) -> tuple[int, int]:
    """How many states to look at, fewer if one has many sites, and evaluations of each."""
    affordable = OPERATIONS / evaluation_operations(target)
    most = np.clip(ENOUGH_SITES // target.num_sites, 1, LOOKED_AT)
    number = int(np.clip(10 * affordable / DESCENTS, 1, most))
    return number, int(np.clip(affordable / number, DESCENTS // 10, DESCENTS))


def _noise(target: Target, ratios: np.ndarray) -> float:
    """The size below which log-ratios count as zero, given the largest of them."""
    largest = np.abs(ratios[np.isfinite(ratios)]).max(initial=0.0)
    return float(ROUNDING * np.finfo(target.dtype).eps * largest)


def _descended(target: Target, x: np.ndarray, descents: int, rng: np.random.Generator):
    """The log-ratios at states, and those after all or most improvements of the states.

    Some of the sites that would each improve a state change at once: half of them, and fewer if
    that makes it worse, down to the best alone. If that is no better either, the state is done.
    """
    log_prob, ratios = _evaluated(target, x)
    first, share, noise = ratios, np.full(len(x), 0.5), _noise(target, ratios)
    done = np.zeros(len(x), bool)
    for _ in range(descents):
        gain, value = _best_changes(ratios, x)
        better = (gain > noise) & ~done[:, None]
        if not better.any():
            break
        some = rng.random(gain.shape) < share[:, None]
        some[np.arange(len(x)), gain.argmax(axis=1)] = True
        y = np.where(some & better, value, x.reshape(gain.shape)).reshape(x.shape)
        there, ratios_there = _evaluated(target, y.astype(x.dtype))
        taken = there > log_prob
        done |= ~taken & (np.sum(some & better, axis=1) <= 1)
        share = np.where(taken, np.minimum(2.0 * share, 0.5), 0.5 * share)
        x = _where(taken, y, x).astype(x.dtype)
        log_prob, ratios = _where(taken, there, log_prob), _where(taken, ratios_there, ratios)
    return first, ratios


def _best_changes(ratios: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gain of the best other value of each site, and that value, of shape (states, sites)."""
    flat = x.reshape(len(x), -1)
    known = np.where(np.isnan(ratios), -np.inf, ratios)
    if ratios.size == flat.size:
        return known.reshape(flat.shape), 1 - flat
    by_value = known.reshape(*flat.shape, -1)
    return by_value.max(axis=-1), by_value.argmax(axis=-1)  # the present value gains 0


def _where(chosen: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    """`yes` or `no` for each state."""
    return np.where(chosen.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)


def _evaluated(target: Target, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_prob, ratios = _log_prob_and_ratios(target, jnp.asarray(x))
    return np.asarray(log_prob, np.float64), np.asarray(ratios, np.float64)


@eqx.filter_jit
def _log_prob_and_ratios(target: Target, x: State):
    found = jax.vmap(target.evaluate)(x)
    return found.log_prob, found.log_ratios
