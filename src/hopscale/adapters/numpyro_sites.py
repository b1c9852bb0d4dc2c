"""The discrete sites of a NumPyro model as a target: values in one row, and log-ratios."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale.adapters import require
from hopscale.target import State, Target

numpyro = require("numpyro", "numpyro", "hs.numpyro")


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


def log_probs_of(model: Callable, model_args, model_kwargs) -> list[tuple[Array, tuple]]:
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
