"""Checks of what a user passes in: what was needed, what came, what to do."""

from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hopscale.sampler import ChainState, Sampler
from hopscale.scale import Tuner
from hopscale.target import State, Target


class InvalidDensityError(ArithmeticError):
    """The log-density was NaN or +inf wherever it was needed."""


def arguments(target: Any, sampler: Any, scale: Any, chains, warmup, draws, chunk) -> None:
    """Raise for arguments of `sample` that cannot work."""
    if not isinstance(target, Target):
        raise TypeError(
            f"target must be a hopscale target, such as hs.Bernoulli(p); got "
            f"{type(target).__name__}. Wrap a function of one state in hs.LogDensity(fn, shape)."
        )
    _instance("sampler", sampler, Sampler, "hs.LBP()")
    _instance("scale", scale, Tuner, "hs.Adaptive() or hs.Fixed(R)")
    scale.check(target.num_sites)
    count("chains", chains, least=1)
    count("warmup", warmup, least=0)
    count("draws", draws, least=1)
    if chunk is not None:
        count("chunk", chunk, least=1)


def _instance(name: str, value: Any, needed: type, example: str) -> None:
    if not isinstance(value, needed):
        what = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        raise TypeError(f"{name} must be such as {example}; got {what}.")


def count(name: str, value: Any, least: int) -> None:
    """Raise unless value is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer; got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}.")


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


def as_key(key: Any) -> Key[Array, ""]:
    """A seed, an old-style key or a key, as a key."""
    if isinstance(key, bool | float):
        raise TypeError(f"key must be an integer seed or a JAX key; got {key!r}.")
    if isinstance(key, int | np.integer):
        if not -(2**63) <= key < 2**64:
            raise ValueError(f"a seed has at most 64 bits; got {key}.")
        return jax.random.key(int(key))
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.shape == ():
            return key
    elif getattr(key, "dtype", None) == np.uint32 and getattr(key, "shape", None) == (2,):
        return jax.random.wrap_key_data(jnp.asarray(key))
    raise TypeError(f"key must be an integer seed or one JAX key, jax.random.key(0); got {key!r}.")


def initial_states(target: Target, chains: int, init: Any, key: Key[Array, ""]) -> State:
    """One starting state for each chain."""
    if init is None:
        x = jax.random.randint(key, (chains, *target.shape), 0, target.num_states)
        return x.astype(target.state_dtype)
    x = np.asarray(init)
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
    if x.size and (x.min() < 0 or x.max() >= target.num_states):
        raise ValueError(
            f"init must hold values 0 ... {target.num_states - 1}; it ranges over "
            f"[{x.min()}, {x.max()}]. Spins s = -1, 1 are bits x = (s + 1) / 2."
        )
    return jnp.asarray(np.broadcast_to(x, (chains, *target.shape)).astype(target.state_dtype))


def statistic(function: Any, target: Target) -> None:
    """Raise unless the function maps one state to one number."""
    if not callable(function):
        raise TypeError(f"statistic must be a function of one state; got {function!r}.")
    state = jax.ShapeDtypeStruct(target.shape, target.state_dtype)
    out = jax.eval_shape(function, state)
    real = hasattr(out, "dtype") and not jnp.issubdtype(out.dtype, jnp.complexfloating)
    if not real or out.shape != ():
        raise ValueError(f"statistic must return one real number for one state; it returns {out}.")


def finite_start(chains: ChainState) -> None:
    """Raise if a chain starts where the density is zero or not a number."""
    log_prob = np.asarray(chains.log_prob)
    bad = np.flatnonzero(~np.isfinite(log_prob))
    if bad.size:
        chain = int(bad[0])
        raise ValueError(
            f"the log-density must be finite where chains start; it is {log_prob[chain]} for "
            f"{bad.size} of {log_prob.size} chains, first for chain {chain} at "
            f"{_shown(np.asarray(chains.x[chain]))}. Pass starting states in `init`."
        )
    if chains.log_ratios is None:
        return
    ratios = np.asarray(jnp.any(jnp.isnan(chains.log_ratios.reshape(log_prob.size, -1)), axis=1))
    if ratios.any():
        chain = int(ratios.argmax())
        raise ValueError(
            f"the log-ratios must be numbers where chains start; they hold NaN for chain {chain} "
            f"at {_shown(np.asarray(chains.x[chain]))}. Pass starting states in `init`, or check "
            "the gradient of the log-density there."
        )


def all_invalid(proposals: int, offender: np.ndarray | None) -> NoReturn:
    """Raise because no proposal could be judged."""
    raise InvalidDensityError(
        f"the log-density or its ratios were NaN or +inf at all {proposals:,} proposals, first at "
        f"{_shown(np.asarray(offender))}. Check target.evaluate at that state."
    )


def _shown(x: np.ndarray) -> str:
    return f"x = {np.array2string(x, threshold=20, separator=', ')}"
