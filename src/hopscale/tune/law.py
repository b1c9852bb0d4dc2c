r"""The paper's limit law of the acceptance rate: $a = 2\Phi(-s/2)$ with $s = c R^p$."""

import functools
import math
from statistics import NormalDist
from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri


class Law(NamedTuple):
    """The limit law of a kernel whose best acceptance rate is known.

    Attributes:
        exponent: p in s = c R^p.
        curvature: minus the second derivative of log jump distance against log R at the best R.
        variance: the variance of one chain's acceptance probability there, relative to its squared
            mean: the noise of log R if it is found from one acceptance probability.
        early_variance: the same if log R is found from one log ratio, as before equilibrium;
            measured.
    """

    exponent: float
    curvature: float
    variance: float
    early_variance: float

    @staticmethod
    @functools.cache
    def of(rate: float) -> "Law":
        r"""With h = s/2, the best rate satisfies $\Phi(-h) = p\,h\,\varphi(h)$, which gives p."""
        h = -NormalDist().inv_cdf(rate / 2)
        mills = {t: _mills(t * h) for t in (-1, 1, 3)}
        exponent = mills[1] / h
        return Law(
            exponent=exponent,
            curvature=exponent**2 * h * (1 / mills[1] + h * (1 / mills[1] - h) / mills[1]),
            variance=(rate / 2 + (1 - rate / 2) * mills[3] / mills[-1]) / rate**2 - 1,
            early_variance=(0.6 + h + h * h) / exponent**2,
        )

    def moved(self, rate: float, rise: float) -> float:
        """The acceptance rate once log R has risen by `rise`, without compiling anything."""
        if not 0.0 < rate < 1.0:
            return rate
        normal = NormalDist()
        return 2.0 * normal.cdf(normal.inv_cdf(0.5 * rate) * math.exp(self.exponent * rise))


def log_s_of(rate):
    """The logarithm of the s at which the acceptance rate is `rate`."""
    return jnp.log(-2.0 * ndtri(0.5 * rate))


def acceptance(log_s):
    """The acceptance rate, 2 Phi(-s/2)."""
    return 2.0 * ndtr(-0.5 * jnp.exp(log_s))


def _mills(t: float) -> float:
    """Mills' ratio, Phi(-t) / phi(t)."""
    return math.erfc(t / math.sqrt(2)) * math.exp(0.5 * t * t) * math.sqrt(math.pi / 2)
