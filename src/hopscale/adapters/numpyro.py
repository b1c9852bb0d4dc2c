"""hopscale's kernels for the discrete sites of a NumPyro model, next to NUTS.

```
kernel = hs.numpyro.HMCWithLBP(NUTS(model))
mcmc = MCMC(kernel, num_warmup=500, num_samples=1_000)
```
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from hopscale.adapters import require
from hopscale.kernels import LBP, ChainState, Kernel
from hopscale.target import State, Target
from hopscale.tune import Tuner, TunerState, fitted

numpyro = require("numpyro", "numpyro", "hs.numpyro")
gibbs = require("numpyro.infer.gibbs", "numpyro", "hs.numpyro")
infer = require("numpyro.infer", "numpyro", "hs.numpyro")

__all__ = ["DiscreteBlock", "DiscreteBlockState", "HMCWithLBP"]


class DiscreteBlockState(NamedTuple):
    """The discrete sites between two steps.

    Attributes:
        z: their values by name.
        potential_energy: minus the log-density of the model there.
        rng_key: of the next step.
        tuner: the scale, and what its tuner remembers.
        step: how many there have been.
        accept_prob: the mean acceptance probability of the last step's moves.
    """

    z: dict[str, Array]
    potential_energy: Float[Array, ""]
    rng_key: Array
    tuner: TunerState
    step: Int[Array, ""]
    accept_prob: Float[Array, ""]

    @property
    def scale(self) -> Array:
        """R, the mean number of discrete values that a move changes."""
        return self.tuner.scale


class DiscreteBlock(gibbs.DiscreteGibbs):
    """Moves of several discrete values at a time, by a kernel of hopscale.

    For a purely discrete model, or as a block of `numpyro.infer.Gibbs`. The scale is tuned while
    NumPyro warms up and frozen afterwards.

    A move needs the log-ratio of every value that every site could take instead. Where a site's
    axes are plates, these come from one evaluation of the model for each value: members of a plate
    are independent given what is outside it, so all of them can be changed at once and each looks
    at its own log-probabilities. A model whose plates are not independent is still sampled
    exactly, with worse proposals. Sites without plates are changed one by one, an evaluation each.

    Args:
        model: the NumPyro model.
        kernel: `hs.LBP()` unless said; any kernel that changes sites.
        moves: how many moves make one step of NumPyro's.
        scale: `hs.Tuned()` unless said, or `hs.Fixed(R)`.
    """

    def __init__(
        self,
        model: Callable,
        *,
        kernel: Kernel | None = None,
        moves: int = 10,
        scale: Tuner | None = None,
    ):
        super().__init__(model)
        if not isinstance(moves, int) or moves < 1:
            raise ValueError(f"moves must be a positive integer; got {moves!r}.")
        self.kernel = LBP() if kernel is None else kernel
        self._moves = moves
        self._scale = scale
        self._num_warmup = 0
        self._layout: Layout | None = None

    def init(self, rng_key, num_warmup, init_params, model_args, model_kwargs):
        key_trace, key_gibbs = jax.random.split(rng_key)
        found = super().init(key_gibbs, num_warmup, init_params, model_args, model_kwargs)
        assert self._sites is not None
        trace = gibbs.prototype_trace(
            gibbs.conditioned(self._model), key_trace, model_args, model_kwargs
        )
        self._layout = Layout.of(trace, self._sites, marginalized=self._enum)
        self._num_warmup = num_warmup
        target = self._target(model_args, model_kwargs)
        scales = self.kernel.scale_range(target)
        tuner = fitted(self._scale, scales).init(scales, 1, target.dtype)  # type: ignore[arg-type]
        return DiscreteBlockState(
            z=found.z,
            potential_energy=found.potential_energy,
            rng_key=found.rng_key,
            tuner=tuner,
            step=jnp.zeros((), jnp.int32),
            accept_prob=jnp.zeros((), target.dtype),
        )

    def sample(self, state: DiscreteBlockState, model_args, model_kwargs) -> DiscreteBlockState:
        assert self._layout is not None, "init comes before sample"
        target = self._target(model_args, model_kwargs)
        scales = self.kernel.scale_range(target)
        tuner = fitted(self._scale, scales)
        key, key_moves = jax.random.split(state.rng_key)
        warming = state.step < self._num_warmup

        def move(i, carry):
            chain, tuned, total = carry
            key_move = jax.random.fold_in(_typed(key_moves), i)
            scale = jnp.where(warming, tuned.scale, tuner.settled(tuned).scale).reshape(())
            chain, info = self.kernel.step(key_move, target, chain, scale)
            several = jax.tree.map(lambda a: a[None], info)  # a tuner looks at many chains
            after = tuner.update(tuned, several, scales)  # type: ignore[arg-type]
            tuned = jax.tree.map(lambda a, b: jnp.where(warming, a, b), after, tuned)
            return chain, tuned, total + info.accept_prob

        x = self._layout.ravel(state.z).astype(target.state_dtype)
        begun = (self.kernel.init(target, x), state.tuner, jnp.zeros((), target.dtype))
        chain, tuned, total = jax.lax.fori_loop(0, self._moves, move, begun)
        assert isinstance(chain, ChainState)
        return DiscreteBlockState(
            z=self._layout.unravel(chain.x, like=state.z),
            potential_energy=-chain.log_prob.astype(state.potential_energy.dtype),
            rng_key=key,
            tuner=tuned,
            step=state.step + 1,
            accept_prob=total / self._moves,
        )

    def _target(self, model_args, model_kwargs) -> "SiteDensity":
        assert self._layout is not None
        assert self._prepared_model is not None
        return SiteDensity(
            layout=self._layout,
            log_density=lambda z: -self.get_potential_fn(model_args, model_kwargs)(z),
            log_probs=lambda z: _log_probs(
                self._prepared_model,  # type: ignore[arg-type]
                model_args,
                gibbs.with_conditioning(model_kwargs, z),
            ),
        )

    def wrap_model(self, wrapper) -> "DiscreteBlock":
        kernel = super().wrap_model(wrapper)
        kernel._layout = None
        return kernel

    def get_diagnostics_str(self, state: DiscreteBlockState) -> str:
        return f"R {float(state.scale):.3g}, acc. prob {float(state.accept_prob):.2f}"


class HMCWithLBP(gibbs.Gibbs):
    """NUTS or HMC for the continuous sites of a model, moves of hopscale's for the discrete ones.

    For `numpyro.infer.MCMC`, where `DiscreteHMCGibbs` would stand. Each step makes `moves` moves
    of the discrete sites and then one of the inner kernel.

    Args:
        inner_kernel: `numpyro.infer.NUTS(model)` or `HMC(model)`.
        kernel, moves, scale: as for `DiscreteBlock`.
    """

    def __init__(
        self,
        inner_kernel: Any,
        *,
        kernel: Kernel | None = None,
        moves: int = 10,
        scale: Tuner | None = None,
    ):
        if not isinstance(inner_kernel, infer.HMC):
            raise TypeError(
                "inner_kernel must be numpyro.infer.NUTS(model) or HMC(model); got "
                f"{inner_kernel!r}."
            )
        if inner_kernel.model is None:
            raise ValueError("inner_kernel must be made of a model, not of a potential function.")
        block = DiscreteBlock(inner_kernel.model, kernel=kernel, moves=moves, scale=scale)
        super().__init__([(block, gibbs.discrete_latent_sites), (inner_kernel, None)])
        self.inner_kernel = self._kernels[1]

    def get_diagnostics_str(self, state) -> str:
        discrete, continuous = state.block_states
        inner = self.inner_kernel.get_diagnostics_str(continuous)
        return f"{self._kernels[0].get_diagnostics_str(discrete)}; {inner}"


class Layout(NamedTuple):
    """How the discrete sites of a model lie in one row.

    Attributes:
        names, shapes: of the sites, in order.
        supports: of each site, its values in order.
        frames: of each site, the (plate, axis) of all its axes; None where an axis is no plate, and
            for models with marginalised sites, whose log-probabilities do not stand apart.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    supports: tuple[tuple[int, ...], ...]
    frames: tuple[tuple[tuple[str, int], ...] | None, ...]

    @staticmethod
    def of(trace: Any, names: tuple[str, ...], marginalized: bool) -> "Layout":
        sites = [trace[name] for name in names]
        return Layout(
            names=names,
            shapes=tuple(jnp.shape(site["value"]) for site in sites),
            supports=tuple(_support(name, trace[name]) for name in names),
            frames=tuple(None if marginalized else _frames(site) for site in sites),
        )

    @property
    def num_sites(self) -> int:
        return sum(map(math.prod, self.shapes))

    @property
    def num_states(self) -> int:
        return max(2, *map(len, self.supports))

    @property
    def counts(self) -> np.ndarray:
        """How many values each entry of the row can take."""
        sizes = [math.prod(shape) for shape in self.shapes]
        return np.repeat([len(support) for support in self.supports], sizes)

    def ravel(self, z: dict[str, Array]) -> State:
        """The row: each value by its place in the support."""
        places = [
            jnp.searchsorted(jnp.asarray(support), jnp.ravel(z[name]))
            for name, support in zip(self.names, self.supports, strict=True)
        ]
        return jnp.concatenate(places).astype(jnp.int32)

    def unravel(self, x: State, like: dict[str, Array] | None = None) -> dict[str, Array]:
        found, start = {}, 0
        for name, shape, support in zip(self.names, self.shapes, self.supports, strict=True):
            size = math.prod(shape)
            places = x[start : start + size].astype(jnp.int32).reshape(shape)
            dtype = jnp.int32 if like is None else like[name].dtype
            found[name] = jnp.asarray(support)[places].astype(dtype)
            start += size
        return found


class SiteDensity(Target):
    """The discrete sites of a model, given the others."""

    layout: Layout = eqx.field(static=True)
    log_density: Callable
    log_probs: Callable
    ratios: str = eqx.field(static=True, default="exact")

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.layout.num_sites,)

    @property
    def num_states(self) -> int:  # type: ignore[override]
        return self.layout.num_states

    @property
    def dtype(self):  # type: ignore[override]
        return jnp.dtype(jax.dtypes.canonicalize_dtype(float))

    def _log_prob(self, x: State) -> Float[Array, ""]:
        inside = jnp.all(x < jnp.asarray(self.layout.counts, x.dtype))
        value = self.log_density(self.layout.unravel(x))
        return jnp.where(inside, value, -jnp.inf).astype(self.dtype)

    def _evaluate(self, x: State):
        here, z = self._log_prob(x), self.layout.unravel(x)
        rows = []
        for number, (name, frames) in enumerate(
            zip(self.layout.names, self.layout.frames, strict=True)
        ):
            row = (
                self._one_by_one(x, here, number)
                if frames is None
                else self._by_plates(z, name, frames, number)
            )
            missing = self.num_states - row.shape[1]
            rows.append(jnp.pad(row, ((0, 0), (0, missing)), constant_values=-jnp.inf))
        ratios = jnp.concatenate(rows).astype(self.dtype)  # (sites, states)
        ratios = ratios - jnp.take_along_axis(ratios, x[:, None].astype(jnp.int32), axis=1)
        if self.num_states == 2:
            ratios = jnp.where(x == 0, ratios[:, 1], ratios[:, 0])
        return here, ratios

    def _by_plates(self, z, name: str, frames, number: int) -> Float[Array, "sites values"]:
        """The log-probabilities at every member of the plates, at each value of all members."""
        shape, support = self.layout.shapes[number], self.layout.supports[number]

        def at(value):
            everywhere = jnp.full(shape, value, z[name].dtype)
            found = jnp.zeros(shape)
            for log_prob, others in self.log_probs({**z, name: everywhere}):
                if set(frames) <= set(others):
                    found = found + _members(log_prob, shape)
            return found.reshape(-1)

        return jax.vmap(at)(jnp.asarray(support)).T

    def _one_by_one(self, x: State, here, number: int) -> Float[Array, "sites values"]:
        """The log-density at every value of every entry of a site."""
        sizes = [math.prod(shape) for shape in self.layout.shapes]
        start = sum(sizes[:number])

        def at(site, value):
            return self._log_prob(x.at[site].set(value))

        sites = start + jnp.arange(sizes[number])
        values = jnp.arange(len(self.layout.supports[number])).astype(x.dtype)
        found = jax.vmap(lambda site: jax.vmap(lambda value: at(site, value))(values))(sites)
        return jnp.where(found < jnp.inf, found, -jnp.inf)


def _support(name: str, site: Any) -> tuple[int, ...]:
    with jax.ensure_compile_time_eval():  # NumPyro may be compiling
        values = np.asarray(site["fn"].enumerate_support(False)).reshape(-1)
    if np.any(np.diff(values) <= 0):
        raise ValueError(f"the values of the site {name!r} must be in order; they are {values}.")
    return tuple(int(value) for value in values)


def _frames(site: Any) -> tuple[tuple[str, int], ...] | None:
    """The plates along the axes of a site, if every axis is one."""
    shape = jnp.shape(site["value"])
    frames = tuple((frame.name, frame.dim) for frame in site["cond_indep_stack"])
    axes = {axis for _, axis in frames}
    if not shape or site["fn"].event_dim:
        return None
    plated = all(size == 1 or axis - len(shape) in axes for axis, size in enumerate(shape))
    return frames if plated else None


def _members(log_prob: Array, shape: tuple[int, ...]) -> Array:
    """Log-probabilities summed over all axes but those of the shape, counted from the right."""
    extra = log_prob.ndim - len(shape)
    log_prob = jnp.sum(log_prob, axis=tuple(range(extra))) if extra > 0 else log_prob
    offset = len(shape) - log_prob.ndim
    for axis, size in enumerate(log_prob.shape):
        if shape[axis + offset] == 1 and size > 1:
            log_prob = jnp.sum(log_prob, axis=axis, keepdims=True)
    return jnp.broadcast_to(log_prob, shape)


def _log_probs(model: Callable, model_args, model_kwargs) -> list[tuple[Array, tuple]]:
    """The log-probabilities of all sites of a model, each with its plates."""
    trace = numpyro.handlers.trace(model).get_trace(*model_args, **model_kwargs)
    found = []
    for site in trace.values():
        if site["type"] != "sample":
            continue
        log_prob = site["fn"].log_prob(site["value"])
        if site["scale"] is not None:
            log_prob = site["scale"] * log_prob
        frames = tuple((frame.name, frame.dim) for frame in site["cond_indep_stack"])
        found.append((log_prob, frames))
    return found


def _typed(key: Array) -> Key[Array, ""]:
    """A key of either kind as a typed one."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    return jax.random.wrap_key_data(key)
