"""The operations in plain JAX, with which the kernels must agree.

Drawing sites *with* replacement by weight, and skipping those drawn before, amounts to drawing them
without replacement, one after another. A choice of `length` sites therefore takes hardly more than
`length` draws, whatever N is; `race` says what bounds their number.

A draw takes two random words. The sites of a chain are laid out in rows of `columns(n)`: site i is
in row i // columns, column i % columns. The first word chooses a column by its weight, the second a
row of that column. Down a column, at most 16 weights are summed in order, in floating point. Over
the columns, sums are whole numbers, parts of about 2^31, which do not depend on the order of
addition. Implementations that compute a weight differently in its last bit therefore draw the same
sites, except where a level and a sum tie within that: about one draw in 10^6.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import balance as balancing
from hopscale.balance import Balance
from hopscale.native.evaluations import (
    fhmm,
    fhmm_update,
    hamming,
    ising,
    ising_log_prob,
    ising_update,
    rbm_inputs,
)
from hopscale.native.paths import (
    Flags,
    Sites,
    order_log_prob,
    repeated_log_prob,
    scored_draws,
    scored_order,
    settle,
)
from hopscale.native.sweeps import (
    pair_fields,
    pair_update,
    potts,
    potts_sweeps,
    spin_sweeps,
)
from hopscale.native.values import draw_values, value_totals, values_log_prob

__all__ = [
    "draw_values",
    "fhmm",
    "fhmm_update",
    "hamming",
    "ising",
    "ising_log_prob",
    "ising_update",
    "order_log_prob",
    "pair_fields",
    "pair_update",
    "potts",
    "potts_sweeps",
    "rbm_inputs",
    "repeated_log_prob",
    "settle",
    "spin_sweeps",
    "value_totals",
    "values_log_prob",
]


def step_key(key: Key[Array, ""], step: Int[Array, ""], chain: Int[Array, ""]):
    """The words of the key of a chain's step."""
    return jax.random.key_data(jax.random.fold_in(jax.random.fold_in(key, step), chain))


def words(key: Key[Array, ""], *, count: int) -> Int[Array, " count"]:
    """`count` random words."""
    return jax.random.bits(key, (count,), jnp.uint32)


ROWS = 16  # at most
PARTS = 2.0**31 - 2.0**19  # the total weight in whole numbers: below 2^31 despite rounding
ROUNDS = 8
CLOCKS = 0x72616365  # folded into the key for the clocks; later rounds add their number


def columns(n: int) -> int:
    """The number of columns for n sites: a power of two."""
    return max(128, 1 << (-(-n // ROWS) - 1).bit_length())


def most_draws(wanted):
    """The number of draws after which a round ends, even if it has not found `wanted` sites."""
    return 2 * wanted + 32


class Table(NamedTuple):
    """Cumulative weights. `usable` is false if their sum is not positive, or not finite."""

    upto: Float[Array, "rows columns"]
    edges: Int[Array, " columns"]
    usable: Bool[Array, ""]


def tabulate(log_weights: Float[Array, " n"]) -> Table:
    """Sums of weights down the columns, and their sums over the columns in whole numbers."""
    n = log_weights.size
    width = columns(n)
    weights = jnp.exp(log_weights - jnp.max(log_weights))
    weights = jnp.pad(weights, (0, -n % width)).reshape(-1, width)
    rows = [weights[0]]
    for row in weights[1:]:
        rows.append(rows[-1] + row)
    total = jnp.sum(jnp.sum(rows[-1].reshape(-1, 128), axis=0))  # in two steps, to round less
    usable = (total > 0) & (total < jnp.inf)
    parts = rows[-1] * (PARTS / jnp.where(usable, total, 1.0))
    parts = jnp.where(usable, parts, 0.0).astype(jnp.int32)
    return Table(upto=jnp.stack(rows), edges=jnp.cumsum(parts, dtype=jnp.int32), usable=usable)


def draw(table: Table, words: Int[Array, "draws 2"]) -> Int[Array, " draws"]:
    """The sites that pairs of random words fall on. None of them has weight zero."""
    rows, width = table.upto.shape
    level = _high_product(words[:, 0], table.edges[-1].astype(jnp.uint32)).astype(jnp.int32)
    column = jnp.searchsorted(table.edges, level, side="right", method="scan")
    column = jnp.minimum(column, width - 1)
    upto = table.upto[:, column]
    # Below the column's weight even when rounded.
    goal = uniform_numbers(words[:, 1], upto.dtype) * upto[-1]
    row = jnp.sum(upto <= goal[None, :], axis=0, dtype=jnp.int32)
    return jnp.minimum(row, rows - 1) * width + column.astype(jnp.int32)


def _high_product(a: Int[Array, " draws"], b: Int[Array, ""]) -> Int[Array, " draws"]:
    """The upper 32 bits of a product of 32-bit words."""
    low, high = a & 0xFFFF, a >> 16
    middle = high * (b & 0xFFFF) + (low * (b & 0xFFFF) >> 16)
    return high * (b >> 16) + (middle >> 16) + (low * (b >> 16) + (middle & 0xFFFF) >> 16)


def uniform_numbers(words: Int[Array, "*shape"], dtype) -> Float[Array, "*shape"]:
    """(b + 1/2) / 2^32 for words b, kept below 1.

    Floating point resolves small numbers to a relative 2^-24, or better.
    """
    return jnp.minimum((words.astype(dtype) + 0.5) * 2.0**-32, 1.0 - 2.0**-24)


class Chosen(NamedTuple):
    """The sites chosen so far, in order, and how many they are."""

    sites: Sites
    chosen: Flags
    count: Int[Array, ""]


def race(
    key: Key[Array, ""], values: Float[Array, " n"], length: Int[Array, ""], *, balance: Balance
) -> tuple[Sites, Flags, Float[Array, ""]]:
    """`length` sites without replacement, in order, and the log-probability of that order.

    Draws repeat endlessly if a few sites have most of the weight, or if most sites are wanted. They
    therefore come in rounds: after `most_draws` of them, the next round draws by the weights of the
    remaining sites. If `ROUNDS` rounds are not enough, a race of clocks chooses the rest at once.
    """
    log_weights, n = balancing.apply(balance, values), values.size
    length = jnp.clip(length, 0, n).astype(jnp.int32)

    def unfinished(state):
        number, usable, so_far = state
        return (number < ROUNDS) & usable & (so_far.count < length)

    def one_round(state):
        number, _, so_far = state
        left = jnp.where(so_far.chosen, -jnp.inf, log_weights)
        table = tabulate(left)
        folded = jax.random.fold_in(key, CLOCKS + number)
        own = jax.lax.cond(number == 0, lambda: key, lambda: folded)
        more = _draw_round(own, table, length, so_far)
        so_far = jax.tree.map(lambda a, b: jnp.where(table.usable, a, b), more, so_far)
        return number + 1, table.usable, so_far

    nobody = Chosen(jnp.zeros(n, jnp.int32), jnp.zeros(n, bool), jnp.int32(0))
    state = jnp.int32(0), jnp.bool_(True), nobody
    *_, so_far = jax.lax.while_loop(unfinished, one_round, state)
    # A loop of at most one iteration: under `vmap` it costs nothing if no chain needs it.
    clock_key = jax.random.fold_in(key, CLOCKS)
    sites, chosen, _ = jax.lax.while_loop(
        lambda so_far: so_far.count < length,
        lambda so_far: race_of_clocks(clock_key, log_weights, length, so_far),
        so_far,
    )
    return sites, chosen, scored_order(log_weights, sites, chosen, length, backwards=False)


def _draw_round(key, table: Table, length, so_far: Chosen) -> Chosen:
    """Draw until `length` sites are chosen or the round is over, some draws at a time."""
    n, some = so_far.sites.size, table.edges.size
    most = most_draws(length - so_far.count)
    words = jax.random.bits(key, (-(-most_draws(n) // some) * some, 2), jnp.uint32)

    def unfinished(state):
        first, so_far = state
        return (first < most) & (so_far.count < length)

    def draw_some(state):
        first, (sites, chosen, count) = state
        drawn = draw(table, jax.lax.dynamic_slice_in_dim(words, first, some))
        number = jnp.arange(some, dtype=jnp.int32)
        earliest = jnp.full(n, some, jnp.int32).at[drawn].min(number)
        fresh = (earliest[drawn] == number) & ~chosen[drawn] & (first + number < most)
        place = count + jnp.cumsum(fresh, dtype=jnp.int32) - 1
        kept = fresh & (place < length)
        sites = sites.at[jnp.where(kept, place, n)].set(drawn, mode="drop")
        chosen = chosen.at[jnp.where(kept, drawn, n)].set(True, mode="drop")
        return first + some, Chosen(sites, chosen, count + jnp.sum(kept, dtype=jnp.int32))

    return jax.lax.while_loop(unfinished, draw_some, (jnp.int32(0), so_far))[1]


def race_of_clocks(key: Key[Array, ""], log_weights, length, so_far: Chosen) -> Chosen:
    """The remaining sites, in the order of exponential times -log(1 - v) / w.

    Sites without weight come last, in order.
    """
    n, (sites, chosen, count) = log_weights.size, so_far
    v = uniform_numbers(jax.random.bits(key, (n,), jnp.uint32), log_weights.dtype)
    times = jnp.log(-jnp.log1p(-v)) - log_weights
    times = jnp.where(jnp.isnan(times), jnp.inf, times)
    # Chosen sites sort last: a site without weight never rings, but comes before those.
    order = jnp.lexsort((times, chosen)).astype(jnp.int32)
    place = count + jnp.arange(n, dtype=jnp.int32)
    kept = place < length
    return Chosen(
        sites=sites.at[jnp.where(kept, place, n)].set(order, mode="drop"),
        chosen=chosen.at[jnp.where(kept, order, n)].set(True, mode="drop"),
        count=jnp.maximum(count, length),
    )


def flags(sites: Sites, length: Int[Array, ""]) -> Flags:
    """Which sites are among the first `length`."""
    counted = jnp.arange(sites.size) < length
    return jnp.zeros(sites.size, bool).at[sites].max(counted)


def repeated(
    key: Key[Array, ""], values: Float[Array, " n"], length: Int[Array, ""], *, balance: Balance
) -> tuple[Sites, Flags, Float[Array, ""]]:
    """`length` independent draws of a site, and the log-probability of the sequence."""
    log_weights, n = balancing.apply(balance, values), values.size
    table = tabulate(log_weights)
    sites = draw(table, jax.random.bits(key, (n, 2), jnp.uint32))
    # If weights cannot be summed: always the heaviest site.
    heaviest = jnp.argmax(jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights))
    sites = jnp.where(table.usable, sites, heaviest.astype(jnp.int32))
    return sites, flags(sites, length), scored_draws(log_weights, sites, length)


def uniform(key: Key[Array, ""], length: Int[Array, ""], *, n: int) -> tuple[Sites, Flags]:
    """`length` sites without replacement, each as likely as any other."""
    return race(key, jnp.zeros(n, jnp.float32), length, balance=None)[:2]


def odd(sites: Sites, length: Int[Array, ""]) -> Flags:
    """The sites chosen an odd number of times."""
    counted = (jnp.arange(sites.size) < length).astype(jnp.int32)
    return jnp.zeros(sites.size, jnp.int32).at[sites].add(counted) % 2 == 1
