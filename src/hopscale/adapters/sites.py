"""The discrete sites of another package's model as a target, and moves of them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from hopscale.kernels import LBP, ChainState, Kernel
from hopscale.target import State, Target
from hopscale.tune import Tuner, TunerState, fitted
from hopscale.validate import instance


class Layout(NamedTuple):
    """How the discrete sites of a model are laid out in one row.

    Attributes:
        names, shapes: of the sites, in order.
        supports: for each site, its values in order.
        frames: for each site, the (plate, axis) of all its axes; None if an axis is not a plate, or
            if log-probabilities cannot be told apart.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    supports: tuple[tuple[int, ...], ...]
    frames: tuple[tuple[tuple[str, int], ...] | None, ...]

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
    def num_states_by_site(self):  # type: ignore[override]
        counts = self.layout.counts
        alike = counts.min() == counts.max()
        return int(counts[0]) if alike else jnp.asarray(counts)

    @property
    def dtype(self):  # type: ignore[override]
        return jnp.dtype(jax.dtypes.canonicalize_dtype(float))

    def _log_prob(self, x: State) -> Float[Array, ""]:
        inside = jnp.all(x < self.num_states_by_site)
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
        """The log-probabilities of every member of the plates, with all members at each value."""
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


class Moved(NamedTuple):
    """The chain after some moves, the tuner's state, and their mean acceptance probability."""

    chain: ChainState
    tuned: TunerState
    accept_prob: Float[Array, ""]


def usable(kernel: Kernel | None, scale: Tuner | None, package: str) -> Kernel:
    """The kernel, or `hs.LBP()`; refuses what does not work within another package."""
    kernel = LBP() if kernel is None else kernel
    instance("kernel", kernel, Kernel, "hs.LBP()")
    if scale is not None:
        instance("scale", scale, Tuner, "hs.Tuned() or hs.Fixed(R)")
    if type(kernel).starts is not Kernel.starts:
        raise TypeError(
            f"hs.{type(kernel).__name__} moves among some states only, and {package} says "
            "where chains start. Use hs.LBP(), hs.GWG() or hs.RWM()."
        )
    return kernel


def first_scale(target: SiteDensity, kernel: Kernel, scale: Tuner | None) -> TunerState:
    """The first state of the tuner."""
    kernel.check(target)
    scales = kernel.scale_range(target)
    return fitted(scale, scales).init(scales, 1, target.dtype)  # type: ignore[arg-type]


def moves(
    key: Array,
    target: SiteDensity,
    kernel: Kernel,
    scale: Tuner | None,
    x: State,
    tuned: TunerState,
    warming: Bool[Array, ""],
    number: int,
) -> Moved:
    """Several moves of one chain; the scale is tuned while the other package warms up."""
    scales = kernel.scale_range(target)
    tuner = fitted(scale, scales)

    def move(i, carry):
        chain, tuned, total = carry
        now = jnp.where(warming, tuned.scale, tuner.settled(tuned).scale).reshape(())
        chain, info = kernel.step(jax.random.fold_in(key, i), target, chain, now)
        several = jax.tree.map(lambda a: a[None], info)  # a tuner expects an axis of chains
        after = tuner.update(tuned, several, scales)  # type: ignore[arg-type]
        tuned = jax.tree.map(lambda a, b: jnp.where(warming, a, b), after, tuned)
        return chain, tuned, total + info.accept_prob

    begun = (kernel.init(target, x.astype(target.state_dtype)), tuned, jnp.zeros((), target.dtype))
    chain, tuned, total = jax.lax.fori_loop(0, number, move, begun)
    assert isinstance(chain, ChainState)
    return Moved(chain=chain, tuned=tuned, accept_prob=total / number)


def _members(log_prob: Array, shape: tuple[int, ...]) -> Array:
    """Log-probabilities summed over all axes but those of the shape, counted from the right."""
    extra = log_prob.ndim - len(shape)
    log_prob = jnp.sum(log_prob, axis=tuple(range(extra))) if extra > 0 else log_prob
    offset = len(shape) - log_prob.ndim
    for axis, size in enumerate(log_prob.shape):
        if shape[axis + offset] == 1 and size > 1:
            log_prob = jnp.sum(log_prob, axis=axis, keepdims=True)
    return jnp.broadcast_to(log_prob, shape)
