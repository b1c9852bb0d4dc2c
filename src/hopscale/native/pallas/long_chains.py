"""The work that XLA does with the whole device, for chains too long for one program to be fast."""

import itertools

import jax.numpy as jnp
import numpy as np

from hopscale.native import reference
from hopscale.native.pallas import parts
from hopscale.native.pallas.table import NEVER
from hopscale.native.pallas.weights import Weighing


def weights(values, weighing: Weighing):
    """The unit of weights, and the weights in it."""
    unit = weighing.unit(jnp.max(jnp.where(values == values, values, -jnp.inf)))
    return unit, weighing.weight(values, unit)


def first_draws(key, values, weighing: Weighing, length, drawn: int):
    """At most `drawn` draws of the first round: how many sites they choose, sites, flags, marks."""
    n, number = values.size, jnp.arange(drawn, dtype=jnp.int32)
    site, usable = _draw(key, values, weighing, number)
    here = usable & (number < reference.most_draws(length))
    named = number.astype(jnp.float32)
    marks = jnp.full(n, NEVER).at[jnp.where(here, site, n)].min(named, mode="drop")
    fresh = here & (marks[site] == named)
    place = jnp.cumsum(fresh, dtype=jnp.int32) - 1
    kept = fresh & (place < length)
    sites = jnp.zeros(n, jnp.int32).at[jnp.where(kept, place, n)].set(site, mode="drop")
    chosen = jnp.zeros(n, bool).at[jnp.where(kept, site, n)].set(True, mode="drop")
    return jnp.sum(kept, dtype=jnp.int32), sites, chosen, marks


def _draw(key, values, weighing, number):
    """The sites that draws of these numbers fall on, as in `table.draw`; whether they count."""
    n, width = values.size, reference.columns(values.size)
    unit, each = weights(values, weighing)
    rows = jnp.pad(each, (0, -n % width)).reshape(-1, width)
    sums = jnp.sum(rows, axis=0)
    total = jnp.sum(sums)
    usable = (total > 0.0) & (total < jnp.inf) & (unit[0] < jnp.inf)
    factor = jnp.where(usable, np.float32(reference.PARTS) / total, 0.0)
    edges = jnp.cumsum(jnp.where(usable, sums * factor, 0.0).astype(jnp.int32), dtype=jnp.int32)
    level = parts.high_product(parts.random_bits(key, 2 * number), edges[-1].astype(jnp.uint32))
    level = level.astype(jnp.int32)
    column, half = jnp.zeros_like(number), width // 2
    while half > 0:
        column = jnp.where(edges[column + (half - 1)] <= level, column + half, column)
        half //= 2
    upto = list(itertools.accumulate(row[column] for row in rows))
    goal = parts.uniform_number(parts.random_bits(key, 2 * number + 1)) * upto[-1]
    row = sum((one <= goal).astype(jnp.int32) for one in upto)
    return jnp.minimum(jnp.minimum(row, len(upto) - 1) * width + column, n - 1), usable
