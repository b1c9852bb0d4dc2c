"""Checks of arguments of `sample`: errors say what was needed, what was given and what to do."""

from collections.abc import Callable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hopscale.devices import Devices
from hopscale.engine.loop import Chains
from hopscale.kernels.kernel import ChainState, Kernel
from hopscale.target import State, Target, check_values
from hopscale.targets.ratios import STATES
from hopscale.tune import Tuner
from hopscale.validate import InvalidDensityError, array, count, instance, kind_of

ATTEMPTS = 100  # to find a state of positive density for a chain to start from
MOST_STEPS = 2**31 - 2**12  # step numbers are 32-bit integers


def check(target: Any, kernel: Any, scale: Any, chains, warmup, draws, chunk) -> None:
    """Raise for arguments of `sample` that cannot work."""
    if not isinstance(target, Target):
        raise TypeError(
            f"target must be a hopscale target, such as hs.Bernoulli(p); got {kind_of(target)}. "
            "Wrap a function of one state in hs.LogDensity(fn, shape)."
        )
    target.check()
    instance("kernel", kernel, Kernel, "hs.LBP()")
    kernel.check(target)
    if scale is not None:
        instance("scale", scale, Tuner, "hs.Tuned() or hs.Fixed(R)")
    count("chains", chains, minimum=1)
    count("warmup", warmup, minimum=0)
    count("draws", draws, minimum=1)
    if warmup + draws > MOST_STEPS:
        raise ValueError(
            f"a run has at most {MOST_STEPS:,} steps; got warmup + draws = {warmup + draws:,}."
        )
    if chunk is not None:
        count("chunk", chunk, minimum=1)


def chosen(kernel: Any, sampler: Any) -> Any:
    """The kernel, given by either of its two names."""
    if kernel is not None and sampler is not None:
        raise TypeError("kernel and sampler are two names for one argument; give one of them.")
    return sampler if kernel is None else kernel


def thinning(keep: Any, draws: int) -> int | None:
    """How many steps lie between two kept states; None if the loop keeps none."""
    if keep is None or (isinstance(keep, str) and keep == "last"):
        return None
    if isinstance(keep, str) and keep == "all":
        return 1
    if isinstance(keep, bool) or not isinstance(keep, int | np.integer) or keep < 1:
        raise ValueError(f"keep must be None, 'all', 'last' or n > 0 for every n-th; got {keep!r}.")
    if keep > draws:
        raise ValueError(f"keep={keep} keeps every {keep}-th of {draws} draws, which is none.")
    return int(keep)


def devices(given: Any, chains: int) -> Devices:
    """The devices over which chains are divided; empty for None, JAX's default."""
    if given is None:
        return ()
    listed = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not listed or not all(isinstance(one, jax.Device) for one in listed):
        raise TypeError(
            "devices must be a JAX device, such as jax.devices('cpu')[0], a list of them, such as "
            f"jax.devices(), or None; got {given!r}."
        )
    if len(set(listed)) < len(listed):
        raise ValueError(f"devices must name each device once; got {given!r}.")
    platforms = sorted({one.platform for one in listed})
    if len(platforms) > 1:
        raise ValueError(
            f"devices must be of one platform; got {' and '.join(platforms)}. Take those of one, "
            f"such as jax.devices({platforms[-1]!r})."
        )
    if chains % len(listed):
        fewer = chains // len(listed) * len(listed)
        near = [str(n) for n in (fewer, fewer + len(listed)) if n]
        raise ValueError(
            f"chains must be a multiple of the number of devices, which have equally many; got "
            f"{chains} chains for {len(listed)} devices. Use {' or '.join(near)} chains, or "
            f"{_divisor(chains, len(listed))} of the devices."
        )
    return listed


def _divisor(number: int, most: int) -> int:
    """The largest divisor of a number that is at most `most`."""
    return next(n for n in range(most, 0, -1) if number % n == 0)


def random_states(target: Target, number: int, key: Key[Array, ""]) -> np.ndarray:
    """States in which all values are equally likely, drawn by NumPy, which compiles nothing."""
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    below, shape = np.asarray(target.num_states_by_site), (number, *target.shape)
    return generator.integers(0, below, shape, target.state_dtype)


def for_attempt(key: Key[Array, ""], attempt: int) -> Key[Array, ""]:
    """The key of this attempt at a starting state; the first attempt uses the key itself."""
    return jax.random.fold_in(key, attempt) if attempt else key


def initial_states(
    target: Target, kernel: Kernel, chains: int, init: Any, key: Key[Array, ""]
) -> State:
    """One starting state for each chain."""
    if init is None:
        own = kernel.starts(key, target, chains)
        own = target.starts(key, chains) if own is None else own
        return jax.device_put(random_states(target, chains, key) if own is None else own)
    x = array("init", init)
    if x.shape not in (target.shape, (chains, *target.shape)):
        raise ValueError(
            f"init must have the target's shape {target.shape}, one state for all chains, or "
            f"{(chains, *target.shape)}, one for each; got {x.shape}."
        )
    if not (np.issubdtype(x.dtype, np.integer) or x.dtype == bool):
        raise TypeError(
            f"init must hold integers 0 ... {target.num_states - 1}; got dtype {x.dtype}. "
            "Convert it with .astype('int8')."
        )
    check_values("init must hold", x, target.num_states_by_site)
    x = np.broadcast_to(x, (chains, *target.shape)).astype(target.state_dtype)
    kernel.check_starts(target, x)
    return jax.device_put(x)


def states_to_compare(
    target: Target, kernel: Kernel, init: Any = None, chains: int = STATES
) -> State:
    """States at which log-ratios are compared: those given, else some from a fixed key."""
    number = STATES if init is None else chains
    return initial_states(target, kernel, number, init, jax.random.key(0))


def begin_where_possible(
    begin: Callable[[State], Chains], x: State, others: Callable[[int], State] | None
) -> Chains:
    """Start chains at their first states, or at others if the density is zero there.

    Args:
        begin: evaluates first states.
        x: the first states.
        others: other states, given the number of an attempt; None: there are no others. Chains
            whose states all have zero density begin where other chains do.
    """
    chains = begin(x)
    for attempt in range(1, ATTEMPTS + 1):
        zero = np.asarray(chains.states.log_prob) == -np.inf
        if others is None or not zero.any():
            break
        fresh = others(attempt) if attempt < ATTEMPTS else _of_possible_chains(x, zero)
        x = jnp.where(zero.reshape(zero.shape + (1,) * (x.ndim - zero.ndim)), fresh, x)
        chains = begin(x)
    return chains


def _of_possible_chains(x: State, zero: np.ndarray) -> np.ndarray:
    """For each chain, the state of a chain that has positive density, taken in turn."""
    possible_first = np.argsort(zero, axis=-1, kind="stable")
    number = np.maximum(np.sum(~zero, axis=-1, keepdims=True), 1)
    chosen = np.take_along_axis(possible_first, np.arange(zero.shape[-1]) % number, axis=-1)
    axis = zero.ndim - 1
    chosen = chosen.reshape(chosen.shape + (1,) * (x.ndim - zero.ndim))
    return np.take_along_axis(np.asarray(x), chosen, axis=axis)


def finite_start(chains: ChainState, target: Target, given: bool = True) -> None:
    """Raise if a chain starts where the density is zero or not a number."""
    x = np.asarray(chains.x).reshape(-1, *target.shape)
    log_prob = np.asarray(chains.log_prob).reshape(-1)
    bad = np.flatnonzero(~np.isfinite(log_prob))
    if bad.size:
        chain = int(bad[0])
        advice = "Pass starting states in `init`."
        if not given and np.any(log_prob == -np.inf):
            advice = f"{ATTEMPTS} random states were tried for each. {advice}"
        if np.all(np.isnan(log_prob)):  # other states would not help
            advice = (
                "It is not a number at any of them: look for 0 / 0, inf - inf or the logarithm of "
                "a negative number in it."
            )
        raise ValueError(
            f"the log-density must be finite where chains start; it is {log_prob[chain]} for "
            f"{bad.size} of {log_prob.size} chains, first for chain {chain} at "
            f"{_shown(x[chain])}. {advice}"
        )
    if chains.log_ratios is None:
        return
    if np.all(_of_others(np.asarray(chains.log_ratios), x, target) == -np.inf):
        swap = (
            "If the number of ones is fixed, use hs.Swap(ones=k), and leave the constraint out of "
            "the density, for swaps keep it, or pass balance=None too; else let"
        )
        raise ValueError(
            "every state one site away from where chains start is impossible (log-ratios of "
            f"-inf), first from {_shown(x[0])}: no site has weight in a proposal. "
            f"{swap if target.num_states == 2 else 'Let'} the density be small, not zero, off the "
            "constraint; or use hs.RWM() with scale=hs.Fixed(R), R being how many sites have to "
            "change together."
        )
    ratios = np.isnan(np.asarray(chains.log_ratios)).reshape(log_prob.size, -1).any(axis=1)
    if ratios.any():
        chain = int(ratios.argmax())
        raise ValueError(
            f"the log-ratios must be numbers where chains start; they hold NaN for chain {chain} "
            f"at {_shown(x[chain])}. Pass starting states in `init`, or check "
            "the gradient of the log-density there."
        )


def _of_others(log_ratios: np.ndarray, x: np.ndarray, target: Target) -> np.ndarray:
    """The log-ratios of each site's other values; -inf at its present value."""
    if target.num_states == 2:
        return log_ratios
    each = log_ratios.reshape(*x.shape, target.num_states)
    return np.where(np.arange(target.num_states) == x[..., None], -np.inf, each)


def all_invalid(proposals: int, offender: np.ndarray | None) -> NoReturn:
    """Raise because every proposal was invalid."""
    raise InvalidDensityError(
        f"the log-density or its ratios were NaN or +inf at all {proposals:,} proposals, first at "
        f"{_shown(np.asarray(offender))}. Check target.evaluate at that state."
    )


def _shown(x: np.ndarray) -> str:
    return f"x = {np.array2string(x, threshold=20, separator=', ')}"
