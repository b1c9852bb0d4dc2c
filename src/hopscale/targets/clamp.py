"""Conditioning: some sites held at given values."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from hopscale.move import Choice, Move
from hopscale.target import Evaluation, State, Target, as_evaluation, check_values
from hopscale.targets.derived import Derived
from hopscale.targets.rbm import RBM
from hopscale.validate import kind_of


class Within(NamedTuple):
    """The cache of a clamped target: the inner target's evaluation, and which ratios are precise.

    `sure` says which log-ratios of free sites are precise, if the inner target does
    (`hs.models.VariableSelection`).
    """

    evaluation: Evaluation
    sure: Bool[Array, " free"] | None


class Clamped(Derived):
    r"""A target conditioned on the values of some of its sites, as made by `clamp`.

    $$\pi(x_F \mid x_C = v) \propto \pi(x_F, v)$$

    Its states are the free sites F alone, as a flat vector in the order of the target's sites. So
    any kernel works unchanged: clamped sites are never proposed and have no weight in a normaliser,
    and the scale counts free sites. The target still updates its evaluations from step to step.

    If the conditional distribution of the free sites is a model of the target's kind (a pairwise or
    Potts model with other fields, a smaller RBM), that model is evaluated and swept, and clamped
    sites cost nothing.

    Attributes:
        target: the target of all sites.
        free_sites, clamped_sites: indices of sites, counted row by row.
        template: a state of all sites that has the clamped values.
        smaller: a target of the free sites alone, or None.
        constant: what is added to the log-probabilities of `smaller`.
    """

    target: Target
    free_sites: Int[Array, " free"]
    clamped_sites: Int[Array, " clamped"]
    template: State
    smaller: Target | None
    constant: Float[Array, ""]

    def __init__(
        self, target, free_sites, clamped_sites, template, smaller=None, constant: Any = 0.0
    ):
        self.target, self.template = target, jnp.asarray(template)
        self.free_sites, self.clamped_sites = jnp.asarray(free_sites), jnp.asarray(clamped_sites)
        self.smaller, self.constant = smaller, jnp.asarray(constant, target.dtype)

    def updates(self, ratios: bool) -> bool:
        return (self.target if self.smaller is None else self.smaller).updates(ratios)

    def sweep(self):
        found = None if self.smaller is None else self.smaller.sweep()
        return None if found is None else eqx.tree_at(lambda sweep: sweep.target, found, self)

    def suited(self):
        return None if self.smaller is not None else self.target.suited()

    def starts(self, key, chains: int):
        own = self.target.starts(key, chains)
        if own is None:
            return None
        x = jnp.asarray(self.restrict(own))
        # Some may be impossible together with the clamped values: these start at zeros.
        possible = jnp.isfinite(jax.vmap(self._log_prob)(x))
        return jnp.where(possible[:, None], x, jnp.zeros_like(x))

    @property
    def shape(self):
        return self.free_sites.shape

    @property
    def num_states(self):
        return (self.target if self.smaller is None else self.smaller).num_states

    @property
    def num_states_by_site(self):
        if self.smaller is not None:
            return self.smaller.num_states_by_site
        every = self.target.num_states_by_site
        return every if isinstance(every, int) else every.reshape(-1)[self.free_sites]

    def full(self, x: ArrayLike) -> np.ndarray:
        """States of all sites, of shape (..., *target.shape), from those of the free sites.

        x can be any array of numbers for free sites, such as `run.draws` or the means of sites.
        """
        x, free = np.asarray(x), np.asarray(self.free_sites)
        if x.shape[-1:] != free.shape:
            raise ValueError(
                f"states of {free.size} free sites have shape (..., {free.size}); got {x.shape}."
            )
        dtype = np.result_type(x.dtype, self.target.state_dtype)
        found = np.empty((*x.shape[:-1], self.target.num_sites), dtype)
        found[...] = np.asarray(self.template).reshape(-1)
        found[..., free] = x
        return found.reshape(*x.shape[:-1], *self.target.shape)

    def restrict(self, x: ArrayLike) -> np.ndarray:
        """The free sites of states of all sites, of shape (..., *target.shape), to start from."""
        x, shape = np.asarray(x), self.target.shape
        batch = x.shape[: x.ndim - len(shape)]
        if x.shape != (*batch, *shape):
            raise ValueError(f"states of all sites have shape (..., {shape}); got {x.shape}.")
        return x.reshape(*batch, -1)[..., np.asarray(self.free_sites)]

    def _all(self, x: State) -> State:
        """One state of all sites."""
        flat = self.template.reshape(-1).at[self.free_sites].set(x)
        return flat.reshape(self.target.shape)

    def _of(self, found: Evaluation) -> Evaluation:
        """The evaluation of the free sites, from that of the target or of `smaller`."""
        ratios = found.log_ratios
        if ratios is not None and self.smaller is None:
            by_site = (-1,) if self.num_states == 2 else (-1, self.num_states)
            ratios = ratios.reshape(by_site)[self.free_sites]
        sure = getattr(found.cache, "sure", None)
        if sure is not None and self.smaller is None:
            sure = sure[self.free_sites]
        within = Within(evaluation=found, sure=sure)
        return Evaluation(found.log_prob + self.constant, log_ratios=ratios, cache=within)

    def _log_prob(self, x: State):
        if self.smaller is not None:
            return self.smaller._log_prob(x) + self.constant
        return self.target._log_prob(self._all(x))

    def _evaluate(self, x: State):
        if self.smaller is not None:
            return self._of(as_evaluation(self.smaller._evaluate(x)))
        return self._of(as_evaluation(self.target._evaluate(self._all(x))))

    def _evaluate_log_prob(self, x: State):
        if self.smaller is not None:
            return self._of(self.smaller._evaluate_log_prob(x))
        return self._of(self.target._evaluate_log_prob(self._all(x)))

    def _update(self, x: State, evaluation: Evaluation, move: Move):
        if self.smaller is not None:
            return self._of(self.smaller._update(x, evaluation.cache.evaluation, move))
        within = evaluation.cache.evaluation
        return self._of(self.target._update(self._all(x), within, self._move(x, move)))

    def _move(self, x: State, move: Move) -> Move:
        """A move of free sites as one of all sites."""
        nobody = jnp.zeros(self.target.num_sites, bool)
        # Only the first `length` sites count, and these are free ones.
        choice = Choice(
            sites=jnp.concatenate([self.free_sites[move.choice.sites], self.clamped_sites]),
            chosen=nobody.at[self.free_sites].set(move.choice.chosen),
            length=move.choice.length,
        )
        values = move.values
        if values is not None:
            template = self.template.reshape(-1).astype(values.dtype)
            values = template.at[self.free_sites].set(values)
        moved = nobody.at[self.free_sites].set(move.moved)
        return Move(choice=choice, moved=moved, values=values)


def clamp(target: Target, sites: Any, values: Any) -> Clamped:
    """Condition a target on the values of some of its sites.

    ```python
    given = hs.clamp(target, mask, image)     # sites have image's values where mask is True
    run = hs.sample(given, keep="last")
    images = given.full(run.draws)            # states of all sites
    ```

    Args:
        target: any target.
        sites: the sites to clamp: an array of the target's shape, True where clamped; or their
            indices, counted row by row.
        values: one value for all clamped sites, one for each, or a state of the target's shape,
            whose other sites are ignored.

    Returns:
        A target of the free sites, as a flat vector. Its method `full` makes states of all sites
        from those of free sites, and `restrict` does the reverse. To sample with many different
        values, see `hs.sample_many`.
    """
    if not isinstance(target, Target):
        raise TypeError(f"clamp needs a hopscale target; got {kind_of(target)}.")
    clamped = _mask(target, sites)
    template = np.zeros(target.num_sites, target.state_dtype)
    template[clamped] = _values(target, sites, clamped, values)
    free = np.flatnonzero(~clamped)
    smaller, constant = target.given(free, template), 0.0
    state = jnp.asarray(template.reshape(target.shape))
    if smaller is not None:
        none = jnp.zeros(smaller.shape, smaller.state_dtype)
        constant = target.log_prob(state) - smaller.log_prob(none)
    return Clamped(
        target=target,
        free_sites=jnp.asarray(free, jnp.int32),
        clamped_sites=jnp.asarray(np.flatnonzero(clamped), jnp.int32),
        template=state,
        smaller=smaller,
        constant=constant,
    )


def as_rbm(target: Target) -> RBM | None:
    """The RBM whose blocks can be drawn: the target, or the `smaller` one of a clamped RBM."""
    found = target.smaller if isinstance(target, Clamped) else target
    return found if isinstance(found, RBM) else None


def _mask(target: Target, sites: Any) -> Bool[np.ndarray, " n"]:
    """Which sites are clamped, row by row."""
    sites, n = np.asarray(sites), target.num_sites
    if sites.dtype == bool:
        if sites.shape != target.shape:
            raise ValueError(
                f"sites must be True where clamped, of shape {target.shape}; got {sites.shape}."
            )
        mask = sites.reshape(-1)
    else:
        mask = np.zeros(n, bool)
        mask[_numbers(sites, n)] = True
    if not mask.any() or mask.all():
        raise ValueError(
            f"clamp needs some sites to clamp and some to leave free; got {mask.sum()} of {n}."
        )
    return mask


def _numbers(sites: np.ndarray, n: int) -> np.ndarray:
    if sites.size == 0:
        return np.zeros(0, int)
    if not np.issubdtype(sites.dtype, np.integer) or sites.ndim > 1:
        raise TypeError(
            "sites must be numbers of sites, counted row by row, or True where clamped in the "
            f"target's shape; got dtype {sites.dtype} of shape {sites.shape}."
        )
    sites = np.atleast_1d(sites)
    if sites.min() < 0 or sites.max() >= n:
        raise ValueError(
            f"sites are numbers 0 ... {n - 1}; got numbers from {sites.min()} to {sites.max()}."
        )
    if np.unique(sites).size != sites.size:
        raise ValueError("sites must differ; some are named twice.")
    return sites


def _values(target: Target, sites: Any, clamped: np.ndarray, values: Any) -> np.ndarray:
    """The values of clamped sites, row by row."""
    values, count = np.asarray(values), int(clamped.sum())
    if not (np.issubdtype(values.dtype, np.integer) or values.dtype == bool):
        raise TypeError(
            f"values must be integers 0 ... {target.num_states - 1}; got dtype {values.dtype}. "
            "Convert them with .astype('int8')."
        )
    if values.shape == target.shape:
        values = values.reshape(-1)[clamped]
    elif values.shape in ((), (count,)):
        values = np.broadcast_to(values, (count,))
        if np.asarray(sites).dtype != bool:  # in the order of the sites as given
            values = values[np.argsort(np.atleast_1d(sites))]
    else:
        raise ValueError(
            f"values must be one for all, one for each of {count} clamped sites, or a state of "
            f"shape {target.shape}; got shape {values.shape}."
        )
    check_values("clamped sites take", values, target.num_states_by_site, np.flatnonzero(clamped))
    return values
