"""Energy-based models as targets."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from hopscale.target import RATIOS, State, Target, as_float
from hopscale.targets import Bernoulli
from hopscale.targets.neighbours import neighbour_ratios
from hopscale.validate import choice, images, number, outcome

MARGIN = 0.01


class EBM(Target):
    r"""A network's energy on a base of independent bits.

    $$\log \pi_\theta(x) = -f_\theta(x) + \sum_i x_i \log p_i + (1 - x_i) \log(1 - p_i)
      - \log Z_\theta$$

    `log_prob` leaves out the unknown $\log Z_\theta$, which `log_z` estimates. By default
    log-ratios are those of the first-order approximation of f, so that a step takes one
    value-and-gradient of the network.

    Args:
        network: $f_\theta$, a function of one state as floats 0 and 1; an Equinox module if it is
            to be trained. If it has a method `value_and_slope(x)`, which returns the energy and
            its gradient, this is used.
        base: the independent bits: a `Bernoulli`, or the probabilities p. `base_of(data)` makes
            it from data.
        ratios: "gradient"; "exact", which evaluates every neighbour; or "auto": a run decides, as
            for `hs.LogDensity`.
    """

    network: Callable
    base: Bernoulli
    ratios: str = eqx.field(static=True)

    num_states: ClassVar[int] = 2

    def __init__(self, network, base, ratios: str = "gradient"):
        self.network = network
        self.base = base if isinstance(base, Bernoulli) else Bernoulli(base)
        self.ratios = ratios

    def __check_init__(self):
        choice("ratios", self.ratios, ("auto", *RATIOS))
        if not callable(self.network):
            raise TypeError(
                f"network must be a function of one state; got {type(self.network).__name__}."
            )
        image = jax.ShapeDtypeStruct(self.shape, self.dtype)
        needed = f"network must be a function of one state of shape {self.shape}"
        out = outcome(needed, self.network, image)
        if getattr(out, "shape", None) != () or not jnp.issubdtype(out.dtype, np.floating):
            raise ValueError(
                f"network must return one real number for one state of shape {self.shape}; "
                f"it returns {out}."
            )
        if self._own_way is not None:
            out = outcome(f"{needed}, and its value_and_slope too", self._own_way, image)
            if [getattr(a, "shape", None) for a in out] != [(), self.shape]:
                raise ValueError(
                    "value_and_slope of the network must return its energy, a number, and the "
                    f"gradient, of shape {self.shape}; it returns {out}."
                )

    @property
    def shape(self):
        return self.base.shape

    @property
    def dtype(self):
        return self.base.dtype

    def decided(self, ratios: str) -> "EBM":
        return EBM(self.network, self.base, ratios) if self.ratios == "auto" else self

    def energy(self, x: State) -> Float[Array, ""]:
        """f(x) of one state."""
        return self.network(as_float(x, self.dtype)).astype(self.dtype)

    @property
    def _own_way(self) -> Callable | None:
        """The network's own method for f and its gradient, which may be faster than JAX's."""
        own = getattr(self.network, "value_and_slope", None)
        return own if callable(own) else None

    def _log_prob(self, x: State):
        return self.base._log_prob(x) - self.energy(x)

    def _evaluate(self, x: State):
        if self.ratios == "exact":
            return neighbour_ratios(self._log_prob, x, 2)
        code = as_float(x, self.dtype)
        energy, slope = (self._own_way or jax.value_and_grad(self.network))(code)
        base = self.base._evaluate(x)
        log_ratios = base.log_ratios - (1.0 - 2.0 * code) * slope.astype(self.dtype)
        return base.log_prob - energy.astype(self.dtype), log_ratios


def base_of(data, margin: float = MARGIN) -> Bernoulli:
    r"""Independent bits with the means of the data, kept away from 0 and 1.

    $$p_i = \epsilon + (1 - 2 \epsilon) \bar x_i$$

    Args:
        data: states along the first axis: bits, or grey levels 0 ... 255 (uint8), which stand for
            bits that are 1 with probability level / 255. A uint8 array that holds only 0 and 1 is
            taken as bits.
        margin: $\epsilon$.
    """
    number("margin", margin, 0.0, 0.5, "()")
    data = images("data", data)
    means = np.mean(data, axis=0, dtype=np.float64) / (255 if data.dtype == np.uint8 else 1)
    return Bernoulli(np.asarray(margin + (1 - 2 * margin) * means, np.float32))


def draw_base(key: Key[Array, ""], base: Bernoulli, number: int) -> State:
    """Draw `number` states from a base of independent bits."""
    uniform = jax.random.uniform(key, (number, *base.shape), base.dtype)
    return (uniform < base.p[None]).astype(base.state_dtype)


def trainable(network) -> eqx.Module:
    """The network's weights: its arrays of floats, and None for the rest."""
    return eqx.filter(network, eqx.is_inexact_array)
