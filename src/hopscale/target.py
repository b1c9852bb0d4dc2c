"""The interface of a target: the log-probability and log-ratios that kernels use.

A target is a frozen module. Its states have the shape `shape`, and each site takes one of
`num_states` values (0 or 1 for bits). States are small integers; `as_float` converts them.
"""

import abc
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale.move import Move, State, apply
from hopscale.validate import choice

if TYPE_CHECKING:
    from hopscale.kernels.kernel import Kernel
    from hopscale.targets.sweep import Sweep

Ratios = Float[Array, "..."]

RATIOS = ("exact", "gradient")


class Evaluation(NamedTuple):
    """The evaluation of a target at one state.

    Attributes:
        log_prob: the log-probability of the state, up to a constant.
        log_ratios: the log-ratios of all states one site away; None if they were not requested.
        cache: what the target's own `_update` needs to know of the state; private to the target.
    """

    log_prob: Float[Array, ""]
    log_ratios: Ratios | None
    cache: Any = None


def as_evaluation(found: Evaluation | tuple[Array, Array]) -> Evaluation:
    """An `Evaluation`, also if the target returned only a pair (log_prob, log_ratios)."""
    log_prob, log_ratios, *cache = found
    assert log_prob is not None
    return Evaluation(log_prob, log_ratios, *cache)


class Preparable(eqx.Module):
    """A part of a target with a form that is faster to evaluate many times."""

    @abc.abstractmethod
    def prepared(self) -> "Preparable":
        """This part in that form. Programs of many steps ask for it once, before the first."""


class Target(eqx.Module):
    r"""A distribution over discrete states, known up to a constant.

    `log_ratios(x)` gives the log-ratio of every state one site away from x. For bits it has the
    shape of x, and entry i is

    $$\log \pi(x_1, \dots, 1 - x_i, \dots, x_N) - \log \pi(x).$$

    With more than two values it has one more axis: entry (i, c) is the log-ratio of setting site i
    to c, and is 0 at the present value. `ratios="gradient"` replaces the log-ratios by the
    first-order approximation $(1 - 2 x_i)\, \partial_i \log \pi(x)$, at the cost of one gradient.

    To define a target, wrap a function in `LogDensity`; or subclass this class, set the four
    attributes `shape`, `num_states`, `ratios` and `dtype`, and implement `_log_prob` and
    `_evaluate`. If the effect of a few changed sites can be computed for less than a new
    evaluation, also implement `_update`. Rounding errors of updates do not accumulate: a run
    evaluates from scratch every 1,024 steps.
    """

    shape: eqx.AbstractVar[tuple[int, ...]]
    num_states: eqx.AbstractVar[int]
    ratios: eqx.AbstractVar[str]
    dtype: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def _log_prob(self, x: State) -> Float[Array, ""]:
        """Log-probability of one state, up to a constant."""

    @abc.abstractmethod
    def _evaluate(self, x: State) -> Evaluation | tuple[Float[Array, ""], Ratios]:
        """Log-probability and log-ratios of one state, and a cache if `_update` needs one."""

    def _evaluate_log_prob(self, x: State) -> Evaluation:
        """The evaluation without log-ratios, for kernels that do not use them."""
        return Evaluation(log_prob=self._log_prob(x), log_ratios=None)

    def _update(self, x: State, evaluation: Evaluation, move: Move) -> Evaluation:
        """The evaluation after a move; from scratch, unless a target overrides this."""
        y = apply(x, move)
        if evaluation.log_ratios is None:
            return self._evaluate_log_prob(y)
        return as_evaluation(self._evaluate(y))

    def starts(self, key: Key[Array, ""], chains: int) -> State | None:
        """Random states for chains to start from; None if each value is to be equally likely."""
        return None

    def check(self) -> None:
        """Raise if this target cannot be sampled."""

    def cautions(self) -> tuple[str, ...]:
        """Warnings that a run on this target begins with."""
        return ()

    def decided(self, ratios: str) -> "Target":
        """The target with `ratios` set to "exact" or "gradient", if it was "auto"."""
        return self

    def sweep(self) -> "Sweep | None":
        """A way to draw all sites in turn for less than an evaluation each; None if unknown."""
        return None

    def suited(self) -> "tuple[Kernel, str] | None":
        """The kernel that suits this target, and the reason; None to apply the general rules."""
        return None

    def given(
        self, free: Int[np.ndarray, " free"], state: Int[np.ndarray, " n"]
    ) -> "Target | None":
        """The distribution of the free sites given the others; None if that is no simpler.

        Args:
            free: indices of the free sites, counted row by row.
            state: a state of all sites, row by row; its values at free sites are ignored.

        Returns:
            A target of a flat vector, up to a constant, which `clamp` samples in place of this one.
        """
        return None

    def updates(self, ratios: bool) -> bool:
        """Whether `_update` avoids a full evaluation, so that rounding errors may accumulate.

        Args:
            ratios: whether the evaluations have log-ratios.
        """
        return type(self)._update is not Target._update

    @property
    def num_sites(self) -> int:
        """The number of sites: the product of the shape."""
        return math.prod(self.shape)

    @property
    def num_states_by_site(self) -> int | Int[Array, "*shape"]:
        """The number of values each site can take: the integer `num_states` if all sites are alike.

        If sites differ, `num_states` is the largest of these numbers. Values that a site lacks have
        log-probabilities and log-ratios of -inf.
        """
        return self.num_states

    @property
    def state_dtype(self):
        """The smallest signed integer type that holds a site's value: int8 up to 128 values."""
        return np.min_scalar_type(-self.num_states)

    def log_prob(self, x: ArrayLike) -> Float[Array, ""]:
        """Log-probability of one state, up to a constant of the target."""
        return self._log_prob(self.as_state(x))

    def log_ratios(self, x: ArrayLike) -> Ratios:
        """Log-ratios of all states one site away from x; see the class for their shape."""
        ratios = self.evaluate(x).log_ratios
        assert ratios is not None
        return ratios

    def evaluate(self, x: ArrayLike, ratios: bool = True) -> Evaluation:
        """Log-probability and log-ratios of one state together, from scratch.

        Args:
            x: the state.
            ratios: whether to compute the log-ratios.
        """
        x = self.as_state(x)
        return as_evaluation(self._evaluate(x)) if ratios else self._evaluate_log_prob(x)

    def update(self, x: ArrayLike, evaluation: Evaluation, move: Move) -> Evaluation:
        """The evaluation of the state after a move, given the evaluation of x.

        It has log-ratios if `evaluation` has. Up to rounding it equals `evaluate(apply(x, move))`.
        """
        return self._update(self.as_state(x), evaluation, move)

    def as_state(self, x: ArrayLike) -> State:
        """x as an array of this target's shape and integers; raises for what is no state of it."""
        try:
            x = jnp.asarray(x)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"a state holds integers 0 ... {self.num_states - 1}; got {x!r:.80}."
            ) from error
        if x.shape != self.shape:
            raise ValueError(
                f"a state of this {type(self).__name__} has shape {self.shape}; got {x.shape}. "
                "For many states at once, use jax.vmap."
            )
        if not (jnp.issubdtype(x.dtype, jnp.integer) or x.dtype == bool):
            raise TypeError(
                f"a state holds integers 0 ... {self.num_states - 1}; got dtype {x.dtype}. "
                "Convert it with .astype('int8')."
            )
        if has_values(x):
            check_values("a state holds", np.asarray(x), self.num_states_by_site)
        return x.astype(self.state_dtype)


def as_float(x: State, dtype) -> Float[Array, "*shape"]:
    """States as floating-point numbers."""
    return x.astype(dtype)


def values_there_are(num_states: Int[Array, "*shape"], most: int) -> Bool[Array, "*shape values"]:
    """Whether each site can take each of the values 0 ... most - 1."""
    shape = (*num_states.shape, most)
    return jnp.broadcast_to(jnp.arange(most), shape) < num_states[..., None]


def check_values(
    needed: str,
    x: np.ndarray,
    num_states: int | Int[Array, "*shape"],
    sites: Int[np.ndarray, " some"] | None = None,
) -> None:
    """Raise unless states hold values that their sites can take.

    Args:
        needed: the beginning of the error message.
        x: states, or the values of some sites.
        num_states: the number of values, one for all sites or one for each.
        sites: indices of the sites that x has, counted row by row. None: all.
    """
    if not x.size or not has_values(num_states):
        return
    each = np.asarray(num_states)
    most = int(each.max())
    if x.min() < 0 or x.max() >= most:
        raise ValueError(
            f"{needed} values 0 ... {most - 1}; got values from {x.min()} to {x.max()}. Spins "
            "s = -1, 1 are bits x = (s + 1) / 2."
        )
    if each.ndim == 0:
        return
    sites = np.arange(each.size) if sites is None else sites
    rows = x.reshape(-1, len(sites))
    above = np.argwhere(rows >= each.reshape(-1)[sites])
    if len(above):
        row, column = above[0]
        raise ValueError(
            f"{needed} values 0 ... {each.reshape(-1)[sites[column]] - 1} at site "
            f"{sites[column]}; got {rows[row, column]}."
        )


def has_values(array) -> bool:
    """Whether an array has concrete values, which it lacks while JAX traces a program."""
    return not isinstance(array, Tracer)


def check_ratios(ratios: str) -> None:
    choice("ratios", ratios, RATIOS)


def as_parameter(name: str, value, ndim: int | None = None) -> Float[Array, "..."]:
    """A parameter as a finite floating-point array, of at least single precision.

    NumPy converts everything that is not a JAX array, because JAX keeps a compiled program in
    memory for each operation outside a program, and for each shape.
    """
    needed = "a number" if ndim == 0 else "an array of numbers"
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be {needed}; got {value!r:.80}.") from error
    real = jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer)
    if not real or (ndim == 0 and array.ndim):
        came = f"{value!r:.80}" if has_values(array) else f"dtype {array.dtype}"
        raise TypeError(f"{name} must be {needed}; got {came}.")
    exact = jnp.issubdtype(array.dtype, jnp.integer)
    wide = jnp.promote_types(float if exact else array.dtype, jnp.float32)  # at least single
    with np.errstate(over="ignore"):
        array = array.astype(jax.dtypes.canonicalize_dtype(wide))
    if ndim is not None and array.ndim != ndim:
        raise ValueError(
            f"{name} must have {ndim} {'axis' if ndim == 1 else 'axes'}; got shape {array.shape}."
        )
    if has_values(array) and not np.all(np.isfinite(np.asarray(array))):
        raise ValueError(f"{name} must be finite; it holds NaN or infinity.")
    return jax.device_put(array)
