"""hopscale's kernels as a step method of PyMC, for its binary and categorical variables.

```
with model:
    step = hs.pymc.LBP([which])  # PyMC takes NUTS for the continuous variables
    idata = pm.sample(step=step, cores=1)
```
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from hopscale.adapters import require
from hopscale.adapters.sites import Layout, Moved, SiteDensity, first_scale, moves, usable
from hopscale.kernels import Kernel
from hopscale.tune import Tuner

pm = require("pymc", "pymc", "hs.pymc")
graphs = require("pymc.sampling.jax", "pymc", "hs.pymc")
steps = require("pymc.step_methods.arraystep", "pymc", "hs.pymc")

__all__ = ["LBP"]


class LBP(steps.BlockedStep):
    """Moves of several discrete values at a time, in place of `BinaryGibbsMetropolis`.

    The model's log-density is compiled by JAX. A move evaluates it at every value that every
    site could take instead, in one batch. The scale is tuned while PyMC tunes.

    PyMC's link to JAX switches double precision on for the process. JAX does not survive a
    fork: sample with `cores=1`.

    Args:
        vars: Bernoulli and Categorical variables of the model; all of them, unless given.
        kernel: any kernel that changes sites. None: `hs.LBP()`.
        moves: the number of moves in one step.
        scale: the tuner, such as `hs.Fixed(R)`. None: `hs.Tuned()`.
        model: the PyMC model. None: that of the context.
    """

    name = "hopscale"
    stats_dtypes_shapes = {"accept": (np.float64, []), "scale": (np.float64, [])}  # noqa: RUF012

    def __init__(
        self,
        vars: Any = None,
        *,
        kernel: Kernel | None = None,
        moves: int = 10,
        scale: Tuner | None = None,
        model: Any = None,
        rng: Any = None,
        **_: Any,  # what PyMC passes to all step methods
    ):
        if not isinstance(moves, int) or moves < 1:
            raise ValueError(f"moves must be a positive integer; got {moves!r}.")
        model = pm.modelcontext(model)
        values = pm.util.get_value_vars_from_user_vars(vars, model)
        point = model.initial_point()
        self.vars, self.tune = values, True
        self.kernel = usable(kernel, scale, "PyMC")
        self._layout = Layout(
            names=tuple(value.name for value in values),
            shapes=tuple(np.shape(point[value.name]) for value in values),
            supports=tuple(tuple(range(_num_values(value, model))) for value in values),
            frames=(None,) * len(values),
        )
        self._scale, self._moves = scale, moves
        self._log_density = _log_density(model)
        self._others = [v.name for v in model.value_vars if v.name not in self._layout.names]
        self._advance = eqx.filter_jit(self._several)
        self.set_rng(rng)
        self.reset_tuning()

    def reset_tuning(self) -> None:
        """Begin to tune the scale, as PyMC does for each chain."""
        target = self._target({})  # the range of scales depends on the sites alone
        self._tuned = first_scale(target, self.kernel, self._scale)

    def step(self, point: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Change the discrete values of a point."""
        key = jax.random.key(int(self.rng.integers(2**32)))
        z = {name: jnp.asarray(point[name]) for name in self._layout.names}
        others = {name: jnp.asarray(point[name]) for name in self._others}
        moved = self._advance(key, z, others, self._tuned, jnp.asarray(self.tune))
        self._tuned = moved.tuned
        found = self._layout.unravel(moved.chain.x, like=z)
        point = {**point, **{name: np.asarray(found[name]) for name in found}}
        scale = float(np.asarray(moved.tuned.scale).reshape(()))
        return point, [{"accept": float(moved.accept_prob), "scale": scale}]

    def _several(self, key, z, others, tuned, warming) -> Moved:
        x, target = self._layout.ravel(z), self._target(others)
        return moves(key, target, self.kernel, self._scale, x, tuned, warming, self._moves)

    def _target(self, others: dict[str, Array]) -> SiteDensity:
        return SiteDensity(  # pyright: ignore[reportCallIssue]
            layout=self._layout,
            log_density=lambda z: self._log_density({**others, **z}),
            log_probs=lambda z: [],
        )

    @staticmethod
    def competence(var, has_grad=False):
        """Used only where it is asked for."""
        return pm.step_methods.Competence.COMPATIBLE if _kind(var) else 0


def _log_density(model: Any) -> Callable:
    names = [value.name for value in model.value_vars]
    function = graphs.get_jaxified_graph(inputs=model.value_vars, outputs=[model.logp()])
    return lambda values: function(*[values[name] for name in names])[0]


def _kind(var: Any) -> str:
    """ "bernoulli", "categorical", or nothing."""
    name = getattr(getattr(var.owner, "op", None), "name", "")
    return name if name in ("bernoulli", "categorical") else ""


def _num_values(value: Any, model: Any) -> int:
    var = model.values_to_rvs[value]
    if _kind(var) == "bernoulli":
        return 2
    if _kind(var) == "categorical":
        (number,) = model.replace_rvs_by_values([var.owner.inputs[-1].shape[-1]])
        settings = {"inputs": model.value_vars, "on_unused_input": "ignore"}
        return int(model.compile_fn(number, **settings)(model.initial_point()))
    raise TypeError(
        f"hs.pymc.LBP moves Bernoulli and Categorical variables; {var.name} is neither. Leave it "
        "to another step method: pm.sample(step=[hs.pymc.LBP([...]), ...])."
    )
