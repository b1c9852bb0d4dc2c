"""Any differentiable function as a target."""

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale.target import State, Target, as_float, check_ratios


class LogDensity(Target):
    r"""The distribution proportional to exp(fn(x)), for any JAX function of one state.

    For bits, fn sees a float array of `shape` holding zeros and ones. For `num_states` > 2 it
    sees the one-hot code, of shape `(*shape, num_states)`: a category has no order, and the
    gradient with respect to its code says what each other value would change.

    `ratios="gradient"` (the default) takes one value-and-gradient a step:
    $(1 - 2 x_i)\,\partial_i f(x)$ for bits, $\partial_{ic} f - \partial_{i x_i} f$ for
    categories. `ratios="exact"` evaluates fn at every state one site away, N (num_states - 1)
    of them: better proposals, at that price.

    Args:
        fn: the log-density, up to a constant. Equinox modules are welcome: their arrays are
            arguments of the compiled program, not constants in it.
        shape: the shape of a state.
        num_states: values a site can take, 0 ... num_states - 1.
        ratios: "gradient" or "exact".
        dtype: of the floats fn sees.
    """

    fn: Callable
    shape: tuple[int, ...] = eqx.field(static=True)
    num_states: int = eqx.field(static=True)
    ratios: str = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def __init__(self, fn, shape, num_states: int = 2, ratios: str = "gradient", dtype=None):
        self.fn = fn
        self.shape = _as_shape(shape)
        self.num_states = _as_integer("num_states", num_states)
        self.ratios = ratios
        self.dtype = jnp.dtype(jax.dtypes.canonicalize_dtype(float) if dtype is None else dtype)

    def __check_init__(self):
        check_ratios(self.ratios)
        if not callable(self.fn):
            raise TypeError(f"fn must be a function of one state; got {type(self.fn).__name__}.")
        if not self.shape or min(self.shape) < 1:
            raise ValueError(f"shape must hold positive integers; got {self.shape}.")
        if self.num_states < 2:
            raise ValueError(f"num_states must be at least 2; got {self.num_states}.")
        if self.dtype not in (jnp.float32, jnp.float64):
            raise TypeError(
                f"dtype must be float32 or float64; got {self.dtype}. Log-probabilities need that "
                "much; a network can compute in less inside fn."
            )
        if self.dtype != jax.dtypes.canonicalize_dtype(self.dtype):
            raise ValueError(
                "dtype float64 needs double precision switched on: jax.config.update("
                "'jax_enable_x64', True)."
            )
        out = jax.eval_shape(self.fn, jax.ShapeDtypeStruct(self._code_shape, self.dtype))
        if (
            not hasattr(out, "shape")
            or out.shape != ()
            or not jnp.issubdtype(out.dtype, np.floating)
        ):
            raise ValueError(
                "fn must return one real number for one state of shape "
                f"{self._code_shape}; it returns {out}."
            )

    @property
    def _code_shape(self) -> tuple[int, ...]:
        return self.shape if self.num_states == 2 else (*self.shape, self.num_states)

    def _code(self, x: State):
        if self.num_states == 2:
            return as_float(x, self.dtype)
        return jax.nn.one_hot(x, self.num_states, dtype=self.dtype)

    def _log_prob(self, x: State):
        return self.fn(self._code(x)).astype(self.dtype)

    def _evaluate(self, x: State):
        if self.ratios == "exact":
            return self._neighbours(x)
        code = self._code(x)
        value, slope = jax.value_and_grad(self.fn)(code)
        if self.num_states == 2:
            ratios = (1.0 - 2.0 * code) * slope
        else:
            ratios = slope - jnp.sum(code * slope, axis=-1, keepdims=True)
        return value.astype(self.dtype), ratios.astype(self.dtype)

    def _neighbours(self, x: State):
        """The function at x and at every state one site away.

        A neighbour where the function is NaN or +inf gets weight 0: it is never proposed.
        """
        here = self._log_prob(x)

        def change(site, by):
            flat = x.reshape(-1)
            value = (flat[site].astype(jnp.int32) + by) % self.num_states
            moved = flat.at[site].set(value.astype(flat.dtype))
            there = self._log_prob(moved.reshape(x.shape))
            return jnp.where(there < jnp.inf, there, -jnp.inf) - here  # NaN is not below

        sites = jnp.arange(math.prod(self.shape))
        if self.num_states == 2:
            return here, jax.vmap(lambda i: change(i, jnp.int32(1)))(sites).reshape(x.shape)
        by = jnp.arange(self.num_states)
        steps = jax.vmap(lambda i: jax.vmap(lambda b: change(i, b))(by))(sites)
        # steps[i, b] moves site i from x_i to x_i + b; turn offsets into values.
        offsets = (by[None, :] - x.reshape(-1, 1)) % self.num_states
        ratios = jnp.take_along_axis(steps, offsets, axis=1)
        return here, ratios.reshape(*self.shape, self.num_states)


def _as_integer(name: str, value) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise TypeError(f"{name} must be an integer; got {value!r}.") from error


def _as_shape(shape) -> tuple[int, ...]:
    if not isinstance(shape, Iterable):
        return (_as_integer("shape", shape),)
    return tuple(_as_integer("shape", n) for n in shape)
