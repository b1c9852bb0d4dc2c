r"""Balancing functions, in log space.

A proposal weighs the move x -> y by g(pi(y) / pi(x)). It is locally balanced when
$g(t) = t\, g(1/t)$ for every t > 0. Here a balancing function is a function
$\log t \mapsto \log g(t)$ of the log-ratio, so the condition reads
$\log g(s) = s + \log g(-s)$.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

LogBalance = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]

# As an argument: a name, a function log t -> log g(t), or None if values are log-weights already.
Balance = str | LogBalance | None


def sqrt(log_ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """g(t) = sqrt(t)."""
    return 0.5 * log_ratio


def barker(log_ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """g(t) = t / (t + 1)."""
    return jnp.minimum(log_ratio, 0.0) - softplus(-jnp.abs(log_ratio))


def softplus(s: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log(1 + e^s), for s of any size. XLA vectorises it, unlike `jnp.logaddexp`."""
    return jnp.maximum(s, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(s)))


def min(log_ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """g(t) = min(1, t)."""
    return jnp.minimum(0.0, log_ratio)


def max(log_ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """g(t) = max(1, t)."""
    return jnp.maximum(0.0, log_ratio)


NAMED: dict[str, LogBalance] = {"sqrt": sqrt, "barker": barker, "min": min, "max": max}


def resolve(balance: str | LogBalance) -> LogBalance:
    """The balancing function of that name, or the user's own log g after a check."""
    if isinstance(balance, str) and balance in NAMED:
        return NAMED[balance]
    if not callable(balance):
        kind = ValueError if isinstance(balance, str) else TypeError
        raise kind(
            f"balance must be one of {', '.join(map(repr, NAMED))} or a function "
            f"log t -> log g(t); got {balance!r}."
        )
    try:
        named = balance in NAMED.values()
        hash(balance)
    except TypeError as error:
        raise TypeError(
            f"balance must be hashable, because programs are compiled for it; got {balance!r}. "
            "Use a plain function."
        ) from error
    if not named:
        _check(balance)
    return balance


def by_name(balance: str | LogBalance) -> str | LogBalance:
    """The name of a function of this module, which kernels store; anything else unchanged."""
    for name, function in NAMED.items():
        if balance is function:
            return name
    return balance


def apply(balance: Balance, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Log-weights from log-ratios; if `balance` is None, the values unchanged."""
    return values if balance is None else resolve(balance)(values)


def _check(log_g: LogBalance) -> None:
    """Raise unless log g(s) = s + log g(-s) on a grid of s, to the accuracy of the arithmetic."""
    s = np.linspace(-12.0, 12.0, 49)
    with jax.ensure_compile_time_eval():
        forth = np.asarray(log_g(jnp.asarray(s)), np.float64)
        back = np.asarray(log_g(jnp.asarray(-s)), np.float64)
    if forth.shape != s.shape:
        raise ValueError(
            f"balance must map log-ratios of shape (49,) to log-weights of that shape; "
            f"got shape {forth.shape}."
        )
    with np.errstate(invalid="ignore"):
        gap = np.abs(forth - s - back)
    if not np.all(gap <= 1e-4 * (1.0 + np.abs(s))):  # also catches NaN
        worst = int(np.nanargmax(np.where(np.isnan(gap), np.inf, gap)))
        t = np.exp(s[worst])
        raise ValueError(
            "balance must satisfy g(t) = t g(1/t) for every t > 0, as a function of log t: "
            f"log g(s) = s + log g(-s). At t = {t:.4g} it gives log g(t) = {forth[worst]:.6g} "
            f"but log(t g(1/t)) = {s[worst] + back[worst]:.6g}. Any g can be balanced: "
            "use log g(s) = logaddexp(h(s), s + h(-s)) for your h."
        )
