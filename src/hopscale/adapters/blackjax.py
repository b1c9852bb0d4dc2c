"""hopscale's kernels as BlackJAX sampling algorithms.

```
lbp = hs.blackjax.lbp(logdensity_fn, scale=8.0)
state = lbp.init(position)
state, info = lbp.step(rng_key, state)
```

A position is an array of integers, or any tree of them: 0 and 1, or 0 ... num_states - 1. As with
`hs.LogDensity`, `logdensity_fn` receives floats for bits and one-hot codes for more values, in the
same tree. If any site has more than two values, all leaves are codes, as wide as the most values.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale.adapters import require
from hopscale.engine import loop
from hopscale.engine.loop import Program
from hopscale.kernels import DMALA, GWG, LBP, RWM, ChainState, Kernel
from hopscale.kernels import Info as StepInfo
from hopscale.target import Evaluation, has_values
from hopscale.targets import LogDensity
from hopscale.tune import Adaptive, Fixed, fitted
from hopscale.validate import count

base = require("blackjax.base", "blackjax", "hs.blackjax")
adaptation = require("blackjax.adaptation.base", "blackjax", "hs.blackjax")

__all__ = ["DiscreteInfo", "DiscreteState", "dmala", "gwg", "lbp", "rwm", "scale_adaptation"]


class DiscreteState(NamedTuple):
    """A position, its log-density, and the log-ratios of its neighbours (None for `rwm`).

    `cache` is what else the target keeps of its evaluation.
    """

    position: Any
    logdensity: Float[Array, ""]
    log_ratios: Float[Array, "..."] | None
    cache: Any = None


class DiscreteInfo(NamedTuple):
    """What happened at a step.

    Attributes:
        acceptance_rate: the probability with which the proposal was accepted.
        is_accepted: whether it was.
        distance: how many sites changed.
        is_invalid: whether the log-density was NaN or +inf at the proposal, which is then rejected.
        proposal: the position that was proposed.
    """

    acceptance_rate: Float[Array, ""]
    is_accepted: Bool[Array, ""]
    distance: Int[Array, ""]
    is_invalid: Bool[Array, ""]
    proposal: Any


def lbp(
    logdensity_fn: Callable,
    scale: Any,
    *,
    num_states: Any = 2,
    ratios: str = "auto",
    balance: Any = "barker",
    path: str = "reversed",
):
    """The locally balanced proposal, `hs.LBP`, as a `blackjax.SamplingAlgorithm`.

    Args:
        logdensity_fn: the log-density of a position, up to a constant.
        scale: R, the mean number of sites that a step changes; `scale_adaptation` finds it.
        num_states: values a site can take: one number, or one for each site, in a tree like the
            position's.
        ratios: "auto", "exact" or "gradient", as for `hs.LogDensity`. Nothing is compared here, so
            beyond 32 neighbours "auto" is the gradient: `hs.check.ratios` says whether that is
            accurate.
        balance, path: as for `hs.LBP`.
    """
    return _algorithm(LBP(balance, path), logdensity_fn, scale, num_states, ratios)


def gwg(
    logdensity_fn: Callable,
    scale: Any,
    *,
    num_states: Any = 2,
    ratios: str = "auto",
    balance: Any = "barker",
    repeats: str = "once",
):
    """Gibbs with gradients, `hs.GWG`, as a `blackjax.SamplingAlgorithm`; see `lbp`."""
    return _algorithm(GWG(balance, repeats), logdensity_fn, scale, num_states, ratios)


def dmala(
    logdensity_fn: Callable,
    scale: Any,
    *,
    num_states: Any = 2,
    ratios: str = "auto",
    balance: Any = "sqrt",
):
    """The discrete Langevin proposal, `hs.DMALA`, as a `blackjax.SamplingAlgorithm`; see `lbp`."""
    return _algorithm(DMALA(balance), logdensity_fn, scale, num_states, ratios)


def rwm(logdensity_fn: Callable, scale: Any, *, num_states: Any = 2):
    """The random walk, `hs.RWM`, as a `blackjax.SamplingAlgorithm`: needs no gradient."""
    return _algorithm(RWM(), logdensity_fn, scale, num_states, "gradient")


def scale_adaptation(
    algorithm: Callable,
    logdensity_fn: Callable,
    *,
    rate: float | None = None,
    chains: int = 16,
    num_states: Any = 2,
    ratios: str = "auto",
    **settings: Any,
):
    """Tune the scale, as `blackjax.window_adaptation` does for NUTS.

    ```
    warmup = hs.blackjax.scale_adaptation(hs.blackjax.lbp, logdensity_fn)
    (state, parameters), info = warmup.run(rng_key, position, num_steps=1_000)
    sampler = hs.blackjax.lbp(logdensity_fn, **parameters)
    ```

    Args:
        algorithm: `hs.blackjax.lbp`, `gwg`, `dmala` or `rwm`.
        logdensity_fn: the log-density of a position.
        rate: the acceptance rate to hold; None for the algorithm's best, 0.574 or 0.234.
        chains: how many chains start from the position, side by side; their mean acceptance rate
            tunes the scale that they share.
        num_states, ratios, **settings: those of the algorithm.

    Returns:
        A `blackjax.AdaptationAlgorithm`. Its `run` returns the state of the first chain and the
        parameters of the algorithm, which are the `scale` and what was given here. It also returns
        the acceptance rate and the scale of each step.
    """
    kernels = [made for function, made in _KERNELS if function is algorithm]
    if not kernels:
        raise ValueError(
            f"algorithm must be hs.blackjax.lbp, gwg, dmala or rwm; got {algorithm!r}."
        )
    kernel = kernels[0](**settings)
    given = dict(settings)  # without defaults: strings cannot leave a compiled program
    if np.ndim(num_states) or num_states != 2:
        given["num_states"] = num_states
    if ratios != "auto" and algorithm is not rwm:
        given["ratios"] = ratios

    def run(rng_key: Key[Array, ""], position: Any, num_steps: int = 1_000):
        layout = Layout.of(position)
        target = layout.target(logdensity_fn, num_states, ratios)
        tuner = fitted(Adaptive(rate), kernel.scale_range(target))
        program = Program(key=_typed(rng_key), target=target, kernel=kernel, tuner=tuner)
        count("num_steps", num_steps, minimum=1)
        count("chains", chains, minimum=1)
        x = jnp.tile(target.as_state(layout.ravel(position)), (chains, 1))

        def visit(row, active, walking, info, history):
            now = jnp.stack([jnp.mean(info.accept_prob), walking.tuner.scale])
            return history.at[row].set(now)

        @jax.jit
        def walk(x):
            history = jnp.zeros((num_steps, 2), target.dtype)
            begun = loop.start(program, x)
            return loop.scan(program, begun, history, steps=jnp.asarray(num_steps), visit=visit)

        walked, history = walk(x)
        first = jax.tree.map(lambda a: a[0], walked.states)
        parameters = {"scale": walked.tuner.scale, **given}
        found = adaptation.AdaptationResults(_state(layout, first), parameters)
        return found, {"acceptance_rate": history[:, 0], "scale": history[:, 1]}

    return base.AdaptationAlgorithm(run)


_KERNELS = ((lbp, LBP), (gwg, GWG), (dmala, DMALA), (rwm, RWM))


def _algorithm(kernel: Kernel, logdensity_fn, scale, num_states: Any, ratios: str):
    def init(position: Any, rng_key: Key[Array, ""] | None = None) -> DiscreteState:
        layout = Layout.of(position)
        target = layout.target(logdensity_fn, num_states, ratios)
        if has_values(scale):
            Fixed(scale).check(kernel.scale_range(target))  # type: ignore[arg-type]
        return _state(layout, kernel.init(target, layout.ravel(position)))

    def step(rng_key: Key[Array, ""], state: DiscreteState) -> tuple[DiscreteState, DiscreteInfo]:
        layout = Layout.of(state.position)
        target = layout.target(logdensity_fn, num_states, ratios)
        here = ChainState(
            x=layout.ravel(state.position).astype(target.state_dtype),
            evaluation=Evaluation(state.logdensity, state.log_ratios, state.cache),
        )
        there, info = kernel.step(_typed(rng_key), target, here, jnp.asarray(scale, target.dtype))
        return _state(layout, there), _info(layout, info)

    return base.SamplingAlgorithm(init, step)


class Layout(NamedTuple):
    """How a tree of integer arrays is laid out in one row of sites."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]

    @staticmethod
    def of(position: Any) -> "Layout":
        leaves, tree = jax.tree.flatten(position)
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        for leaf in leaves:
            if not (jnp.issubdtype(leaf.dtype, jnp.integer) or leaf.dtype == bool):
                raise TypeError(
                    f"a position holds integers; got dtype {leaf.dtype}. Convert it with "
                    ".astype('int32')."
                )
        return Layout(tree, tuple(a.shape for a in leaves), tuple(a.dtype for a in leaves))

    def ravel(self, position: Any) -> Int[Array, " n"]:
        leaves = [jnp.ravel(leaf).astype(jnp.int32) for leaf in jax.tree.leaves(position)]
        return jnp.concatenate(leaves)

    def unravel(self, x: Array, dtypes: Any = None) -> Any:
        """The tree of a row of sites, or of rows of numbers for each site."""
        sizes = [math.prod(shape) for shape in self.shapes]
        parts = jnp.split(x, np.cumsum(sizes)[:-1])
        leaves = [
            part.reshape(*shape, *x.shape[1:]).astype(dtype)
            for part, shape, dtype in zip(
                parts, self.shapes, dtypes or [x.dtype] * len(parts), strict=True
            )
        ]
        return jax.tree.unflatten(self.tree, leaves)

    def target(self, logdensity_fn: Callable, num_states: Any, ratios: str) -> LogDensity:
        sites = sum(math.prod(shape) for shape in self.shapes)
        if isinstance(num_states, jax.Array | np.ndarray) and not num_states.ndim:
            num_states = int(num_states)
        if not isinstance(num_states, int | np.integer):
            num_states = self._each(num_states)
        return LogDensity(
            lambda code: logdensity_fn(self.unravel(code)), (sites,), num_states, ratios
        )

    def _each(self, num_states: Any) -> np.ndarray:
        """The number of values of each site, in a row; one number stands for a whole leaf."""
        leaf = self.tree == jax.tree.structure(0)
        leaves, tree = ([num_states], self.tree) if leaf else jax.tree.flatten(num_states)
        if tree != self.tree:
            raise ValueError(
                "num_states must be one number, or a tree like the position's; got "
                f"{tree} for {self.tree}."
            )
        for given, shape in zip(leaves, self.shapes, strict=True):
            if np.shape(given) not in ((), shape):
                raise ValueError(
                    f"num_states must be one number, or one for each site, of shape {shape}; got "
                    f"shape {np.shape(given)}."
                )
        each = zip(leaves, self.shapes, strict=True)
        return np.concatenate([np.broadcast_to(leaf, shape).reshape(-1) for leaf, shape in each])


def _state(layout: Layout, state: ChainState) -> DiscreteState:
    return DiscreteState(
        position=layout.unravel(state.x, layout.dtypes),
        logdensity=state.log_prob,
        log_ratios=state.log_ratios,
        cache=state.evaluation.cache,
    )


def _info(layout: Layout, info: StepInfo) -> DiscreteInfo:
    return DiscreteInfo(
        acceptance_rate=info.accept_prob,
        is_accepted=info.accepted,
        distance=info.distance,
        is_invalid=info.invalid,
        proposal=layout.unravel(info.proposal, layout.dtypes),
    )


def _typed(key: Array) -> Key[Array, ""]:
    """A key of either kind as a typed one: BlackJAX's users have both."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    return jax.random.wrap_key_data(key)
