"""Between which temperatures a target freezes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale.runs.arguments import ATTEMPTS
from hopscale.target import State, Target
from hopscale.targets.ratios import evaluation_operations

HOT = 2.0  # one in two of the costliest changes is taken at the first beta
EXCESS = 0.003  # what changes cost on average at the last, in parts of a cheap change
PART = 200  # changes, of which that holds where a state has more
CHEAP = 0.1  # the share of changes that cost less than a cheap one
LOOKED_AT, ENOUGH_SITES = 16, 2**18  # states, and sites of all of them together, at most
DESCENTS = 100  # evaluations on the way to an optimum; most take a tenth of that
OPERATIONS = 2e10  # of all evaluations together, about: seconds
ROUNDING = 10.0  # resolutions of a number: less, beside the largest change, is nothing


def beta_range(target: Target, seed: int = 0, x: Any = None) -> tuple[float, float]:
    r"""Inverse temperatures between which a target freezes, from changes of one site at optima.

    Random states, or those of `x`, descend to where no change of a site is better. Every change
    from there has a cost c, and is taken with probability $e^{-\beta c}$. At the first beta, half
    of the costliest are taken. At the last, what those of a state (each 200 of them, where there
    are more) cost on average, $\sum c\, e^{-\beta c}$, is next to nothing beside a cheap one.
    Random states would not tell: far from optima, a penalty makes every change cost many times
    what the changes cost that are left to decide in the end.
    """
    from scipy.optimize import brentq  # takes long to import

    rng = np.random.default_rng(seed)
    number, descents = _effort(target)
    x = _possible_states(target, number, rng) if x is None else np.asarray(x)[:number]
    first, ratios = _descended(target, x, descents, rng)
    noise = _noise(target, first)
    costs = -ratios[np.isfinite(ratios)]
    if not np.any(costs > noise):  # ratios that mislead can have nothing but gains
        costs = np.abs(first[np.isfinite(first)])
    costs = costs[costs > noise]
    if not costs.size:  # flat, as far as can be seen
        return 1.0, 1.0
    parts = max(number, costs.size / PART)
    hot, allowed = np.log(HOT) / costs.max(), EXCESS * parts * np.quantile(costs, CHEAP)
    coldest = 2.0 * np.log(costs.sum() / allowed) / costs.min()  # as if all were the cheapest

    def excess(log_beta):
        return np.sum(costs * np.exp(-np.exp(log_beta) * costs)) - allowed

    log_cold: Any = brentq(excess, np.log(hot), np.log(coldest))
    return float(hot), float(np.exp(log_cold))


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


def _effort(target: Target) -> tuple[int, int]:
    """How many states to look at, few where one has many sites, and evaluations of each."""
    affordable = OPERATIONS / evaluation_operations(target)
    most = np.clip(ENOUGH_SITES // target.num_sites, 1, LOOKED_AT)
    number = int(np.clip(10 * affordable / DESCENTS, 1, most))
    return number, int(np.clip(affordable / number, DESCENTS // 10, DESCENTS))


def _noise(target: Target, ratios: np.ndarray) -> float:
    """What is nothing beside the largest of some log-ratios."""
    largest = np.abs(ratios[np.isfinite(ratios)]).max(initial=0.0)
    return float(ROUNDING * np.finfo(target.dtype).eps * largest)


def _descended(target: Target, x: np.ndarray, descents: int, rng: np.random.Generator):
    """The log-ratios at states, and those where all improvements have led, or most of them.

    Some of the sites that would each improve a state change at once: half of them, and fewer where
    that makes it worse, down to the best alone. Where that is no better either, a state is done.
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
    """What the best other value of each site gains, and that value, of shape (states, sites)."""
    flat = x.reshape(len(x), -1)
    known = np.where(np.isnan(ratios), -np.inf, ratios)
    if ratios.size == flat.size:
        return known.reshape(flat.shape), 1 - flat
    by_value = known.reshape(*flat.shape, -1)
    return by_value.max(axis=-1), by_value.argmax(axis=-1)  # the value it has gains 0


def _where(chosen: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    """One or the other for each state."""
    return np.where(chosen.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)


def _evaluated(target: Target, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_prob, ratios = _log_prob_and_ratios(target, jnp.asarray(x))
    return np.asarray(log_prob, np.float64), np.asarray(ratios, np.float64)


@eqx.filter_jit
def _log_prob_and_ratios(target: Target, x: State):
    found = jax.vmap(target.evaluate)(x)
    return found.log_prob, found.log_ratios
