r"""Least squares on a few of many columns, updated by one column at a time.

Columns $x_j$ and the response y are of length 1, and $\lambda \ge 0$ is added to the Gram matrix:

$$A = X_\gamma^\top X_\gamma + \lambda I, \quad \hat\beta = A^{-1} X_\gamma^\top y, \quad
  P = I - X_\gamma A^{-1} X_\gamma^\top, \quad \text{rss} = y^\top P y.$$

All that one more or one less column changes is of rank one. With a vector t, a number d and an
amount $\alpha$,

$$A^{-1} \mathrel{+}= t t^\top / d, \quad \hat\beta \mathrel{-}= t \alpha / d, \quad
  \text{rss} \mathrel{-}= \alpha^2 / d, \quad \log \det A \mathrel{+}= \log |d|,$$

and for every column j, with $w_j = x_j^\top X_\gamma t$, also $q_j = x_j^\top P x_j$ by
$-w_j^2 / d$ and $z_j = x_j^\top P y$ by $+w_j \alpha / d$. Column m enters with
$t = A^{-1} X_\gamma^\top x_m - e_m$, $d = q_m + \lambda$, $\alpha = z_m$; it leaves with
$t = A^{-1} e_m$, $d = -(A^{-1})_{mm}$, $\alpha = -\hat\beta_m$.

At most K columns are in use: matrices are K x K, their unused rows and columns zero. Plain
operations only, and never anything p x p.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

PRECISE = jax.lax.Precision.HIGHEST


class Fit(NamedTuple):
    """Least squares on the columns in use; `columns` holds p in slots that are free."""

    columns: Int[Array, " K"]
    inverse: Float[Array, "K K"]
    coefficients: Float[Array, " K"]
    rss: Float[Array, ""]
    log_det: Float[Array, ""]
    size: Int[Array, ""]


class Change(NamedTuple):
    """A change of rank one: `direction` is X_gamma t; d = 0 changes nothing."""

    direction: Float[Array, " n"]
    d: Float[Array, ""]
    amount: Float[Array, ""]


class Columns(NamedTuple):
    """For every column: the squared length and the product with y that others leave of it."""

    q: Float[Array, " p"]
    z: Float[Array, " p"]


def empty(slots: int, p: int, dtype) -> Fit:
    return Fit(
        columns=jnp.full(slots, p, jnp.int32),
        inverse=jnp.zeros((slots, slots), dtype),
        coefficients=jnp.zeros(slots, dtype),
        rss=jnp.ones((), dtype),
        log_det=jnp.zeros((), dtype),
        size=jnp.zeros((), jnp.int32),
    )


def change(
    rows: Float[Array, "p n"],
    y: Float[Array, " n"],
    ridge: Float[Array, ""],
    fit: Fit,
    column: Int[Array, ""],
    active: Bool[Array, ""],
) -> tuple[Fit, Change]:
    """Let a column in if it is out, and out if it is in; nothing unless `active`.

    `rows` are the columns of X, each a row. Where there is no free slot the size grows past K,
    and the rest means nothing.
    """
    p, slots = len(rows), fit.columns.size
    here = fit.columns == column
    leaves = jnp.any(here)
    slot = jnp.argmax(jnp.where(leaves, here, fit.columns == p))
    used = (fit.columns < p).astype(y.dtype)
    in_use = rows.at[fit.columns].get(mode="fill", fill_value=0.0)  # (K, n)
    x = rows[column]
    one = jax.nn.one_hot(slot, slots, dtype=y.dtype)
    product = _dot(in_use, x) * used
    enters_by = _dot(fit.inverse, product) - one
    residual = y - _dot(fit.coefficients, in_use)
    t = jnp.where(leaves, fit.inverse[slot], enters_by)
    left = _dot(x, x) + ridge - _dot(product, _dot(fit.inverse, product))
    d = jnp.where(leaves, -fit.inverse[slot, slot], jnp.maximum(left, 0.5 * ridge))
    amount = jnp.where(leaves, -fit.coefficients[slot], _dot(x, residual))
    safe = jnp.where(d == 0, 1.0, d)
    after = Fit(
        columns=fit.columns.at[slot].set(jnp.where(leaves, p, column).astype(jnp.int32)),
        inverse=fit.inverse + t[:, None] * t[None, :] / safe,
        coefficients=fit.coefficients - t * amount / safe,
        rss=fit.rss - amount**2 / safe,
        log_det=fit.log_det + jnp.log(jnp.abs(safe)),
        size=fit.size + jnp.where(leaves, -1, 1),
    )
    after = _without(after, slot, leaves)
    direction = _dot(t, in_use) - jnp.where(leaves, 0.0, 1.0) * x * one[slot]
    after = jax.tree.map(lambda new, old: jnp.where(active, new, old), after, fit)
    return after, Change(direction, jnp.where(active, d, 0.0), amount)


def _without(fit: Fit, slot, leaves) -> Fit:
    """What rounding left of a column that is gone."""
    keep = jnp.where(leaves & (jnp.arange(fit.columns.size) == slot), 0.0, 1.0)
    keep = keep.astype(fit.inverse.dtype)
    inverse = fit.inverse * keep[:, None] * keep[None, :]
    return fit._replace(inverse=inverse, coefficients=fit.coefficients * keep)


def change_columns(rows: Float[Array, "p n"], columns: Columns, change: Change) -> Columns:
    """What a change of rank one does to every column: one product with X."""
    w = _dot(rows, change.direction)
    safe = jnp.where(change.d == 0, jnp.inf, change.d)
    return Columns(q=columns.q - w**2 / safe, z=columns.z + w * (change.amount / safe))


def all_columns(rows: Float[Array, "p n"], y: Float[Array, " n"], fit: Fit) -> Columns:
    """The same for every column from scratch: a product of X with the columns in use."""
    in_use = rows.at[fit.columns].get(mode="fill", fill_value=0.0)
    products = _dot(rows, in_use.T)  # (p, K)
    residual = y - _dot(fit.coefficients, in_use)
    q = jnp.sum(rows**2, axis=1) - jnp.sum(products * _dot(products, fit.inverse), axis=1)
    return Columns(q=q, z=_dot(rows, residual))


def _dot(a, b):
    return jnp.matmul(a, b, precision=PRECISE)
