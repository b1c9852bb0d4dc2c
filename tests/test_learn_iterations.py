"""Iterations of training against NumPy, with an energy whose gradient is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale.learn import EBM, PCD, base_of, train_ebm
from hopscale.learn import buffer as replay

SITES, ITERATIONS = 6, 5
SETTINGS = PCD(
    steps=2, batch=20, rate=0.05, warmup=3, buffer=50, restart=0.3, clip=0.6, penalty=0.05,
    weight_decay=0.1, average=0.3,
)  # fmt: skip
RNG = np.random.default_rng(0)
DATA = (RNG.random((300, SITES)) < RNG.uniform(0.2, 0.8, SITES)).astype(np.int8)


class Quadratic(eqx.Module):
    """$f(x) = x^T W x$."""

    weights: jax.Array

    def __call__(self, x):
        return x @ self.weights @ x


def model():
    weights = np.random.default_rng(1).normal(size=(SITES, SITES)) * 0.3
    return EBM(Quadratic(jnp.asarray(weights, jnp.float32)), base_of(DATA))


def trained(iterations):
    return train_ebm(model(), DATA, iterations=iterations, settings=SETTINGS, key=5, progress=False)


def batch(iteration, buffer):
    """The data that an iteration draws, and the states of the chains that it moved."""
    key_buffer_and_run = jax.random.split(jax.random.key(5))
    keys = jax.random.split(jax.random.fold_in(key_buffer_and_run[1], iteration), 3)
    data = replay.draw_batch(keys[0], jnp.asarray(DATA), SETTINGS.batch)
    slots, _ = replay.take(keys[1], buffer, model().base, SETTINGS.batch, SETTINGS.restart)
    return np.asarray(data, float), np.asarray(buffer, float)[np.asarray(slots)]


def gradient(weights, data, samples):
    """Of the mean energy of data less that of samples, plus the penalty, and its norm."""
    slope, share = 0.0, 1 / SETTINGS.batch
    for sign, x in ((1, data), (-1, samples)):
        energies = np.einsum("bi,ij,bj->b", x, weights, x)
        slope += np.einsum("b,bi,bj->ij", share * (sign + 2 * SETTINGS.penalty * energies), x, x)
    return slope, np.linalg.norm(slope)


def test_weights_and_their_average_move_as_the_equations_say():
    weights = average = np.asarray(model().network.weights, float)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    norms = []
    for i in range(ITERATIONS):
        found = trained(i + 1)
        slope, norm = gradient(weights, *batch(i, found.samples))
        np.testing.assert_allclose(found.history["gradient"][i], norm, rtol=1e-4)
        slope *= min(1, SETTINGS.clip / norm)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        step = mean / (1 - 0.9 ** (i + 1)) / (np.sqrt(square / (1 - 0.999 ** (i + 1))) + 1e-8)
        rate = SETTINGS.rate * min((i + 1) / SETTINGS.warmup, 1)
        weights = weights - rate * (step + SETTINGS.weight_decay * weights)
        decay = min(SETTINGS.average, (1 + i) / (10 + i))
        average = decay * average + (1 - decay) * weights
        np.testing.assert_allclose(found.last.network.weights, weights, atol=1e-5)
        np.testing.assert_allclose(found.model.network.weights, average, atol=1e-5)
        norms.append(norm)
    assert min(norms) < SETTINGS.clip < max(norms)  # some gradients were clipped, some were not
