"""Choosing sites by weight, and the probability of the choice.

Three ways to choose `length` of N sites, and one in which their number is random:

- `race`: one after the other without replacement, each time with probability proportional to
  weight among the remaining sites (LBP);
- `repeated`: with replacement (GWG);
- `uniform`: without replacement, all weights equal (RWM);
- `independent`: each site by itself, with its own odds (DMALA).

`length` is dynamic, so tuning it never recompiles. Arrays have room for N choices, and only the
first `length` entries are meaningful. Random numbers depend only on the key and the number of a
draw.

This is the hot spot of a step. Each function has a plain JAX reference and native kernels:
`implementation` "auto" uses kernels where they exist, "reference" never does (see `native.call`).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import native
from hopscale.balance import Balance
from hopscale.move import Choice


class Weights(NamedTuple):
    """The weights of all sites: log-ratios, and the balancing function still to be applied.

    Native kernels that know the function apply it as they read the values. If `balance` is None,
    `values` are log-weights.
    """

    values: Float[Array, " n"]
    balance: Balance


def race(
    key: Key[Array, ""], weights: Weights, length: Int[Array, ""], *, implementation: str = "auto"
) -> tuple[Choice, Float[Array, ""]]:
    """Draw `length` sites without replacement; also return the log-probability of their order."""
    values, balance = weights
    sites, chosen, log_prob = native.call(
        "race", key, values, length, balance=balance, implementation=implementation
    )
    return Choice(sites=sites, chosen=chosen, length=length), log_prob


def order_log_prob(
    weights: Weights, choice: Choice, backwards: bool = False, *, implementation: str = "auto"
) -> Float[Array, ""]:
    r"""Log-probability of drawing these sites in this order, without replacement.

    $$\log q(u) = \sum_{r=1}^{R} \log w_{u_r} - \log\Big(W(u) + \sum_{i=r}^{R} w_{u_i}\Big)$$

    where W(u) is the weight of the sites not chosen. `backwards` scores the order
    u_R, ..., u_1, the way back of Eq. (5), for which the inner sum runs over i <= r.
    """
    values, balance = weights
    return native.call(
        "order_log_prob",
        values,
        *choice,
        balance=balance,
        backwards=backwards,
        implementation=implementation,
    )


def repeated(
    key: Key[Array, ""], weights: Weights, length: Int[Array, ""], *, implementation: str = "auto"
) -> tuple[Choice, Float[Array, ""]]:
    """Draw `length` sites with replacement; also return the log-probability of the sequence."""
    values, balance = weights
    sites, chosen, log_prob = native.call(
        "repeated", key, values, length, balance=balance, implementation=implementation
    )
    return Choice(sites=sites, chosen=chosen, length=length), log_prob


def repeated_log_prob(
    weights: Weights, choice: Choice, *, implementation: str = "auto"
) -> Float[Array, ""]:
    r"""$\log q(u) = \sum_{r=1}^{R} \log w_{u_r} - R \log \sum_i w_i$."""
    values, balance = weights
    return native.call(
        "repeated_log_prob",
        values,
        choice.sites,
        choice.length,
        balance=balance,
        implementation=implementation,
    )


def odd(choice: Choice, *, implementation: str = "auto") -> Bool[Array, " n"]:
    """The sites chosen an odd number of times."""
    return native.call("odd", choice.sites, choice.length, implementation=implementation)


def uniform(
    key: Key[Array, ""], n: int, length: Int[Array, ""], *, implementation: str = "auto"
) -> Choice:
    """Draw `length` sites without replacement, all equally likely."""
    sites, chosen = native.call("uniform", key, length, n=n, implementation=implementation)
    return Choice(sites=sites, chosen=chosen, length=length)


def independent(key: Key[Array, ""], log_odds: Float[Array, " n"]) -> Choice:
    """Choose each site by itself, with these log-odds. Probabilities are exact to 2^-32."""
    words = native.call("words", key, count=log_odds.size)
    below = native.reference.uniform_numbers(words, log_odds.dtype)
    above = native.reference.uniform_numbers(~words, log_odds.dtype)
    return flagged(jnp.log(below) - jnp.log(above) < log_odds)


def flagged(chosen: Bool[Array, " n"]) -> Choice:
    """The choice of the sites that are flagged, in the order of their indices."""
    sites = jnp.nonzero(chosen, size=chosen.size, fill_value=0)[0].astype(jnp.int32)
    return Choice(sites=sites, chosen=chosen, length=jnp.sum(chosen, dtype=jnp.int32))


def listed(sites: Int[Array, " n"], length: Int[Array, ""]) -> Choice:
    """The choice of the first `length` of these sites."""
    return Choice(sites=sites, chosen=native.reference.flags(sites, length), length=length)
