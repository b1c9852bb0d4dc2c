"""The kernels. A name that ends in `_ref` is in memory, every other in registers."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from hopscale.native.pallas import parts
from hopscale.native.pallas.scores import score_path
from hopscale.native.paths import log_acceptance


def path(length_ref, input_ref, sites_ref, chosen_ref, log_prob_ref, *, n, **static):
    """Score a path."""
    length = jnp.minimum(length_ref[0], n)
    log_prob_ref[0] = score_path(length, input_ref, sites_ref, chosen_ref, n=n, **static)


def path_by_sums(
    length_ref, numbers_ref, input_ref, sites_ref, chosen_ref, log_prob_ref, *, n, **static
):
    """The same for a long chain: the unit of weights and the weight not chosen are given."""
    length = jnp.minimum(length_ref[0], n)
    unit, rest = (numbers_ref[0], numbers_ref[1]), numbers_ref[2]
    path = length, input_ref, sites_ref, chosen_ref, unit, rest
    log_prob_ref[0] = score_path(*path, n=n, **static)


def settle(
    uniform_ref, forward_ref, rest_ref, length_ref, input_ref, sites_ref, chosen_ref, *refs,
    n, tile, in_place, **static,
):  # fmt: skip
    """Score the reverse move, accept or stay: everything after the evaluation of a proposal.

    The other references are the arrays of the proposed, the present and the new state, and the
    verdict. The first array of a state is its log-probability. A present array and its new one may
    share memory; nothing is then written unless the proposal is accepted.
    """
    *arrays, log_ratio_ref, accepted_ref, invalid_ref = refs
    states = len(arrays) // 3
    there, here, new = arrays[:states], arrays[states : 2 * states], arrays[2 * states :]
    length = jnp.minimum(length_ref[0], n)
    back = score_path(length, input_ref, sites_ref, chosen_ref, n=n, tile=tile, **static)
    log_probs = here[0][0], there[0][0]
    log_ratio, invalid = log_acceptance(*log_probs, forward_ref[0], back + rest_ref[0])
    accepted = uniform_ref[0] < jnp.exp(log_ratio)
    log_ratio_ref[0], accepted_ref[0], invalid_ref[0] = log_ratio, accepted, invalid
    for stays, x, y, result in zip(in_place, here, there, new, strict=True):
        copy(y, result, accepted, tile)
        if not stays:
            copy(x, result, ~accepted, tile)


def copy(source, result, needed, tile):
    """Copy one array over another, if needed."""
    size = result.shape[0]

    def body(at, none):
        mask = (at < size) & needed
        parts.store(result, at, parts.load(source, at, mask), mask)
        return none

    parts.over_tiles(size, min(tile, pl.next_power_of_2(size)), body, jnp.int32(0))


def odd(length_ref, sites_ref, clean_ref, result_ref, *, programs, n, rows, columns):
    """Count, for every step, the steps at its site; all steps at a site write the same parity."""
    del clean_ref, n  # the first is the same memory as result_ref
    length = jnp.minimum(length_ref[0], sites_ref.shape[0])

    def count(start, none):
        i = start + lax.iota(jnp.int32, rows)
        here = i < length
        site = parts.load(sites_ref, i, here, 0)

        def compare(step, same):
            j = step * columns + lax.iota(jnp.int32, columns)
            other = parts.load(sites_ref, j, j < length, -1)
            return same + (other[None, :] == site[:, None]).astype(jnp.int32)

        same = jnp.zeros((rows, columns), jnp.int32)
        same = lax.fori_loop(np.int32(0), parts.ceil_div(length, columns), compare, same)
        same = jnp.sum(same, axis=1, dtype=jnp.int32)
        parts.scatter(result_ref, site, (same & 1) == 1, here)
        return none

    parts.share(programs, length, rows, count, jnp.int32(0))
