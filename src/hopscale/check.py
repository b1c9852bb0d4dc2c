"""Is a sampler exact? Two tests, for targets small enough to enumerate.

`transition_matrix` enumerates every move a sampler can make and multiplies out: the target must
be invariant to rounding error. `invariance` needs only that the sampler can take a step: start
exactly at the target's distribution, take one, and test that the distribution is unchanged.
"""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float, Int

from hopscale import metropolis, select
from hopscale.sampler import ChainState, Move, Sampler
from hopscale.scale import Fixed
from hopscale.target import Target
from hopscale.validate import as_key, count

MOST_STATES = 2**16


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of `invariance`: it failed if p_value < false_alarm."""

    p_value: float
    statistic: float
    cells: int
    false_alarm: float

    @property
    def passed(self) -> bool:
        return self.p_value >= self.false_alarm

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        verdict = "the target is invariant" if self.passed else "NOT INVARIANT"
        return (
            f"{verdict}: chi-square {self.statistic:.1f} over {self.cells} cells, "
            f"p = {self.p_value:.3g} (false alarms: {self.false_alarm:g})"
        )


def states(target: Target) -> Int[np.ndarray, "m *shape"]:
    """All states of a small target, in lexicographic order."""
    m = target.num_states**target.num_sites
    if m > MOST_STATES:
        raise ValueError(
            f"the target has {target.num_states}^{target.num_sites} states; at most "
            f"{MOST_STATES:,} can be enumerated. Check the sampler on a smaller target of its kind."
        )
    digits = np.indices((target.num_states,) * target.num_sites).reshape(target.num_sites, m)
    return digits.T.reshape(m, *target.shape).astype(target.state_dtype)


def probabilities(target: Target) -> Float[np.ndarray, " m"]:
    """The probability of each state of a small target, normalised."""
    log_prob = np.asarray(jax.vmap(target.log_prob)(jnp.asarray(states(target))), np.float64)
    weights = np.exp(log_prob - log_prob.max())
    return weights / weights.sum()


def transition_matrix(target: Target, sampler: Sampler, scale: int) -> Float[np.ndarray, "m m"]:
    """The probability of going from each state to each in one step that draws `scale` sites.

    Every sequence of sites the sampler could draw is followed by the sampler's own functions.
    Run it in float64 (jax.enable_x64) for an answer exact to about 1e-14.
    """
    _check_both(target, sampler)
    count("scale", scale, least=1)
    n = target.num_sites
    Fixed(scale).check(n)
    everything = jnp.asarray(states(target))
    sequences = _sequences(n, scale, sampler.replacement)
    offsets = _offsets(n, target.num_states)

    @eqx.filter_jit
    def follow(x, sequence):
        state = sampler.init(target, x)

        def one(by):
            move, counts = _move(target, sampler, state, sequence, scale, by)
            log_forward = sampler.score(target, state, move, way_back=False)
            proposal = sampler.follow(target, state, move, log_forward)
            accept_prob, _ = metropolis.acceptance(state, proposal)
            probability = jnp.where(counts, jnp.exp(log_forward), 0.0)
            return proposal.state.x, probability * accept_prob

        return jax.vmap(one)(offsets)

    place = target.num_states ** np.arange(n - 1, -1, -1)
    matrix = np.zeros((len(everything), len(everything)))
    over_paths = jax.vmap(follow, in_axes=(None, 0))
    for row, x in enumerate(everything):
        y, probability = over_paths(x, sequences)
        column = np.asarray(y).reshape(-1, n) @ place
        np.add.at(matrix[row], column, np.asarray(probability, np.float64).reshape(-1))
        matrix[row, row] += 1.0 - matrix[row].sum()
    return matrix


def _check_both(target, sampler) -> None:
    if not isinstance(target, Target) or not isinstance(sampler, Sampler):
        raise TypeError(f"a target and a sampler are needed; got {target!r} and {sampler!r}.")


def _sequences(n: int, length: int, replacement: bool) -> Int[np.ndarray, "paths n"]:
    """Every sequence of `length` sites, padded to n."""
    if replacement:
        drawn = itertools.product(range(n), repeat=length)
    else:
        drawn = itertools.permutations(range(n), length)
    paths = np.array(list(drawn), np.int32)
    if replacement:
        return np.pad(paths, ((0, 0), (0, n - length)))
    rest = [np.setdiff1d(np.arange(n), path) for path in paths]
    return np.concatenate([paths, np.array(rest, np.int32).reshape(len(paths), -1)], axis=1)


def _offsets(n: int, num_states: int) -> Int[np.ndarray, "combinations n"]:
    """By how much each site could change its value, for all sites at once."""
    return np.array(list(itertools.product(range(1, num_states), repeat=n)), np.int32)


def _move(target: Target, sampler: Sampler, state: ChainState, sequence, scale: int, by):
    """The move along a sequence, and whether it counts: idle sites are counted at offset 1."""
    length = jnp.asarray(scale, jnp.int32)
    choice = select.listed(sequence, length)
    moved = sampler.moved(choice)
    values = None
    if target.num_states > 2:
        values = (state.x.reshape(-1).astype(jnp.int32) + by) % target.num_states
    return Move(choice=choice, moved=moved, values=values), jnp.all(moved | (by == 1))


def invariance(
    target: Target,
    sampler: Sampler,
    scale: float = 2,
    draws: int = 100_000,
    steps: int = 1,
    key=0,
    false_alarm: float = 1e-4,
) -> Verdict:
    """Does one step of the sampler leave the target as it is?

    Draws states exactly from the enumerated target, takes `steps` steps from each, and compares
    how often each state is reached with its probability by a chi-square test. States expected
    fewer than 10 times share a cell.

    Args:
        target: any target with at most 65,536 states.
        sampler: any sampler, your own included; only `init` and `propose` are used.
        scale: R.
        draws: how many exact draws; a smaller bias needs more to be seen.
        steps: steps from each draw.
        key: a seed or JAX key.
        false_alarm: the probability with which a correct sampler fails.
    """
    _check_both(target, sampler)
    count("draws", draws, least=1000)
    count("steps", steps, least=1)
    Fixed(scale).check(target.num_sites)
    everything, expected = states(target), probabilities(target)
    key_draw, key_step = jax.random.split(as_key(key))
    seed = np.asarray(jax.random.bits(key_draw, (4,)))
    drawn = np.random.default_rng(seed).choice(len(expected), draws, p=expected)

    @eqx.filter_jit
    def stepped(target, keys, x):
        def one(key, x):
            state = sampler.init(target, x)
            for number in range(steps):
                noise = metropolis.noise(jax.random.fold_in(key, number), target.dtype)
                size = jnp.asarray(scale, target.dtype)
                state, _, _ = metropolis.step(noise, target, state, size, sampler)
            return state.x

        return jax.vmap(one)(keys, x)

    after = stepped(target, jax.random.split(key_step, draws), jnp.asarray(everything[drawn]))
    place = target.num_states ** np.arange(target.num_sites - 1, -1, -1)
    index = np.asarray(after).reshape(draws, -1) @ place
    observed = np.bincount(index, minlength=len(expected))
    return _chi_square(observed, draws * expected, false_alarm)


def _chi_square(observed: np.ndarray, expected: np.ndarray, false_alarm: float) -> Verdict:
    order = np.argsort(expected, kind="stable")
    total = np.cumsum(expected[order])
    # Cells grow from the rarest state up until each expects 10; what is left joins the last.
    edges, reached = [0], 0.0
    for i, expected_so_far in enumerate(total):
        if expected_so_far - reached >= 10:
            edges.append(i + 1)
            reached = expected_so_far
    if len(edges) > 1:
        edges[-1] = len(order)
    starts = np.array(edges[:-1] or [0])
    seen = np.add.reduceat(observed[order], starts)
    due = np.add.reduceat(expected[order], starts)
    statistic = float(np.sum((seen - due) ** 2 / due))
    cells = len(starts)
    if cells < 2:
        raise ValueError(
            f"{observed.sum():,} draws cannot tell the target's states apart: all but one of them "
            "are expected fewer than 10 times. Use more draws, or a less peaked target."
        )
    p_value = float(scipy.special.chdtrc(cells - 1, statistic))
    return Verdict(p_value=p_value, statistic=statistic, cells=cells, false_alarm=false_alarm)
