r"""Do a target's log-ratios tell the truth? Compared with exact ones, at some sites of some states.

A gradient prices all neighbours of a state at once, by how the density continues between its
values: $(1 - 2 x_i)\, \partial_i f(x)$ for $f(x^{(i)}) - f(x)$. Two densities that agree on all
bits may continue in different ways, and have different gradients. Kernels stay exact whatever
the ratios, but with wrong ones they propose what is never accepted.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from hopscale.move import State
from hopscale.target import Target

STATES, SITES = 4, 16  # how many are compared
CHEAP = 2e4  # operations for the exact ratios of a state, for which "auto" takes these
MOST = 2e9  # operations, up to which it takes them if gradients mislead
CLIP = 10.0  # beyond it a neighbour is never, or always, proposed
CLEAR_ERROR = 0.1  # of a log-ratio, root mean square, that is worth a word...
CLEAR_SHARE = 0.5  # ...if it is also that share of the log-ratios themselves


class Comparison(NamedTuple):
    """Log-ratios as a target gives them and as differences of its log-probabilities.

    Attributes:
        given, exact: log-ratios of the neighbours that were compared.
        before, sites: the value that a site had, and its number.
    """

    given: Float[np.ndarray, " neighbours"]
    exact: Float[np.ndarray, " neighbours"]
    before: Int[np.ndarray, " neighbours"]
    sites: Int[np.ndarray, " neighbours"]

    @property
    def error(self) -> float:
        """Root mean square difference, of log-ratios clipped to [-10, 10]."""
        return float(np.sqrt(np.mean(self._differences**2)))

    @property
    def _differences(self) -> np.ndarray:
        """Where the gradient is NaN there is another error to name; it is no difference."""
        found = _clipped(self.given) - _clipped(self.exact)
        return np.where(np.isnan(found), 0.0, found)

    @property
    def size(self) -> float:
        """Root mean square of the exact log-ratios, clipped likewise."""
        return float(np.sqrt(np.mean(_clipped(self.exact) ** 2)))

    @property
    def agree(self) -> bool:
        """Whether the ratios can be relied on: no clear disagreement was found."""
        if not self.exact.size:
            return True
        return self.error <= max(CLEAR_ERROR, CLEAR_SHARE * self.size)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        off = int(np.argmax(np.abs(self._differences)))
        return (
            f"at {self.exact.size} neighbours of some states the log-ratios are off by "
            f"{self.error:.3g} (root mean square), where the exact ones are {self.size:.3g} in "
            f"size; at worst {self.given[off]:.3g} for {self.exact[off]:.3g}, site "
            f"{self.sites[off]} being {self.before[off]}"
        )


def compare(target: Target, x: State, key: Key[Array, ""]) -> Comparison:
    """The log-ratios of some neighbours of states x (along the first axis), as given and exact."""
    found = _compared(target, x[:STATES], key)
    given, exact, before, sites = (np.asarray(a).reshape(-1) for a in found)
    # Where the density itself is no number there is nothing to compare.
    defined = ~np.isnan(exact) & (exact < np.inf)
    return Comparison(given[defined], exact[defined], before[defined], sites[defined])


@eqx.filter_jit
def _compared(target: Target, x: State, key: Key[Array, ""]):
    n = target.num_sites
    key_sites, key_values = jax.random.split(key)
    keys = jax.random.split(key_sites, len(x))
    sites = jax.vmap(lambda k: jax.random.choice(k, n, (min(SITES, n),), replace=False))(keys)
    each = jnp.broadcast_to(jnp.ravel(target.num_states_by_site), (n,))
    by = jax.random.randint(key_values, sites.shape, 1, each[sites])

    def neighbour(x, site, by):
        flat = x.reshape(-1)
        value = (flat[site].astype(jnp.int32) + by) % each[site]
        there = flat.at[site].set(value.astype(flat.dtype))
        return target.log_prob(there.reshape(x.shape)), flat[site], value

    def one(x, sites, by):
        evaluation = target.evaluate(x)
        assert evaluation.log_ratios is not None
        there, before, value = jax.lax.map(lambda to: neighbour(x, *to), (sites, by))
        ratios = evaluation.log_ratios.reshape(target.num_sites, -1)
        column = jnp.zeros_like(value) if target.num_states == 2 else value
        return ratios[sites, column], there - evaluation.log_prob, before, sites

    # One state after the other: batches of factorisations side by side can hang JAX 0.10 on CPUs.
    return jax.lax.map(lambda to: one(*to), (x, sites, by))


def settle(target: Target, x: State) -> tuple[Target, str | None]:
    """The target with its kind of ratios decided by a look at x, and what to say of them.

    The neighbours that are looked at are always the same, so that no seed has a part in it.
    """
    if target.ratios not in ("auto", "gradient"):
        return target, None
    auto = target.ratios == "auto"
    cost = neighbours(target) * operations(target) if auto else np.inf
    if cost <= CHEAP:
        return target.decided("exact"), None
    found = compare(target, x, jax.random.key(0))
    if found.agree and not np.isnan(found.given).any():
        return target.decided("gradient"), None
    if cost <= MOST:
        return target.decided("exact"), None
    return target.decided("gradient"), None if found.agree else _sentence(target, found)


def operations(target: Target) -> float:
    """What one log-probability costs: XLA's count, so that a decision is always the same."""
    arrays, rest = eqx.partition(target, eqx.is_array)
    state = jax.ShapeDtypeStruct(target.shape, target.state_dtype)
    program = jax.jit(lambda arrays, x: eqx.combine(arrays, rest)._log_prob(x))
    found = program.lower(arrays, state).cost_analysis() or {}
    counted = found.get("flops", np.inf) + found.get("transcendentals", 0.0)
    return float(max(counted, target.num_sites))


def neighbours(target: Target) -> int:
    """How many states exact ratios evaluate: all that differ from a state at one site."""
    return target.num_sites * (target.num_states - 1)


def _sentence(target: Target, found: Comparison) -> str:
    return (
        f"Gradient ratios mislead here: {found}. A gradient follows the density between its "
        "values, and this one bends there: a bit that enters squared, such as a mask on both "
        "sides of a matrix, has slope 0 where it is 0. Draws stay exact and moves are rejected. "
        'Use hs.LogDensity(..., ratios="exact"), '
        f"{neighbours(target):,} evaluations a step; or write the density so that it is linear "
        "in each bit; or use hs.RWM()."
    )


def _clipped(ratios: np.ndarray) -> np.ndarray:
    return np.clip(ratios, -CLIP, CLIP)
