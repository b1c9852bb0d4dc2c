"""The paper's target distributions (its Appendix C).

Each comes in three configurations, C1 (smooth), C2 and C3 (sharp). Where the paper's text and
its tables describe different models, an argument chooses between them. The default is the model
behind the tables, except for the FHMM, where it is the model as written.
"""

from typing import Any

import jax
import jax.numpy as jnp

from hopscale.targets import FHMM, RBM, Bernoulli, Ising
from hopscale.validate import as_key, choice, count, fits, number

CONFIGS = ("C1", "C2", "C3")

INTERVAL = {"C1": (0.25, 0.75), "C2": (0.15, 0.85), "C3": (0.05, 0.95)}
FIELD = {"C1": (0.2, 0.4), "C2": (0.3, 0.6), "C3": (0.4, 0.8)}
COUPLING = {"C1": 0.1, "C2": 0.15, "C3": 0.2}
NOISE_VARIANCE = {"C1": 2.0, "C2": 1.0, "C3": 0.5}

# The almost flat chain prior that explains the FHMM tables: a change of value costs 0.2 in
# log-weight, the first link favours 1 nine to one, and the weights are small.
TABLE_STAY = 1.0 / (1.0 + 2.718281828459045**-0.2)
TABLE_FIRST = 0.9
TABLE_SQUARED_WEIGHTS = 1.15


def bernoulli(size: int, config: str = "C2", key: Any = 0, spacing: str = "random") -> Bernoulli:
    """Independent bits: p_i uniform on the configuration's interval.

    Args:
        size: the number of sites N; the paper has 100, 800, 6400.
        config: "C1", p in [0.25, 0.75]; "C2", [0.15, 0.85]; "C3", [0.05, 0.95].
        key: a seed or JAX key for p.
        spacing: "random" draws p; "even" spaces it evenly, so that a comparison does not
            depend on the draw.
    """
    _check(config, spacing=(spacing, ("random", "even")))
    _check_size(size)
    low, high = INTERVAL[config]
    if spacing == "even":
        unit = (jnp.arange(size) + 0.5) / size
    else:
        unit = jax.random.uniform(as_key(key), (size,))
    return Bernoulli(low + (high - low) * unit)


def identical(size: int, p: float) -> Bernoulli:
    """Independent bits that are all 1 with probability p: the simplest target of the theory."""
    _check_size(size)
    number("p", p, 0, 1, "()")
    return Bernoulli(jnp.full(size, p))


def nearly_fair(size: int, beta: float, key: Any = 0, epsilon: float = 0.1) -> Bernoulli:
    r"""Independent bits whose p approach 1/2 as $N^{-\beta}$: the targets of Theorem 2.

    |p_i - 1/2| is uniform on $(\epsilon, 1/2 - \epsilon)\, N^{-\beta}$, with either side equally
    likely.

    Args:
        size: the number of sites N.
        beta: how fast they approach 1/2; 0 leaves p spread over a fixed range.
        key: a seed or JAX key for p.
        epsilon: keeps p away from both ends of that range, inside (0, 1/4).
    """
    _check_size(size)
    number("beta", beta, 0, float("inf"), "[)")
    number("epsilon", epsilon, 0, 0.25, "()")
    key_gap, key_side = jax.random.split(as_key(key))
    gap = jax.random.uniform(key_gap, (size,), minval=epsilon, maxval=0.5 - epsilon)
    side = jax.random.rademacher(key_side, (size,), gap.dtype)
    return Bernoulli(0.5 + side * gap * float(size) ** -beta)


def ising(
    size: int, config: str = "C2", key: Any = 0, sign: str = "+", disc: str = "half"
) -> Ising:
    """Spins on an open size x size lattice, in a random field that favours 1 inside a disc.

    Args:
        size: the lattice's side; the paper has 20, 50, 100.
        config: "C1", field from (-0.2, 0.4) inside, (-0.4, 0.2) outside, coupling 0.1; "C2" is
            1.5 times and "C3" twice as strong.
        key: a seed or JAX key for the field.
        sign: of the coupling. The text has "-", the tables follow from "+".
        disc: "half", a disc of half the lattice's area; "text", the stated radius, which covers
            the whole lattice.
    """
    _check(config, sign=(sign, ("+", "-")), disc=(disc, ("half", "text")))
    _check_size(size, sites_per_size=size)
    weak, strong = FIELD[config]
    v = (jnp.arange(size) + 0.5) / size - 0.5
    squared = v[:, None] ** 2 + v[None, :] ** 2
    inside = squared < (1.0 / (2.0 * jnp.pi) if disc == "half" else 0.5)
    field = jax.random.uniform(as_key(key), (size, size), minval=-weak, maxval=strong)
    coupling = COUPLING[config] if sign == "+" else -COUPLING[config]
    return Ising(jnp.where(inside, field, -field), coupling)


def fhmm(
    size: int,
    config: str = "C2",
    key: Any = 0,
    factors: int = 5,
    variant: str = "written",
    axis: str = "time",
    squared_weights: float | None = None,
) -> FHMM:
    """The posterior of a factorial hidden Markov model, with data drawn from the model itself.

    Args:
        size: the length L of the series; the paper has 200, 1000, 4000.
        config: the noise variance: "C1", 2; "C2", 1; "C3", 0.5.
        key: a seed or JAX key for weights, hidden states and observations.
        factors: the number K of chains.
        variant: "written", the text's model (stay 0.8, first 0.1, weights N(0, 1)); "table", the
            almost flat prior and small weights from which the paper's table follows.
        axis: along which the hidden chains run, "time" or "factor" (the text's formula).
        squared_weights: scale the drawn weights to this |W|^2; None leaves them as drawn in the
            "written" variant and means 1.15 in "table".
    """
    _check(config, variant=(variant, ("written", "table")), axis=(axis, ("time", "factor")))
    count("factors", factors, minimum=1)
    _check_size(size, sites_per_size=factors)
    key_weights, key_bias, key_hidden, key_noise = jax.random.split(as_key(key), 4)
    weights = jax.random.normal(key_weights, (factors,))
    stay, first = 0.8, 0.1
    if variant == "table":
        stay, first = TABLE_STAY, TABLE_FIRST
        squared_weights = squared_weights or TABLE_SQUARED_WEIGHTS
    if squared_weights is not None:
        weights = weights * jnp.sqrt(squared_weights / jnp.sum(weights**2))
    bias = jax.random.normal(key_bias)
    hidden = _chains(key_hidden, (size, factors), stay, first, axis)
    sigma = jnp.sqrt(NOISE_VARIANCE[config])
    noise = sigma * jax.random.normal(key_noise, (size,))
    return FHMM(hidden @ weights + bias + noise, weights, bias, sigma, stay, first, axis)


def rbm(size: int = 400, ratios: str = "gradient") -> RBM:
    """A restricted Boltzmann machine trained on binary MNIST, as shipped: nothing is random.

    Args:
        size: the number of hidden units: 100, 400 or 1000, the paper's C1, C2 and C3.
        ratios: "gradient", as behind the tables, or "exact".
    """
    from hopscale.paper import rbms

    if size not in rbms.SIZES:
        raise ValueError(
            f"size must be 100, 400 or 1000 hidden units, the RBMs that are shipped; got {size!r}. "
            "Others can be trained: `hopscale train rbm`."
        )
    return rbms.load(size, ratios)


def _chains(key, shape: tuple[int, int], stay: float, first: float, axis: str):
    """Binary Markov chains along an axis: a start, and a running count of changes."""
    key_first, key_change = jax.random.split(key)
    along = 0 if axis == "time" else 1
    changes = jax.random.bernoulli(key_change, 1.0 - stay, shape)
    starts = jax.random.bernoulli(key_first, first, shape)
    is_start = jax.lax.broadcasted_iota(jnp.int32, shape, along) == 0
    return jnp.cumsum(jnp.where(is_start, starts, changes), axis=along) % 2.0


def _check_size(size: int, sites_per_size: int = 1) -> None:
    """Raise if numbers for all sites do not fit into memory."""
    count("size", size, minimum=1)
    # A number for each site, and two more while the instance is made.
    fits(f"an instance of size {size:,}", 12 * size * sites_per_size, "Use a smaller size.")


def _check(config: str, **choices: tuple[str, tuple[str, ...]]) -> None:
    for name, (value, allowed) in {"config": (config, CONFIGS), **choices}.items():
        choice(name, value, allowed)
