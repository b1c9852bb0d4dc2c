"""Sweeps over pairwise and Potts models in plain JAX, block by block: see `reference`.

Sites of a block are drawn at once, given all others. The random numbers of a site belong to its
position in the blocks, so that results do not depend on the order of drawing.

States have sites on the first axis and may have chains on the following ones, (n, *chains). All
chains look up the same neighbours, whose states then lie side by side in memory. `jax.vmap` of one
chain adds the axis of chains there.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

LEVELS = 2.0**31  # of a random number
ALMOST = 2147483520.0  # the largest float32 below that
UNROLLED = 16  # the most values for which a loop over them is unrolled
PADDING = 8  # entries of a table for one that counts; beyond this, sums by rows are cheaper


def side_by_side(varying: int):
    """A decorator: `jax.vmap` puts chains after sites, if they share all but some arguments.

    Args:
        varying: how many of the first arguments, key and states among them, may differ by chain.
    """

    def decorate(function):
        @functools.wraps(function)
        def call(*arrays, **settings):
            plain = functools.partial(_flat, function, varying, settings)
            run = jax.custom_batching.custom_vmap(plain)

            @run.def_vmap
            def rule(size, batched, *arrays):
                if any(batched[varying:]):  # chains have graphs of their own
                    axes = tuple(0 if b else None for b in batched)
                    return jax.vmap(plain, axes)(*arrays), (True, True)
                own = zip(arrays[:varying], batched, strict=False)
                moved = [
                    jnp.moveaxis(array, 0, -1) if b else _behind(array, size) for array, b in own
                ]
                found = run(*moved, *arrays[varying:])
                return tuple(jnp.moveaxis(part, -1, 0) for part in found), (True, True)

            return run(*arrays)

        return call

    return decorate


def _behind(array, size: int):
    """The array, repeated for `size` chains on a last axis."""
    return jnp.broadcast_to(array[..., None], (*array.shape, size))


def _flat(function, varying: int, settings, key, x, *more):
    """Call the function with several axes of chains as one."""
    chains = key.shape
    if len(chains) < 2:
        return function(key, x, *more, **settings)
    key, x = key.reshape(-1), x.reshape(len(x), -1)
    own = [array.reshape(-1) for array in more[: varying - 2]]
    more = (*own, *more[varying - 2 :])
    y, gain = function(key, x, *more, **settings)
    return y.reshape(len(x), *chains), gain.reshape(chains)


def neighbour_sums(
    sites: Int[Array, " m"], values: Array, start, neighbour, weight, degree: int
) -> Float[Array, "m ..."]:
    r"""$\sum_j J_{ij} v_j$ over the neighbours j of each of the sites i."""
    n, entries = start.size - 1, neighbour.size
    if not entries:
        return jnp.zeros((sites.size, *values.shape[1:]), weight.dtype)
    if _padded(n, entries, degree):
        row = jnp.searchsorted(start[1:], jnp.arange(entries), side="right")
        terms = _times(weight, values[neighbour])
        return jax.ops.segment_sum(terms, row, n, indices_are_sorted=True)[sites]
    place = start[sites][:, None] + jnp.arange(degree, dtype=jnp.int32)[None, :]
    inside = place < start[sites + 1][:, None]
    place = jnp.minimum(place, entries - 1)
    weights = jnp.where(inside, weight[place], 0.0)
    return jnp.sum(_times(weights, values[neighbour[place]]), axis=1)


def _padded(n: int, entries: int, degree: int) -> bool:
    """Whether a table of neighbours would be mostly empty, because a few sites have very many."""
    return degree * n > PADDING * (entries + n)


def _times(weight, values):
    by = weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim))
    return by * values.astype(weight.dtype)


def pair_fields(x, field, start, neighbour, weight, *, degree: int) -> Float[Array, " n"]:
    r"""The field $h_i + \sum_j J_{ij} s_j$ at every site, for bits x and spins s = 2x - 1."""
    spins = (2 * x - 1).astype(field.dtype)
    sites = jnp.arange(field.size)
    return field + neighbour_sums(sites, spins, start, neighbour, weight, degree)


def pair_update(fields, x, moved, field, start, neighbour, weight, *, degree: int):
    """The fields after the bits in `moved` were flipped."""
    y = x ^ moved.astype(x.dtype)
    return pair_fields(y, field, start, neighbour, weight, degree=degree)


def potts(x, field, start, neighbour, weight, *, degree: int):
    r"""Log-probability and log-ratios of a Potts model.

    With the energies $e_i(c) = h_i(c) + \sum_j J_{ij} [x_j = c]$, the log-ratio of site i and value
    c is $e_i(c) - e_i(x_i)$.
    """
    values = jnp.arange(field.shape[1], dtype=x.dtype)
    present = x[:, None] == values[None, :]
    code = present.astype(field.dtype)
    sums = neighbour_sums(jnp.arange(x.size), code, start, neighbour, weight, degree)
    energies = field + sums
    own = jnp.sum(jnp.where(present, energies, 0.0), axis=1)
    # Each pair is counted from both of its ends.
    log_prob = jnp.sum(jnp.where(present, field + 0.5 * sums, 0.0))
    return log_prob, energies - own[:, None]


def flip_chance(cost: Float[Array, "..."], metropolis: bool, keep: float) -> Float[Array, "..."]:
    """The probability of flipping a spin, if this lowers the log-probability by `cost`."""
    if metropolis:
        return keep * jnp.exp(-jnp.maximum(cost, 0.0))
    return jax.nn.sigmoid(-cost)


def flips(level: Int[Array, "..."], cost: Float[Array, "..."], metropolis: bool, keep: float):
    """Whether spins are flipped, given random numbers below 2^31."""
    chance = jnp.minimum(flip_chance(cost, metropolis, keep) * LEVELS, ALMOST)
    return level < chance.astype(jnp.int32)


@side_by_side(varying=4)
def spin_sweeps(
    key: Key[Array, "*chains"],
    x: Int[Array, "n *chains"],
    beta: Float[Array, "*chains"],
    gamma: Float[Array, "*chains"],
    field: Float[Array, " n"],
    base: Float[Array, " n"],
    blocks: Int[Array, "blocks size"],
    start: Int[Array, " n+1"],
    neighbour: Int[Array, " entries"],
    weight: Float[Array, " entries"],
    *,
    degree: int,
    metropolis: bool,
    keep: float,
    sweeps: int,
) -> tuple[Int[Array, "n *chains"], Float[Array, "*chains"]]:
    r"""Sweeps of $\beta (\sum J s s + \sum h s) + \gamma \sum b s$; also the gain of the bracket.

    Args:
        base: b.
        metropolis: Metropolis steps, accepted with probability `keep` at most; else Gibbs.
    """

    beta, gamma = jnp.asarray(beta)[None], jnp.asarray(gamma)[None]

    def draw(s, sites, level):
        sums = neighbour_sums(sites, s, start, neighbour, weight, degree)
        total, before = _beside(field[sites], s) + sums, s[sites].astype(field.dtype)
        cost = 2.0 * before * (beta * total + gamma * _beside(base[sites], s))
        flip = flips(level, cost, metropolis, keep)
        after = jnp.where(flip, -before, before).astype(s.dtype)
        return after, jnp.where(flip, -2.0 * before * total, 0.0)

    def levels(t):
        return _by_chain(lambda k: _levels(jax.random.fold_in(k, t), blocks.shape), key)

    s, gain = _swept((2 * x - 1).astype(jnp.int8), blocks, levels, draw, sweeps, field.dtype)
    return (s > 0).astype(x.dtype), gain


def _beside(numbers: Float[Array, " m"], values: Array) -> Float[Array, "m ..."]:
    """Numbers of sites, shaped to broadcast over the chains of `values`."""
    return numbers.reshape(numbers.shape + (1,) * (values.ndim - 1))


def _by_chain(function, key: Key[Array, "*chains"]) -> Array:
    """The results of a function for each key, with the axis of chains last."""
    return jax.vmap(function, out_axes=-1)(key) if key.ndim else function(key)


def _swept(values, blocks, numbers, draw, sweeps: int, dtype):
    """Sweeps block by block: the values of all sites, and their gains.

    Args:
        numbers: the random numbers of a sweep, given its number: one for each position.
        draw: new values of some sites and what each gains, given all values, the sites and their
            random numbers.
    """
    n = len(values)

    def block(carry, now):
        values, gain = carry
        sites, number = now  # padding has site n
        after, gained = draw(values, jnp.minimum(sites, n - 1), number)
        gain = gain + jnp.sum(jnp.where(_beside(sites < n, gained), gained, 0.0), axis=0)
        return (values.at[sites].set(after, mode="drop", unique_indices=True), gain), None

    def one(t, carry):
        return jax.lax.scan(block, carry, (blocks, numbers(t)))[0]

    return jax.lax.fori_loop(0, sweeps, one, (values, jnp.zeros(values.shape[1:], dtype)))


def _levels(key: Key[Array, ""], shape: tuple[int, ...]) -> Int[Array, "blocks size"]:
    """Random numbers below 2^31 for all positions: eight bits, then the other 23.

    A kernel draws the 23 only if the eight do not decide.
    """
    positions = math.prod(shape)
    quarter = -(-positions // 4)
    words = jax.random.bits(key, (quarter + positions,), jnp.uint32)
    high = jax.lax.bitcast_convert_type(words[:quarter], jnp.uint8).reshape(-1)[:positions]
    low = (words[quarter:] >> 9).astype(jnp.int32)
    return ((high.astype(jnp.int32) << 23) | low).reshape(shape)


def value_chances(
    energy: Float[Array, "*sites values"], now: Int[Array, "*sites"], metropolis: bool, keep: float
) -> tuple[Float[Array, "*sites values"], Bool[Array, "*sites values"]]:
    r"""The probability of going to each other value, and which value is the present one.

    For weights $w_c$ with sum Z: $w_c / Z$ by Gibbs; $w_c / \max(Z - w_x, Z - w_c)$, times
    `keep`, by Metropolis, proposed in proportion to the weights of the other values.
    """
    same = jax.nn.one_hot(now, energy.shape[-1], dtype=bool)
    weight = jnp.exp(energy - jnp.max(energy, axis=-1, keepdims=True))
    others = jnp.sum(jnp.where(same, 0.0, weight), axis=-1, keepdims=True)
    total = others + jnp.sum(jnp.where(same, weight, 0.0), axis=-1, keepdims=True)
    if metropolis:
        return jnp.where(same, 0.0, keep * weight / jnp.maximum(others, total - weight)), same
    return jnp.where(same, 0.0, weight / total), same


@side_by_side(varying=3)
def potts_sweeps(
    key: Key[Array, "*chains"],
    x: Int[Array, "n *chains"],
    beta: Float[Array, "*chains"],
    field: Float[Array, "n values"],
    blocks: Int[Array, "blocks size"],
    start: Int[Array, " n+1"],
    neighbour: Int[Array, " entries"],
    weight: Float[Array, " entries"],
    *,
    degree: int,
    metropolis: bool,
    keep: float,
    sweeps: int,
) -> tuple[Int[Array, "n *chains"], Float[Array, "*chains"]]:
    r"""Sweeps of $\beta (\sum J [x_i = x_j] + \sum h_i(x_i))$; also the gain of the bracket."""
    rows = (start, neighbour, weight, degree)
    small = field.shape[1] <= UNROLLED and not _padded(len(x), neighbour.size, degree)
    by = _draw_unrolled if small else _draw_by_axis

    def draw(x, sites, uniform):
        return by(x, sites, uniform, jnp.asarray(beta)[None], field, rows, metropolis, keep)

    def uniforms(t):
        def one(key):
            words = jax.random.bits(jax.random.fold_in(key, t), (blocks.size,), jnp.uint32)
            uniform = ((words.astype(field.dtype) + 0.5) * 2.0**-32).reshape(blocks.shape)
            return jnp.minimum(uniform, 1.0 - 2.0**-24)

        return _by_chain(one, key)

    return _swept(x, blocks, uniforms, draw, sweeps, field.dtype)


def _draw_by_axis(x, sites, uniform, beta, field, rows, metropolis, keep):
    """New values of some sites, and their gains, with tables (sites, values)."""
    if x.ndim > 1:
        one = functools.partial(
            _draw_by_axis, field=field, rows=rows, metropolis=metropolis, keep=keep
        )
        return jax.vmap(one, (-1, None, -1, -1), -1)(x, sites, uniform, beta)
    values = jnp.arange(field.shape[1], dtype=x.dtype)
    code = (x[:, None] == values[None, :]).astype(field.dtype)
    energy, before = field[sites] + neighbour_sums(sites, code, *rows), x[sites]
    chances, _ = value_chances(beta.reshape(()) * energy, before, metropolis, keep)
    place = jnp.sum(jnp.cumsum(chances, axis=1) <= uniform[:, None], axis=1)
    after = jnp.where(place < values.size, place.astype(x.dtype), before)
    return after, _at(energy, after) - _at(energy, before)


def _draw_unrolled(x, sites, uniform, beta, field, rows, metropolis, keep):
    """The same value by value: numbers of a site stay in registers, and no table is written."""
    own, (around, weights) = field[sites], _neighbours(sites, x, *rows)
    energy = [
        _beside(own[:, c], x) + jnp.sum(jnp.where(around == c, weights, 0.0), axis=1)
        for c in range(field.shape[1])
    ]
    return draw_value(energy, x[sites], uniform, beta, metropolis, keep)


def draw_value(energy, here, uniform, beta, metropolis: bool, keep: float):
    """New values of some sites, given the energy of each value, and their gains.

    Args:
        energy: an array of all sites for each value.
        here: their present values.
    """
    columns = range(len(energy))
    largest = functools.reduce(jnp.maximum, energy)
    weight = [jnp.exp(beta * (e - largest)) for e in energy]
    total = functools.reduce(jnp.add, weight)
    others = functools.reduce(
        jnp.add, [jnp.where(here == c, 0.0, w) for c, w in zip(columns, weight, strict=True)]
    )
    upto, after = jnp.zeros_like(total), here
    gained, before = jnp.zeros_like(total), jnp.zeros_like(total)
    for c, w, e in zip(columns, weight, energy, strict=True):
        chance = keep * w / jnp.maximum(others, total - w) if metropolis else w / total
        below = upto
        upto = upto + jnp.where(here == c, 0.0, chance)
        taken = (below <= uniform) & (uniform < upto)
        after = jnp.where(taken, jnp.asarray(c, here.dtype), after)
        gained = jnp.where(taken, e, gained)
        before = jnp.where(here == c, e, before)
    return after, jnp.where(after == here, 0.0, gained - before)


def _neighbours(sites: Int[Array, " m"], x: Int[Array, " n"], start, neighbour, weight, degree):
    """The values of each site's neighbours, and their couplings, padded with 0."""
    if not neighbour.size:
        found = x[sites][:, None]
        return found, jnp.zeros(found.shape, weight.dtype)
    place = start[sites][:, None] + jnp.arange(degree, dtype=jnp.int32)[None, :]
    inside = place < start[sites + 1][:, None]
    place = jnp.minimum(place, neighbour.size - 1)
    found, weights = x[neighbour[place]], jnp.where(inside, weight[place], 0.0)
    return found, weights.reshape(weights.shape + (1,) * (found.ndim - weights.ndim))


def _at(energy: Float[Array, "m values"], value: Int[Array, " m"]) -> Float[Array, " m"]:
    return jnp.take_along_axis(energy, value.astype(jnp.int32)[:, None], axis=1)[:, 0]
