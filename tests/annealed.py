"""A model of twelve bits whose log Z is known, for the tests of annealed importance sampling."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale.learn import EBM, MLP, LogZ

SHAPE = (3, 4)
# A correct estimate is further off than that with probability 6e-7, if its error is.
ERRORS = 5.0


class Louder(eqx.Module):
    """A network times a number. Of all numbers one program is compiled."""

    network: MLP
    factor: jax.Array

    def __call__(self, x):
        return self.factor * self.network(x)


def model(factor: float = 1.0):
    """Twelve bits with energies that differ by several units."""
    rng = np.random.default_rng(0)
    network = MLP(SHAPE, 16, key=2)
    louder = jax.tree.map(lambda a: 4.0 * a if eqx.is_inexact_array(a) else a, network)
    return EBM(Louder(louder, jnp.asarray(factor)), rng.uniform(0.2, 0.8, SHAPE))


def truth(target):
    return float(jax.nn.logsumexp(jax.vmap(target.log_prob)(jnp.asarray(hs.check.states(target)))))


def off(estimate: LogZ, target) -> float:
    """How many of its own errors an estimate is from the truth."""
    return abs(estimate.value - truth(target)) / estimate.error
