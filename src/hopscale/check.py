"""Tests whether a kernel is exact, on targets small enough to enumerate.

`transition_matrix` enumerates every move a kernel can make. The target must be invariant under
this matrix up to rounding error, and `irreducible` says whether all of the target can be reached.
`invariance` needs only that the kernel can take a step. It draws states exactly from the target,
takes steps from them, and tests whether their distribution is unchanged.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse.csgraph
import scipy.special
from jaxtyping import Float, Int

from hopscale.deprecated import renamed
from hopscale.engine import loop
from hopscale.engine.loop import Program
from hopscale.kernels.kernel import Kernel
from hopscale.kernels.rwm import RWM
from hopscale.runs.arguments import initial_states
from hopscale.target import Target, check_values
from hopscale.targets.ratios import Comparison, compare
from hopscale.tune import Fixed, fitted
from hopscale.validate import as_key, count, instance, kind_of, number

MOST_STATES = 2**16


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of `invariance`, which fails if p_value < false_alarm.

    Attributes:
        p_value: how often exact chains would have a chi-square at least as large.
        statistic, cells: chi-square, and the number of cells that it compares.
        false_alarm: the probability that a correct kernel fails.
    """

    p_value: float
    statistic: float
    cells: int
    false_alarm: float

    @property
    def passed(self) -> bool:
        """Whether the test found nothing wrong; the verdict itself is true or false likewise."""
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
    each = _num_states(target)
    m = math.prod(each)
    if m > MOST_STATES:
        raise ValueError(
            f"the target has {_product(each)} states; at most {MOST_STATES:,} can be enumerated. "
            "Check the kernel on a smaller target of its kind."
        )
    digits = np.indices(each).reshape(target.num_sites, m)
    return digits.T.reshape(m, *target.shape).astype(target.state_dtype)


def _num_states(target: Target) -> tuple[int, ...]:
    """How many values each site can take, row by row."""
    return tuple(np.broadcast_to(target.num_states_by_site, target.shape).reshape(-1).tolist())


def _product(each: tuple[int, ...]) -> str:
    times = {k: each.count(k) for k in sorted(set(each))}
    return " * ".join(f"{k}^{number}" for k, number in times.items())


def probabilities(target: Target) -> Float[np.ndarray, " m"]:
    """The probability of each state of a small target, normalised."""
    log_prob = _log_probs(target)
    weights = np.exp(log_prob - log_prob.max())
    return weights / weights.sum()


def _log_probs(target: Target) -> Float[np.ndarray, " m"]:
    """The log-probability of each state; -inf where it is NaN or +inf, which are rejected."""
    log_prob = np.asarray(_each_log_prob(target, jnp.asarray(states(target))), np.float64)
    return np.where(log_prob < np.inf, log_prob, -np.inf)


@eqx.filter_jit
def _each_log_prob(target: Target, x):
    return jax.vmap(target.log_prob)(x)


@renamed(sampler="kernel")
def transition_matrix(
    target: Target, kernel: Kernel, scale: float | None = None
) -> Float[np.ndarray, "m m"]:
    """The probability of going from each state (row) to each (column) in one step at this scale.

    Rows and columns are in the order of `states`. Everything that the kernel could draw is
    evaluated by the functions of its own step. Run it in float64 (jax.enable_x64) for an answer
    exact to about 1e-14. A state of zero density, where no chain can be, leads to itself.
    """
    scale = _check(target, kernel, scale)
    everything = jnp.asarray(states(target))
    at = jnp.asarray(scale, target.dtype)
    matrix = np.zeros((len(everything), len(everything)))
    possible = _log_probs(target) > -np.inf  # a probability may be too small for a float
    for row, x in enumerate(everything):
        if not possible[row]:
            matrix[row, row] = 1.0
            continue
        y, probability = _transitions(kernel, target, x, at)
        probability = np.asarray(probability, np.float64)
        taken = probability != 0
        np.add.at(matrix[row], _index(target, np.asarray(y)[taken]), probability[taken])
        matrix[row, row] += 1.0 - matrix[row].sum()
    return matrix


@eqx.filter_jit
def _transitions(kernel: Kernel, target: Target, x, scale):
    return kernel.transitions(target, x, scale)


def irreducible(target: Target, kernel: Kernel, scale: float | None = None) -> bool:
    """Whether every state of positive probability can be reached from every other.

    Invariance is not enough: a kernel that goes from x to its complement and back leaves a
    symmetric target invariant, but visits only two of its states.

    Examples:
        >>> target = hs.Bernoulli([0.5, 0.5, 0.5])
        >>> print(hs.check.irreducible(target, hs.LBP(), scale=2.0))
        True
        >>> print(hs.check.irreducible(target, hs.LBP(lengths="paper"), scale=2.0))
        False
    """
    possible = probabilities(target) > 0
    reached = transition_matrix(target, kernel, scale)[np.ix_(possible, possible)] > 0
    groups, _ = scipy.sparse.csgraph.connected_components(reached, connection="strong")
    return int(groups) == 1


def ratios(target: Target, x=None, key=0) -> Comparison:
    """Compare a target's log-ratios with exact ones, at 64 to 256 neighbours of four states.

    Args:
        target: any target.
        x: states along the first axis. None: random states.
        key: a seed or JAX key, for the states and sites.

    Returns:
        The `given` and `exact` log-ratios, the root mean square of their differences (`error`) and
        of the exact ones (`size`), and whether they `agree`. A run with gradient ratios makes the
        same comparison before it starts.
    """
    instance("target", target, Target, "hs.LogDensity(fn, shape)")
    key_states, key_sites = jax.random.split(as_key(key))
    number = 4 if x is None or np.ndim(x) == len(target.shape) else len(x)
    return compare(target, initial_states(target, RWM(), number, x, key_states), key_sites)


def _check(target, kernel, scale: float | None) -> float:
    """The scale, by default of two sites. Raises for what cannot be checked."""
    if not isinstance(target, Target) or not isinstance(kernel, Kernel):
        got = " and ".join(kind_of(value) for value in (target, kernel))
        raise TypeError(f"a target and a kernel are needed; got {got}.")
    kernel.check(target)
    scales = kernel.scale_range(target)
    if scales is None:
        return 1.0 if scale is None else scale
    scale = min(2.0, float(scales.high)) if scale is None else scale
    Fixed(scale).check(scales)
    return scale


def _index(target: Target, x) -> Int[np.ndarray, " m"]:
    """The indices of states in the order of `states`."""
    x = np.asarray(x)
    check_values("the kernel leads to states that must hold", x, target.num_states_by_site)
    return np.ravel_multi_index(tuple(x.reshape(-1, target.num_sites).T), _num_states(target))


@renamed(sampler="kernel")
def invariance(
    target: Target,
    kernel: Kernel,
    scale: float | None = None,
    draws: int = 100_000,
    steps: int = 1,
    key=0,
    false_alarm: float = 1e-4,
) -> Verdict:
    """Test whether steps of the kernel leave the target invariant.

    The test draws states exactly from the enumerated target, takes `steps` steps from each, and
    compares how often each state is reached with its probability by a chi-square test. States
    expected fewer than 10 times share a cell.

    Args:
        target: any target with at most 65,536 states.
        kernel: any kernel, your own included; only its steps are used.
        scale: R. None: 2, or 1 if that is the largest. Kernels without a scale ignore it.
        draws: the number of exact draws; a smaller bias needs more to be detected.
        steps: the number of steps from each draw.
        key: a seed or JAX key.
        false_alarm: the probability that a correct kernel fails.
    """
    scale = _check(target, kernel, scale)
    count("draws", draws, minimum=1000)
    count("steps", steps, minimum=1)
    number("false_alarm", false_alarm, 0, 1, "()")
    everything, expected = states(target), probabilities(target)
    key_draw, key_step = jax.random.split(as_key(key))
    seed = np.asarray(jax.random.bits(key_draw, (4,)))
    drawn = np.random.default_rng(seed).choice(len(expected), draws, p=expected)
    scales = kernel.scale_range(target)
    tuner = fitted(None if scales is None else Fixed(scale), scales)
    program = Program(key=key_step, target=target, kernel=kernel, tuner=tuner)

    after = _stepped(program, jnp.asarray(everything[drawn]), steps)
    observed = np.bincount(_index(target, after), minlength=len(expected))
    return _chi_square(observed, draws * expected, false_alarm)


@eqx.filter_jit
def _stepped(program: Program, x, steps: int):
    chains, _ = loop.scan(program, loop.start(program, x), steps=steps, tune=False)
    return chains.states.x


def _chi_square(observed: np.ndarray, expected: np.ndarray, false_alarm: float) -> Verdict:
    if observed[expected == 0].any():  # impossible states were reached: no matter of chance
        return Verdict(p_value=0.0, statistic=np.inf, cells=len(expected), false_alarm=false_alarm)
    order = np.argsort(expected, kind="stable")
    total = np.cumsum(expected[order])
    # Cells grow from the rarest state up until each expects 10 draws; the rest joins the last cell.
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
