"""The operations in plain JAX: what the kernels must agree with.

The race gives every site a clock that rings after an exponential time,
T_i = -log(1 - v_i) / w_i with v_i uniform; the first `length` sites to ring, in order, are the
choice. All N arrivals are sorted, which costs far more than the rest of a step.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import balance as balancing
from hopscale import lattice
from hopscale.balance import Balance

Sites = Int[Array, " n"]
Flags = Bool[Array, " n"]


def clocks(key: Key[Array, ""], n: int, dtype) -> Float[Array, " n"]:
    """Standard exponential times -log(1 - v), one a site.

    v is (b + 1/2) / 2^32 for the 32 random bits b of the site, kept below 1: floating point
    resolves the small v, which are the early arrivals, to a relative 2^-24.
    """
    bits = jax.random.bits(key, (n,), jnp.uint32)
    v = jnp.minimum((bits.astype(dtype) + 0.5) * 2.0**-32, 1.0 - 2.0**-24)
    return -jnp.log1p(-v)


def race(
    key: Key[Array, ""], values: Float[Array, " n"], length: Int[Array, ""], *, balance: Balance
) -> tuple[Sites, Flags, Float[Array, ""]]:
    """The first `length` sites to ring, in order, and the log-probability of that order."""
    log_weights = balancing.apply(balance, values)
    times = jnp.log(clocks(key, log_weights.size, log_weights.dtype)) - log_weights
    sites = jnp.argsort(times, stable=True).astype(jnp.int32)
    chosen = flags(sites, length)
    return sites, chosen, _order_log_prob(log_weights, sites, chosen, length, backwards=False)


def flags(sites: Sites, length: Int[Array, ""]) -> Flags:
    """Which sites are among the first `length`."""
    counted = jnp.arange(sites.size) < length
    return jnp.zeros(sites.size, bool).at[sites].max(counted)


def order_log_prob(
    values: Float[Array, " n"],
    sites: Sites,
    chosen: Flags,
    length: Int[Array, ""],
    *,
    balance: Balance,
    backwards: bool,
) -> Float[Array, ""]:
    """Log-probability that sites without replacement are chosen in this order."""
    return _order_log_prob(balancing.apply(balance, values), sites, chosen, length, backwards)


def _order_log_prob(log_weights, sites, chosen, length, backwards: bool):
    counted = jnp.arange(sites.size) < length
    rest = jax.nn.logsumexp(jnp.where(chosen, -jnp.inf, log_weights))
    along = jnp.where(counted, log_weights.at[sites].get(mode="clip"), -jnp.inf)
    left = jax.lax.cumlogsumexp(along, reverse=not backwards)
    # A site without weight has probability 0, also where nothing else is left (-inf - -inf).
    steps = jnp.where(along == -jnp.inf, -jnp.inf, along - jnp.logaddexp(left, rest))
    return jnp.sum(jnp.where(counted, steps, 0.0))


def repeated(
    key: Key[Array, ""], values: Float[Array, " n"], length: Int[Array, ""], *, balance: Balance
) -> tuple[Sites, Flags, Float[Array, ""]]:
    """`length` independent draws of a site, and the log-probability of the sequence."""
    log_weights, n = balancing.apply(balance, values), values.size
    weights = jnp.exp(log_weights - jnp.max(log_weights))
    cumulative = jnp.cumsum(weights)
    bits = jax.random.bits(key, (n,), jnp.uint32)
    level = (bits.astype(weights.dtype) + 0.5) * 2.0**-32 * cumulative[-1]
    # Rounding may carry a level to the total: the last site with weight takes it.
    last = n - 1 - jnp.argmax(weights[::-1] > 0)
    sites = jnp.minimum(jnp.searchsorted(cumulative, level, side="right"), last).astype(jnp.int32)
    return sites, flags(sites, length), _repeated_log_prob(log_weights, sites, length)


def repeated_log_prob(
    values: Float[Array, " n"], sites: Sites, length: Int[Array, ""], *, balance: Balance
) -> Float[Array, ""]:
    """Log-probability of a sequence of draws with replacement."""
    return _repeated_log_prob(balancing.apply(balance, values), sites, length)


def _repeated_log_prob(log_weights, sites, length):
    counted = jnp.arange(sites.size) < length
    along = log_weights.at[sites].get(mode="clip")
    total = jax.nn.logsumexp(log_weights)
    steps = jnp.where(along == -jnp.inf, -jnp.inf, along - total)
    return jnp.sum(jnp.where(counted, steps, 0.0))


def uniform(key: Key[Array, ""], length: Int[Array, ""], *, n: int) -> tuple[Sites, Flags]:
    """The sites of the `length` smallest random words."""
    sites = jnp.argsort(jax.random.bits(key, (n,), jnp.uint32), stable=True).astype(jnp.int32)
    return sites, flags(sites, length)


def odd(sites: Sites, length: Int[Array, ""]) -> Flags:
    """The sites chosen an odd number of times."""
    counted = (jnp.arange(sites.size) < length).astype(jnp.int32)
    return jnp.zeros(sites.size, jnp.int32).at[sites].add(counted) % 2 == 1


def ising(x: Int[Array, "p q"], field: Float[Array, "p q"], down, right):
    """Log-probability and log-ratios of spins with one coupling along each axis."""
    return lattice.evaluate(x, field, (down, right))


def ising_log_prob(x: Int[Array, "p q"], field: Float[Array, "p q"], down, right):
    """Log-probability alone."""
    return ising(x, field, down, right)[0]


def hamming(x: Int[Array, "*shape"], origin: Int[Array, "*shape"]) -> Float[Array, ""]:
    """The number of sites that differ."""
    return jnp.sum(x != origin, dtype=jnp.int32).astype(jnp.float32)


def rbm_inputs(
    inputs: Float[Array, " hidden"],
    x: Int[Array, " visible"],
    moved: Bool[Array, " visible"],
    by_visible: Float[Array, "visible hidden"],
) -> Float[Array, " hidden"]:
    """What the hidden units of an RBM receive after some visible units were flipped."""
    turn = jnp.where(moved, 1.0 - 2.0 * x.astype(inputs.dtype), 0.0)
    return inputs + jnp.matmul(turn, by_visible, precision=jax.lax.Precision.HIGHEST)
