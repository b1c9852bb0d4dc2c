"""Any differentiable function as a target."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hopscale import validate
from hopscale.target import RATIOS, Evaluation, State, Target, as_float, values_there_are
from hopscale.targets.neighbours import Undefined, neighbour_ratios

SMALL = 32  # up to this many neighbours of a state, "auto" is always "exact"


class LogDensity(Target):
    r"""The distribution proportional to exp(fn(x)), for any JAX function of one state.

    For bits, fn receives a float array of shape `shape` that holds zeros and ones. For
    `num_states` > 2 it receives the one-hot code, of shape `(*shape, num_states)`: categories have
    no order, and the gradient with respect to the code tells what each other value would change.

    `ratios="gradient"` takes one value and gradient per step: $(1 - 2 x_i)\,\partial_i f(x)$ for
    bits, $\partial_{ic} f - \partial_{i x_i} f$ for categories. The gradient follows fn between the
    values of a site, and misleads if fn bends there. `ratios="exact"` evaluates fn at every state
    one site away, N (num_states - 1) of them. This makes better proposals, at that cost.

    `ratios="auto"`, the default, is "exact" for up to 32 such neighbours. For more, a run counts
    the operations of one evaluation, and takes "exact" if all neighbours together need up to
    20,000. Otherwise it compares both at some neighbours of some states. If they agree, it takes
    "gradient". If they do not, it takes "exact", above 10^8 operations with a warning about the
    cost; above 2 x 10^9 operations it takes "gradient", with a warning. `run.ratios` says which
    ratios were taken. Outside a run, "auto" means "gradient"; `hs.check.ratios(target)` compares.

    Args:
        fn: the log-density, up to a constant. It can be an Equinox module, whose arrays are then
            arguments of the compiled program, not constants in it.
        shape: the shape of a state.
        num_states: the number of values of a site, 0 ... num_states - 1: one number, or one for
            each site. If sites differ, codes have the length of the longest. Values that a site
            lacks have probability 0, whatever fn returns for them.
        ratios: "auto", "exact" or "gradient". Exact ratios take a neighbour at which fn is NaN or
            +inf for one of probability 0: it is not proposed, and so not counted as invalid.
        dtype: the type of the floats that fn receives.

    Examples:
        >>> target = hs.LogDensity(lambda x: 2.0 * x[0] - x[0] * x[1], shape=(2,))
        >>> print(target.log_prob([1, 0]), target.log_ratios([1, 0]))
        2.0 [-2. -1.]
    """

    fn: Callable
    shape: tuple[int, ...] = eqx.field(static=True)
    num_states: int = eqx.field(static=True)
    by_site: Int[Array, "*shape"] | None
    ratios: str = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def __init__(self, fn, shape, num_states: Any = 2, ratios: str = "auto", dtype=None):
        self.fn = fn
        self.shape = validate.shape(shape)
        self.num_states, by_site = validate.num_states(num_states, self.shape)
        self.by_site = None if by_site is None else jnp.asarray(by_site)
        self.ratios = ratios
        if ratios == "auto" and math.prod(self.shape) * (self.num_states - 1) <= SMALL:
            self.ratios = "exact"
        try:
            self.dtype = jnp.dtype(jax.dtypes.canonicalize_dtype(float) if dtype is None else dtype)
        except TypeError as error:
            raise TypeError(f"dtype must be float32 or float64; got {dtype!r}.") from error

    def __check_init__(self):
        validate.choice("ratios", self.ratios, ("auto", *RATIOS))
        if not callable(self.fn):
            raise TypeError(f"fn must be a function of one state; got {type(self.fn).__name__}.")
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
        needed = f"fn must be a function of one state of shape {self._code_shape}, {self._hint}"
        out = validate.outcome(needed, self.fn, jax.ShapeDtypeStruct(self._code_shape, self.dtype))
        if (
            not hasattr(out, "shape")
            or out.shape != ()
            or not jnp.issubdtype(out.dtype, np.floating)
        ):
            returns = out
            if isinstance(out, jax.ShapeDtypeStruct):
                returns = f"an array of shape {out.shape} of {out.dtype}"
            raise ValueError(
                "fn must return one real number for one state of shape "
                f"{self._code_shape}; it returns {returns}. Add up what it gives for each site, "
                "jnp.sum, and make integers floats."
            )

    def decided(self, ratios: str) -> "LogDensity":
        if self.ratios != "auto":
            return self
        return LogDensity(self.fn, self.shape, self.num_states_by_site, ratios, self.dtype)

    @property
    def num_states_by_site(self):
        return self.num_states if self.by_site is None else self.by_site

    @property
    def _code_shape(self) -> tuple[int, ...]:
        return self.shape if self.num_states == 2 else (*self.shape, self.num_states)

    @property
    def _hint(self) -> str:
        """What fn receives, and how to look up values in a table."""
        if self.num_states == 2:
            return "of floats (for an index, x.astype(int))"
        return (
            f"the one-hot code, whose last axis is over the {self.num_states} values (for a table "
            "with a number for each value, x @ table; for an index, jnp.argmax(x, -1))"
        )

    def _code(self, x: State):
        if self.num_states == 2:
            return as_float(x, self.dtype)
        return jax.nn.one_hot(x, self.num_states, dtype=self.dtype)

    def _log_prob(self, x: State):
        return self._where_possible(x, jnp.asarray(self.fn(self._code(x))))

    def _where_possible(self, x: State, value: Float[Array, ""]) -> Float[Array, ""]:
        """The value, or -inf if a site is at a value that it cannot take."""
        if self.by_site is not None:
            value = jnp.where(jnp.all(x < self.by_site), value, -jnp.inf)
        return jnp.asarray(value, self.dtype)

    def _evaluate_log_prob(self, x: State):
        nothing_seen = Undefined(jnp.int32(0))  # a sweep counts what it sees
        return Evaluation(self._log_prob(x), log_ratios=None, cache=nothing_seen)

    def _evaluate(self, x: State):
        if self.ratios == "exact":
            return neighbour_ratios(self._log_prob, x, self.num_states)
        code = self._code(x)
        value, slope = jax.value_and_grad(self.fn)(code)
        if self.num_states == 2:
            ratios = (1.0 - 2.0 * code) * slope
        else:
            ratios = slope - jnp.sum(code * slope, axis=-1, keepdims=True)
        if self.by_site is not None:
            ratios = jnp.where(values_there_are(self.by_site, self.num_states), ratios, -jnp.inf)
        return self._where_possible(x, value), ratios.astype(self.dtype)
