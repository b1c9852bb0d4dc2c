"""Evaluations of targets in plain JAX, for which there are also kernels."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hopscale.graphs import lattice
from hopscale.target import as_float


def ising(x: Int[Array, "p q"], field: Float[Array, "p q"], down, right):
    """Log-probability and log-ratios of spins with one coupling along each axis."""
    return lattice.evaluate(x, field, (down, right))


def ising_log_prob(x: Int[Array, "p q"], field: Float[Array, "p q"], down, right):
    """Log-probability alone."""
    return ising(x, field, down, right)[0]


def ising_update(
    log_prob: Float[Array, ""],
    x: Int[Array, "p q"],
    moved: Bool[Array, "p q"],
    field: Float[Array, "p q"],
    down,
    right,
):
    """Log-probability after some spins were flipped, given the one before."""
    del log_prob  # kernels add the change; here everything is summed again
    return ising_log_prob(x ^ moved.astype(x.dtype), field, down, right)


def fhmm(
    x: Int[Array, "l k"],
    readings: Float[Array, " l"],
    weights: Float[Array, " k"],
    bias: Float[Array, ""],
    sigma: Float[Array, ""],
    stay: Float[Array, ""],
    first: Float[Array, ""],
    *,
    by_time: bool,
    exact: bool,
):
    """Log-probability and log-ratios of a factorial hidden Markov model: see `hopscale.FHMM`."""
    along = 0 if by_time else 1
    spins = lattice.spins(x)
    s = as_float(lattice.inside(spins), readings.dtype)
    # In spins the chain prior is an Ising chain: a bond J between links, a field at the start.
    bond = 0.5 * (jnp.log(stay) - jnp.log1p(-stay))
    start = 0.5 * (jnp.log(first) - jnp.log1p(-first))
    pull = lattice.pull(spins, bond, along)
    at_start = jax.lax.broadcasted_iota(jnp.int32, s.shape, along) == 0
    field = jnp.where(at_start, start, 0.0)

    residual = readings - as_float(x, readings.dtype) @ weights - bias
    fit = -0.5 * jnp.sum((residual / sigma) ** 2)
    shift = -s * weights[None, :]  # what flipping a bit adds to the mean reading
    gain = residual[:, None] * shift
    if exact:
        gain = gain - 0.5 * shift**2
    log_prob = fit + jnp.sum(s * (field + 0.5 * pull))
    return log_prob, -2.0 * s * (field + pull) + gain / sigma**2


def fhmm_update(
    log_prob: Float[Array, ""],
    x: Int[Array, "l k"],
    moved: Bool[Array, "l k"],
    *parameters: Float[Array, "..."],
    by_time: bool,
):
    """Log-probability after some bits were flipped, given the one before."""
    del log_prob  # kernels add the change; here everything is summed again
    return fhmm(x ^ moved.astype(x.dtype), *parameters, by_time=by_time, exact=True)[0]


def hamming(x: Int[Array, "*shape"], origin: Int[Array, "*shape"]) -> Float[Array, ""]:
    """The number of sites that differ."""
    return jnp.sum(x != origin, dtype=jnp.int32).astype(jnp.float32)


def rbm_inputs(
    inputs: Float[Array, " hidden"],
    x: Int[Array, " visible"],
    moved: Bool[Array, " visible"],
    by_visible: Float[Array, "visible hidden"],
) -> Float[Array, " hidden"]:
    """The inputs of an RBM's hidden units after some visible units were flipped."""
    turn = jnp.where(moved, 1.0 - 2.0 * x.astype(inputs.dtype), 0.0)
    return inputs + jnp.matmul(turn, by_visible, precision=jax.lax.Precision.HIGHEST)
