r"""Comparison of a target's log-ratios with exact ones, at some sites of some states.

A gradient gives the log-ratios of all neighbours of a state at once, from how the density continues
between the values of a site: $(1 - 2 x_i)\, \partial_i f(x)$ in place of $f(x^{(i)}) - f(x)$. Two
densities that agree on all bits may continue in different ways, and have different gradients.
Kernels stay exact whatever the ratios are, but with wrong ones they propose moves that are never
accepted.
"""

import inspect
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxtyping import Array, Float, Int, Key

from hopscale.move import State
from hopscale.target import Target
from hopscale.targets.derived import Derived

STATES = 4  # at which neighbours are compared
FEWEST, ENOUGH = 64, 256  # neighbours that are compared: at least, and if evaluations are cheap
CHEAP = 2e4  # operations for the exact ratios of a state, up to which "auto" always takes these
DEAR = 1e8  # operations, above which a warning says what exact ratios cost
MOST = 2e9  # operations, up to which "auto" takes exact ratios if gradients mislead
CLIP = 10.0  # a neighbour with a log-ratio beyond this is never, or always, proposed
CLEAR_ERROR = 0.1  # of a log-ratio, root mean square, that is worth a warning...
CLEAR_DIFFERENCE = 0.25  # ...or of differences between sites: less hardly changes which is chosen
CLEAR_SHARE = 0.5  # ...if it is also that share of the log-ratios themselves, or of differences

RATE = 1e10  # operations per second, about those of a few cores, to express a cost as a time
WAYS_OUT = (
    "write the density so that it is linear in each bit; or use hs.RWM(); or, where it says which "
    "columns of a linear regression matter, hs.models.VariableSelection(X, y), which prices all "
    "columns at once."
)

# Operations of LAPACK for an m x n matrix, in m n min(m, n). XLA does not count them.
FACTORISATIONS = {
    "cholesky": 1 / 3,
    "lu": 2 / 3,
    "qr": 8 / 3,
    "geqrf": 4 / 3,
    "householder_product": 4 / 3,
    "tridiagonal": 4 / 3,
    "hessenberg": 10 / 3,
    "eigh": 9.0,
    "svd": 22.0,
    "eig": 25.0,
    "schur": 25.0,
}


class Comparison(NamedTuple):
    """Log-ratios as given by a target, and as differences of its log-probabilities.

    Attributes:
        given, exact: log-ratios of the neighbours that were compared.
        before, after, sites: the old and the new value of the site that changes, and its index.
    """

    given: Float[np.ndarray, " neighbours"]
    exact: Float[np.ndarray, " neighbours"]
    before: Int[np.ndarray, " neighbours"]
    after: Int[np.ndarray, " neighbours"]
    sites: Int[np.ndarray, " neighbours"]

    @property
    def error(self) -> float:
        """Root mean square difference, of log-ratios clipped to [-10, 10]."""
        return _rms(self._differences)

    @property
    def size(self) -> float:
        """Root mean square of the exact log-ratios, clipped likewise."""
        return _rms(_clipped(self.exact))

    @property
    def error_between(self) -> float:
        """Root mean square difference without the part that all sites have in common."""
        return _rms(self._apart(self._differences))

    @property
    def spread(self) -> float:
        """Root mean square of exact log-ratios without the part that all sites have in common."""
        return _rms(self._apart(_clipped(self.exact)))

    @property
    def agree(self) -> bool:
        """Whether the ratios can be relied on: no clear disagreement was found."""
        return not self.exact.size or (self._agree_in_size and self._agree_between)

    @property
    def _agree_in_size(self) -> bool:
        return self.error <= max(CLEAR_ERROR, CLEAR_SHARE * self.size)

    @property
    def _agree_between(self) -> bool:
        """A penalty that all sites share is large, but does not tell which site to change."""
        return self.error_between <= max(CLEAR_DIFFERENCE, CLEAR_SHARE * self.spread)

    @property
    def _differences(self) -> np.ndarray:
        """Differences of log-ratios; 0 where the gradient is NaN, which is another error."""
        found = _clipped(self.given) - _clipped(self.exact)
        return np.where(np.isnan(found), 0.0, found)

    def _apart(self, values: np.ndarray) -> np.ndarray:
        """Residuals of a least-squares fit by a constant and an effect of each site value.

        For bits this removes the mean of all changes from 0 to 1, and of all from 1 to 0.
        """
        found, place = np.unique(np.r_[self.before, self.after], return_inverse=True)
        before, after = np.eye(len(found))[place].reshape(2, values.size, len(found))
        shared = np.c_[np.ones(values.size), after - before]
        return values - shared @ np.linalg.lstsq(shared, values, rcond=None)[0]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        if not self.exact.size:
            return "there were no neighbours to compare"
        off = int(np.argmax(np.abs(self._differences)))
        between = ""
        if self._agree_in_size and not self._agree_between:
            between = (
                f", most of which all sites share: from site to site these differ by "
                f"{self.spread:.3g}, and the log-ratios are off by {self.error_between:.3g}"
            )
        return (
            f"at {self.exact.size} neighbours of some states the log-ratios are off by "
            f"{self.error:.3g} (root mean square), where the exact ones are {self.size:.3g} in "
            f"size{between}; at worst {self.given[off]:.3g} for {self.exact[off]:.3g}, site "
            f"{self.sites[off]} being {self.before[off]}"
        )


def compare(target: Target, x: State, key: Key[Array, ""], each: float | None = None) -> Comparison:
    """Compare given and exact log-ratios of some neighbours of states x (along the first axis).

    Args:
        target: any target.
        x: states, of which the first four are used.
        key: determines which neighbours are compared.
        each: the number of operations of one evaluation, if known. Up to 256 neighbours are
            compared, 64 if evaluations are expensive.
    """
    each = operations(target) if each is None else each
    number = int(np.clip(MOST / each, FEWEST, ENOUGH))
    found = _compared(target, x[:STATES], key, number)
    given, exact, before, after, sites = (np.asarray(a).reshape(-1) for a in found)
    # Where the density itself is NaN or +inf there is nothing to compare.
    defined = ~np.isnan(exact) & (exact < np.inf)
    return Comparison(*(a[defined] for a in (given, exact, before, after, sites)))


@eqx.filter_jit
def _compared(target: Target, x: State, key: Key[Array, ""], number: int):
    n = target.num_sites
    key_sites, key_values = jax.random.split(key)
    # Sites in turn: few of many may matter, so none is compared twice before all were once.
    turns = np.arange(len(x) * min(n, math.ceil(number / len(x)))).reshape(len(x), -1)
    sites = jax.random.permutation(key_sites, n)[turns % n]
    most = jnp.broadcast_to(jnp.ravel(target.num_states_by_site), (n,))
    by = jax.random.randint(key_values, sites.shape, 1, most[sites])

    def neighbour(x, site, by):
        flat = x.reshape(-1)
        value = (flat[site].astype(jnp.int32) + by) % most[site]
        there = flat.at[site].set(value.astype(flat.dtype))
        return target.log_prob(there.reshape(x.shape)), flat[site], value

    def one(x, sites, by):
        evaluation = target.evaluate(x)
        assert evaluation.log_ratios is not None
        there, before, after = jax.lax.map(lambda to: neighbour(x, *to), (sites, by))
        # Both ends by one function: with all ratios, a target may compute the value in another way.
        here = target.log_prob(x)
        ratios = evaluation.log_ratios.reshape(target.num_sites, -1)
        column = jnp.zeros_like(after) if target.num_states == 2 else after
        return ratios[sites, column], there - here, before, after, sites

    # One state after the other: batches of factorisations side by side can hang JAX 0.10 on CPUs.
    return jax.lax.map(lambda to: one(*to), (x, sites, by))


def settle(target: Target, x: State) -> tuple[Target, str | None]:
    """The target with its kind of ratios decided by a comparison at x; and a warning, or None.

    The neighbours that are compared are always the same, so the decision does not depend on a seed.
    """
    if target.ratios not in ("auto", "gradient"):
        return target, None
    # Counting traces the density again, which is needless if gradients were asked for.
    each = operations(target) if target.ratios == "auto" else np.inf
    price = neighbours(target) * each
    if price <= CHEAP:
        return target.decided("exact"), None
    found = compare(target, x, jax.random.key(0), each)
    if found.agree and not np.isnan(found.given).any():
        return target.decided("gradient"), None
    if price <= MOST:
        return target.decided("exact"), _price(target, found, price) if price > DEAR else None
    return target.decided("gradient"), None if found.agree else _misled(target, found)


def operations(target: Target) -> float:
    """The operations of one log-probability: XLA's count, so that a decision is always the same.

    Factorisations, which XLA counts as nothing, are added. A while loop counts as one iteration of
    it, and a call of Python as nothing.
    """
    arrays, rest = eqx.partition(target, eqx.is_array)
    state = jax.ShapeDtypeStruct(target.shape, target.state_dtype)
    program = jax.jit(lambda arrays, x: eqx.combine(arrays, rest)._log_prob(x))
    traced = program.trace(arrays, state)
    found = traced.lower().cost_analysis() or {}
    counted = found.get("flops", np.inf) + found.get("transcendentals", 0.0)
    return float(max(counted, target.num_sites) + _factorising(traced.jaxpr.jaxpr))


def evaluation_operations(target: Target) -> float:
    """The approximate number of operations of a log-probability with all log-ratios."""
    one_by_one = has_choice(target) and target.ratios == "exact"
    return operations(target) * (1 + neighbours(target) if one_by_one else 3)


def _factorising(jaxpr: Jaxpr) -> float:
    """The operations of all factorisations and triangular solves of a program."""
    return sum(map(_of_equation, jaxpr.eqns))


def _of_equation(equation: JaxprEqn) -> float:
    name = equation.primitive.name
    shapes: list[tuple[int, ...]] = [getattr(v.aval, "shape", ()) for v in equation.invars]
    if name in FACTORISATIONS:
        return FACTORISATIONS[name] * math.prod(shapes[0]) * min(shapes[0][-2:])
    if name == "triangular_solve":
        return float(shapes[0][-1] * math.prod(shapes[1]))
    if name == "custom_linear_solve":  # the other programs in it are for derivatives
        return _factorising(equation.params["jaxprs"].solve.jaxpr)
    inside = [_factorising(program) for program in _programs(equation.params)]
    if name == "cond":
        return max(inside)
    return sum(inside) * (equation.params["length"] if name == "scan" else 1)


def _programs(params) -> list[Jaxpr]:
    """The programs inside an operation."""

    def is_program(part) -> bool:  # in some versions of JAX the two classes are one
        return isinstance(part, ClosedJaxpr | Jaxpr)

    leaves = jax.tree.leaves(params, is_leaf=is_program)
    return [getattr(part, "jaxpr", part) for part in leaves if is_program(part)]


def has_choice(target: Target) -> bool:
    """Whether the kind of ratios is an argument of the target's class, or of one of its parts'."""
    if isinstance(target, Derived):
        return any(map(has_choice, target.parts))
    return "ratios" in inspect.signature(type(target)).parameters


def neighbours(target: Target) -> int:
    """The number of states that exact ratios evaluate: all that differ from a state at one site."""
    return target.num_sites * (target.num_states - 1)


def _misled(target: Target, found: Comparison) -> str:
    price = neighbours(target) * operations(target)
    return (
        f"Gradient ratios mislead here: {found}. A gradient follows the density between its "
        "values, and this one bends there: a bit that enters squared, such as a mask on both "
        "sides of a matrix, has slope 0 where it is 0. Draws stay exact and moves are rejected. "
        f'Use hs.LogDensity(..., ratios="exact"), {_evaluations(target, price)}'
        f"; or {WAYS_OUT}"
    )


def _price(target: Target, found: Comparison, price: float) -> str:
    return (
        f"Exact ratios are used, and are expensive: {_evaluations(target, price)}. Gradients, "
        f"which would cost one evaluation or two, mislead here: {found}. To be faster, {WAYS_OUT}"
    )


def _evaluations(target: Target, price: float) -> str:
    """What exact ratios cost, in words."""
    number = f"{neighbours(target):,} evaluations a step"
    if price <= DEAR:
        return number
    large = f"{price / 1e9:,.1f} billion" if price >= 1e9 else f"{price / 1e6:.0f} million"
    seconds = price / RATE
    time = f"{seconds:,.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"
    return f"{number} of each chain, {large} operations, {time} at 10 billion a second"


def _rms(values: np.ndarray) -> float:
    """Root mean square; NaN for an empty array."""
    return float(np.sqrt(np.mean(values**2))) if values.size else float("nan")


def _clipped(ratios: np.ndarray) -> np.ndarray:
    return np.clip(ratios, -CLIP, CLIP)
