"""Which columns explain a response: linear regression with a spike and a slab."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hopscale.kernels.exchange import Exchange
from hopscale.models import regression
from hopscale.models.given import largest_size, log_prior, names_of, ridge_effect, standardised
from hopscale.models.posterior import RankedModel
from hopscale.models.regression import Columns, Fit, Summary
from hopscale.move import Move, apply
from hopscale.record import MeanAndError
from hopscale.target import Evaluation, State, Target, has_values
from hopscale.validate import number

CORRELATED = 6  # columns of the models at which the effect of the ridge is looked at
LOST = 0.1  # of a log-probability, which the ridge may change by that much without a warning
RIDGE = 1e-12  # of the g-prior
RESOLVED = 100  # rounding units: what is left of a column is a difference, known to about as many
PRECISE = 1e5  # rounding units, which updates accumulate, for a log-ratio good to half a percent


class GPrior(NamedTuple):
    r"""Zellner's prior, $\beta_\gamma \sim N(0, g \sigma^2 (X_\gamma^\top X_\gamma)^{-1})$.

    Args:
        g: None for the number of observations: as much information as one of them holds.
    """

    g: float | None = None


class Slab(NamedTuple):
    r"""Independent coefficients of standardised columns, $\beta_j \sim N(0, v \sigma^2)$.

    Args:
        variance: v.
    """

    variance: float = 1.0


class Kept(NamedTuple):
    """What a chain carries: the fit, what is left of every column, and how precise that is.

    Attributes:
        sure: whether the log-ratio of a column is precise. What others leave of a column is a
            difference; for a column that nearly repeats others it is mostly rounding error.
    """

    fit: Fit
    columns: Columns | None
    sure: Bool[Array, " p"] | None


class VariableSelection(Target):
    r"""The posterior over which columns of X explain y, coefficients integrated out.

    $$y = \mu + X_\gamma \beta_\gamma + \epsilon, \quad \epsilon \sim N(0, \sigma^2), \quad
      p(\mu, \sigma^2) \propto 1 / \sigma^2,$$

    with a bit $\gamma_j$ for each column. y and the columns are centred, and the columns are scaled
    to variance 1. With k columns in the model, which explain $R^2_\gamma$, up to a constant,

    $$\log p(y \mid \gamma) = -\tfrac{k}{2} \log(1 + g)
      - \tfrac{n - 1}{2} \log\left(1 - \tfrac{g}{1 + g} R^2_\gamma\right) \quad \text{(g-prior)},$$

    $$\log p(y \mid \gamma) = -\tfrac12 \log \det(I + v X_\gamma^\top X_\gamma)
      - \tfrac{n - 1}{2} \log\left(y^\top (I + v X_\gamma X_\gamma^\top)^{-1} y\right)
      \quad \text{(slabs)}.$$

    The ratios of all p neighbours are exact and computed together: what each column outside the
    model would add, from what the others leave of it, and what each column inside would take away.
    Changing one column is a rank-one update and one product with X; nothing is ever p x p.

    Args:
        X: observations by columns, (n, p); a pandas table provides names too.
        y: the response, (n,).
        prior: `GPrior(g)` or `Slab(variance)`.
        inclusion: the prior probability of a column, or (a, b): that probability is itself
            Beta(a, b), so that k is beta-binomial. (1, 1), the default, makes all sizes k equally
            likely.
        max_size: models of more columns have probability 0. None: 50, or what p and n allow.
        names: the names of the columns.
    """

    rows: Float[Array, "p n"]
    y: Float[Array, " n"]
    log_prior: Float[Array, " sizes"]  # of sizes 0 ... K, and -inf beyond
    shrinkage: Float[Array, ""]  # g / (1 + g); 1 for slabs
    unshrunk: Float[Array, ""]  # 1 / (1 + g); 0 for slabs
    penalty: Float[Array, ""]  # of each column, besides the determinant
    ridge: Float[Array, ""]
    slabs: bool = eqx.field(static=True)
    max_size: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    num_states: ClassVar[int] = 2
    ratios: ClassVar[str] = "exact"

    def __init__(
        self,
        X,
        y,
        prior: GPrior | Slab = GPrior(),
        *,
        inclusion: float | tuple[float, float] = (1.0, 1.0),
        max_size: int | None = None,
        names: Any = None,
    ):
        given = getattr(X, "columns", None) if names is None else names
        columns, response = standardised(X, y)
        n, p = columns.shape
        self.max_size = largest_size(max_size, n, p)
        self.names = names_of(given, p)
        self.rows, self.y = jnp.asarray(columns.T), jnp.asarray(response)
        self.log_prior = jnp.asarray(log_prior(inclusion, p, self.max_size), self.dtype)
        if not isinstance(prior, GPrior | Slab):
            raise TypeError(f"prior must be GPrior(g) or Slab(variance); got {prior!r}.")
        self.slabs = isinstance(prior, Slab)
        if isinstance(prior, Slab):
            number("variance", prior.variance, 0.0, np.inf, "()")
            ridge, shrinkage, unshrunk = 1.0 / (n * prior.variance), 1.0, 0.0
            penalty = -0.5 * np.log(ridge)
        else:
            g = float(n) if prior.g is None else prior.g
            number("g", g, 0.0, np.inf, "()")
            ridge = RIDGE  # without it, columns that repeat others would divide by zero
            shrinkage, unshrunk, penalty = g / (1.0 + g), 1.0 / (1.0 + g), 0.5 * np.log1p(g)
        self.ridge, self.shrinkage, self.unshrunk, self.penalty = (
            jnp.asarray(value, self.dtype) for value in (ridge, shrinkage, unshrunk, penalty)
        )

    @property
    def shape(self):
        return (self.rows.shape[0],)

    @property
    def dtype(self):
        return self.rows.dtype

    def starts(self, key, chains: int) -> State:
        """Random models of up to ten columns."""
        generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        x = np.zeros((chains, *self.shape), self.state_dtype)
        for row in x:
            size = generator.integers(0, min(10, self.max_size) + 1)
            row[generator.choice(row.size, size, replace=False)] = 1
        return jnp.asarray(x)

    def cautions(self) -> tuple[str, ...]:
        if self.slabs or not has_values(self.rows):
            return ()
        lost = ridge_effect(
            np.asarray(self.rows),
            np.asarray(self.y),
            float(self.ridge),
            float(self.shrinkage),
            min(CORRELATED, self.max_size),
        )
        if lost < LOST:
            return ()
        return (
            "Some columns are nearly linear combinations of others, and the ridge of "
            f"{float(self.ridge):.0e} that keeps their inverse finite changes the log-probability "
            f"of a model by up to {lost:.2g}. Use fewer columns, or hs.models.Slab(), whose ridge "
            "belongs to the model.",
        )

    def suited(self):
        return Exchange(), "correlated columns are exchanged, which single changes rarely manage"

    # -- Evaluation. ------------------------------------------------------------------------------

    def _log_prob(self, x: State):
        return self._evaluate_log_prob(x).log_prob

    def _evaluate_log_prob(self, x: State):
        return self._given(self._fit(x), None)

    def _evaluate(self, x: State):
        fit = self._fit(x)
        return self._given(fit, regression.all_columns(self.rows, fit))

    def _fit(self, x: State) -> Fit:
        """Least squares on the columns of a model, added one after the other."""
        (columns,) = jnp.nonzero(x, size=self.max_size, fill_value=-1)
        size = jnp.sum(x, dtype=jnp.int32)

        free = jnp.full(self.max_size, self.num_sites, jnp.int32)
        first = regression.empty(free, self.y)
        number = jnp.minimum(size, self.max_size)
        fit, _ = regression.change_each(self.rows, self.ridge, first, None, columns, number)
        return fit._replace(size=size)

    def _update(self, x: State, evaluation: Evaluation, move: Move):
        fit, columns, _ = evaluation.cache
        sites, length = self._changed(x, move)
        fit, columns = regression.change_each(self.rows, self.ridge, fit, columns, sites, length)
        # More than 2 K changed columns make too large a model. As many repeated draws are rejected
        # too, forwards and backwards alike.
        size = jnp.sum(apply(x, move), dtype=jnp.int32)
        size = jnp.where(move.choice.length > sites.size, self.max_size + 1, size)
        return self._given(fit._replace(size=size), columns)

    def _changed(self, x: State, move: Move) -> tuple[Int[Array, " C"], Int[Array, ""]]:
        """The columns that change, those that leave first, and how many."""
        most = min(2 * self.max_size, self.num_sites)
        sites = move.choice.sites[:most]
        place = jnp.arange(most)
        again = jnp.any((sites[:, None] == sites[None, :]) & (place[:, None] > place[None, :]), 1)
        counts = (place < move.choice.length) & move.moved[sites] & ~again
        order = jnp.argsort(jnp.where(counts, jnp.where(x[sites] == 1, 0, 1), 2), stable=True)
        return sites[order], jnp.sum(counts, dtype=jnp.int32)

    def _given(self, fit: Fit, columns: Columns | None) -> Evaluation:
        """The evaluation of a model, given its fit and what is left of each column."""
        found = regression.summary(fit, self.ridge)
        size = jnp.minimum(fit.size, self.max_size + 1)
        here = self._log_rss(found.rss)
        log_prob = self.log_prior[size] - here - self.penalty * size
        if self.slabs:
            log_prob = log_prob - 0.5 * found.log_det
        if columns is None:
            return Evaluation(log_prob=log_prob, log_ratios=None, cache=Kept(fit, None, None))
        ratios, left = self._ratios(fit.columns, found, columns, size)
        sure = left > PRECISE * jnp.finfo(self.dtype).eps
        return Evaluation(log_prob=log_prob, log_ratios=ratios, cache=Kept(fit, columns, sure))

    def _ratios(
        self, used: Int[Array, " K"], fit: Summary, columns: Columns, size
    ) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Log-ratios, and the squared length that other columns of the model leave of each."""
        here, eps = self._log_rss(fit.rss), jnp.finfo(self.dtype).eps
        left = jnp.maximum(columns.q, RESOLVED * eps) + self.ridge
        more = here - self._log_rss(fit.rss - columns.z**2 / left)
        diagonal = jnp.maximum(fit.inverse_diagonal, jnp.finfo(self.dtype).tiny)
        less = here - self._log_rss(fit.rss + fit.coefficients**2 / diagonal)
        if self.slabs:
            more = more - 0.5 * jnp.log(left)
            less = less - 0.5 * jnp.log(diagonal)
        # A model that is too large has no neighbours to compare with; any number will do.
        prior = jnp.where(size > self.max_size, 0.0, self.log_prior[size])
        up = self.log_prior[jnp.minimum(size + 1, self.max_size + 1)] - prior
        down = self.log_prior[jnp.maximum(size - 1, 0)] - prior
        more = more + (up - self.penalty)
        ratios = more.at[used].set(less + (down + self.penalty), mode="drop")
        return ratios, left.at[used].set(1.0 / diagonal, mode="drop")

    def _log_rss(self, rss):
        """(n - 1) / 2 times the log of what is not explained, after shrinkage."""
        left = self.unshrunk + self.shrinkage * rss  # 1 - shrinkage (1 - rss) would lose digits
        tiny = jnp.finfo(self.dtype).eps
        return 0.5 * (self.y.size - 1) * jnp.log(jnp.maximum(left, tiny))

    # -- What a run found. ------------------------------------------------------------------------

    def ranking(self, run, top: int = 10) -> list[RankedModel]:
        """The models that a run with `keep=` saw most often, the most probable first."""
        if run.draws is None:
            raise ValueError("a ranking needs the draws: hs.sample(model, keep='all').")
        chains, kept = run.draws.shape[:2]
        packed = np.packbits(run.draws.reshape(chains * kept, -1).astype(bool), axis=1)
        _, first, inverse, times = np.unique(
            packed, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        found = []
        for which in np.argsort(-times, kind="stable")[:top]:
            x = run.draws.reshape(chains * kept, -1)[first[which]]
            seen = (inverse.reshape(chains, kept) == which).mean(axis=1)
            error = seen.std(ddof=1) / np.sqrt(chains) if chains > 1 else np.nan
            columns = tuple(self.names[j] for j in np.flatnonzero(x))
            found.append(RankedModel(columns, float(seen.mean()), float(error), x))
        return found

    def inclusion(self, run) -> dict[str, tuple[float, float]]:
        """The posterior probability of each column and its standard error, largest first.

        Needs a run with `record=hs.models.Inclusion()`, or `hs.record.SiteMeans()`.
        """
        found = [r for r in run.recorded.values() if isinstance(r, MeanAndError)]
        if not found:
            raise ValueError(
                "the run has no inclusion probabilities: hs.sample(model, "
                "record={'inclusion': hs.models.Inclusion()})."
            )
        mean, error = found[0]
        order = np.argsort(-mean, kind="stable")
        return {self.names[j]: (float(mean[j]), float(error[j])) for j in order}
