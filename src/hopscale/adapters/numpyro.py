"""hopscale's kernels for the discrete sites of a NumPyro model, next to NUTS.

```
kernel = hs.numpyro.HMCWithLBP(NUTS(model))
mcmc = MCMC(kernel, num_warmup=500, num_samples=1_000)
```
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from hopscale.adapters import require
from hopscale.adapters.sites import Layout, SiteDensity, first_scale, moves, usable
from hopscale.kernels import Kernel
from hopscale.tune import Tuner, TunerState
from hopscale.validate import count

numpyro = require("numpyro", "numpyro", "hs.numpyro")
gibbs = require("numpyro.infer.gibbs", "numpyro", "hs.numpyro")
infer = require("numpyro.infer", "numpyro", "hs.numpyro")

__all__ = ["DiscreteBlock", "DiscreteBlockState", "HMCWithLBP"]


class DiscreteBlockState(NamedTuple):
    """The state of the discrete sites between two steps.

    Attributes:
        z: their values by name.
        potential_energy: minus the log-density of the model there.
        rng_key: the key of the next step.
        tuner: the state of the tuner, with the scale.
        step: the number of steps so far.
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
    """Moves of several discrete values at a time, by a hopscale kernel.

    It is for a purely discrete model, or a block of `numpyro.infer.Gibbs`. The scale is tuned while
    NumPyro warms up and frozen afterwards.

    A move needs the log-ratio of every value that every site could take instead. If a site's axes
    are plates, these ratios take one evaluation of the model per value. Members of a plate are
    independent given what is outside it, so all of them can be changed at once, and each uses its
    own log-probabilities. A model whose plates are not independent is still sampled exactly, with
    worse proposals. Sites without plates are changed one by one, with one evaluation each.

    Args:
        model: the NumPyro model.
        kernel: any kernel that changes sites. None: `hs.LBP()`.
        moves: the number of moves in one NumPyro step.
        scale: the tuner, such as `hs.Fixed(R)`. None: `hs.Tuned()`.
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
        count("moves", moves, minimum=1)
        self.kernel = usable(kernel, scale, "NumPyro")
        self._moves = moves
        self._scale = scale
        self._num_warmup = 0
        self._layout: Layout | None = None

    def init(self, rng_key, num_warmup, init_params, model_args, model_kwargs):
        if _typed(rng_key).ndim:
            raise ValueError(
                "chains are started one by one: use chain_method='parallel', 'sequential' or "
                "jax.vmap, not 'vectorized'."
            )
        key_trace, key_gibbs = jax.random.split(rng_key)
        trace = gibbs.prototype_trace(
            gibbs.conditioned(self._model), key_trace, model_args, model_kwargs
        )
        try:
            found = super().init(key_gibbs, num_warmup, init_params, model_args, model_kwargs)
        except NotImplementedError as error:
            raise ValueError(_unlisted(trace) or str(error)) from error
        assert self._sites is not None
        self._layout = _layout(trace, self._sites, marginalized=self._enum)
        self._num_warmup = num_warmup
        target = self._target(model_args, model_kwargs)
        return DiscreteBlockState(
            z=found.z,
            potential_energy=found.potential_energy,
            rng_key=found.rng_key,
            tuner=first_scale(target, self.kernel, self._scale),
            step=jnp.zeros((), jnp.int32),
            accept_prob=jnp.zeros((), target.dtype),
        )

    def sample(self, state: DiscreteBlockState, model_args, model_kwargs) -> DiscreteBlockState:
        assert self._layout is not None, "init comes before sample"
        key, key_moves = jax.random.split(state.rng_key)
        moved = moves(
            _typed(key_moves),
            self._target(model_args, model_kwargs),
            self.kernel,
            self._scale,
            self._layout.ravel(state.z),
            state.tuner,
            state.step < self._num_warmup,
            self._moves,
        )
        return DiscreteBlockState(
            z=self._layout.unravel(moved.chain.x, like=state.z),
            potential_energy=-moved.chain.log_prob.astype(state.potential_energy.dtype),
            rng_key=key,
            tuner=moved.tuned,
            step=state.step + 1,
            accept_prob=moved.accept_prob,
        )

    def _target(self, model_args, model_kwargs) -> SiteDensity:
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
    """NUTS or HMC for the continuous sites of a model, hopscale's moves for the discrete ones.

    It is for `numpyro.infer.MCMC`, in place of `DiscreteHMCGibbs`. Each step makes `moves` moves of
    the discrete sites and then one step of the inner kernel.

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


def _layout(trace: Any, names: tuple[str, ...], marginalized: bool) -> Layout:
    """The layout of the discrete sites.

    If sites are marginalised, log-probabilities cannot be told apart, and plates are not used.
    """
    sites = [trace[name] for name in names]
    return Layout(
        names=names,
        shapes=tuple(jnp.shape(site["value"]) for site in sites),
        supports=tuple(_support(name, trace[name]) for name in names),
        frames=tuple(None if marginalized else _frames(site) for site in sites),
    )


def _unlisted(trace: Any) -> str:
    """Which discrete site has values that cannot be listed, and why; empty if all have."""
    for name in gibbs.discrete_latent_sites(trace):
        fn = trace[name]["fn"]
        try:
            fn.enumerate_support(False)
        except NotImplementedError as error:
            why = str(error).rstrip(".") or "leave out to_event and use plates"
            return f"the values of the site {name!r} cannot be listed: {why}."
    return ""


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
