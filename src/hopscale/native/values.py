"""Sites of several values in plain JAX: see `reference`.

A site is chosen first, then its value. A site's weight is the sum of g(ratio) over the values it
could take instead. All sites need that sum; only sites that were chosen draw a value.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import balance as balancing
from hopscale.balance import Balance

DRAWN_TOGETHER = 128  # values; sites beyond those chosen cost nothing
UNROLLED = 16  # the most values for which a loop over them is unrolled
VALUES = 0x76616C75  # folded into the key, plus the number of the block of draws
LARGE = 80.0  # a log-ratio beyond which g = t / (t + 1) is 1 to rounding

Values = Int[Array, " n"]
Table = Float[Array, "n values"]


def value_totals(ratios: Table, here: Values, *, balance: Balance) -> Float[Array, " n"]:
    r"""The log of the summed weights of each site's other values; small ones are not lost.

    For g = t / (t + 1), one exponential per entry and one logarithm per site suffice, by
    $t / (t + 1) = e^m \cdot e^{r - m} / (1 + e^{r})$ with m at most 0.
    """
    present = jnp.arange(ratios.shape[1])[None, :] == here[:, None]
    if balance != "barker" or ratios.shape[1] > UNROLLED:
        log_weights = balancing.apply(balance, ratios)
        return jax.nn.logsumexp(jnp.where(present, -jnp.inf, log_weights), axis=1)
    ratios = jnp.where(present, -jnp.inf, ratios)
    # Value by value: sums over a short last axis would not be vectorised.
    columns = [jnp.minimum(ratios[:, c], LARGE) for c in range(ratios.shape[1])]
    top = jnp.minimum(functools.reduce(jnp.maximum, columns), 0.0)
    top = jnp.where(top == -jnp.inf, 0.0, top)  # a site without weight keeps none
    scaled = [jnp.exp(column - top) for column in columns]
    total = functools.reduce(jnp.add, [each / (1.0 + each * jnp.exp(top)) for each in scaled])
    return jnp.log(total) + top


def draw_values(
    key: Key[Array, ""],
    ratios: Table,
    here: Values,
    sites: Int[Array, " n"],
    length: Int[Array, ""],
    *,
    balance: Balance,
) -> Values:
    """A new value by weight for each of the first `length` sites; the others keep theirs."""
    n = sites.size
    length = jnp.minimum(length, n)
    size = min(DRAWN_TOGETHER, n)
    sites = jnp.pad(sites, (0, -n % size))

    def some(state):
        number, values = state
        chosen = jax.lax.dynamic_slice(sites, (number * size,), (size,))
        words = jax.random.bits(jax.random.fold_in(key, VALUES + number), (size,), jnp.uint32)
        drawn = _by_weight(_uniform(words, ratios.dtype), _log_weights(chosen))
        counted = number * size + jnp.arange(size) < length
        return number + 1, values.at[jnp.where(counted, chosen, n)].set(
            drawn.astype(here.dtype), mode="drop"
        )

    def _log_weights(chosen):
        present = jnp.arange(ratios.shape[1])[None, :] == here[chosen][:, None]
        return jnp.where(present, -jnp.inf, balancing.apply(balance, ratios[chosen]))

    first = jnp.int32(0), here
    return jax.lax.while_loop(lambda state: state[0] * size < length, some, first)[1]


def _uniform(words: Int[Array, " m"], dtype) -> Float[Array, " m"]:
    return jnp.minimum((words.astype(dtype) + 0.5) * 2.0**-32, 1.0 - 2.0**-24)


def _by_weight(uniform: Float[Array, " m"], log_weights: Float[Array, "m s"]) -> Int[Array, " m"]:
    """A value for each row, by inversion."""
    top = jnp.max(log_weights, axis=1, keepdims=True)
    total = jnp.cumsum(jnp.exp(log_weights - jnp.where(jnp.isfinite(top), top, 0.0)), axis=1)
    beyond = total > (uniform * total[:, -1])[:, None]
    # If rounding leaves none beyond, or nothing has weight: the heaviest.
    found = jnp.where(beyond[:, -1], jnp.argmax(beyond, axis=1), jnp.argmax(log_weights, axis=1))
    return found.astype(jnp.int32)


def values_log_prob(
    ratios: Table,
    here: Values,
    totals: Float[Array, " n"],
    values: Values,
    moved: Bool[Array, " n"],
    *,
    balance: Balance,
) -> Float[Array, ""]:
    """Log-probability of the values of the sites that move, given `value_totals`."""
    del here
    taken = jnp.take_along_axis(ratios, values.astype(jnp.int32)[:, None], axis=1)[:, 0]
    taken = balancing.apply(balance, taken)
    steps = jnp.where(taken == -jnp.inf, -jnp.inf, taken - totals)
    return jnp.sum(jnp.where(moved, steps, 0.0))
