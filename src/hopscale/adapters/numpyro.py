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
from jaxtyping import Array, Float, Int, Key

from hopscale.adapters import require
from hopscale.adapters.numpyro_sites import Layout, SiteDensity, log_probs_of
from hopscale.kernels import LBP, ChainState, Kernel
from hopscale.tune import Tuner, TunerState, fitted

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

    def _target(self, model_args, model_kwargs) -> SiteDensity:
        assert self._layout is not None
        assert self._prepared_model is not None
        return SiteDensity(
            layout=self._layout,
            log_density=lambda z: -self.get_potential_fn(model_args, model_kwargs)(z),
            log_probs=lambda z: log_probs_of(
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


def _typed(key: Array) -> Key[Array, ""]:
    """A key of either kind as a typed one."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    return jax.random.wrap_key_data(key)
