r"""Least squares on a few of many columns, updated by one column at a time.

Columns $x_j$ and the response y are of length 1, and $\lambda > 0$ is added to the Gram matrix:

$$A = X_\gamma^\top X_\gamma + \lambda I, \quad \hat\beta = A^{-1} X_\gamma^\top y, \quad
  P = I - X_\gamma A^{-1} X_\gamma^\top, \quad \text{rss} = y^\top P y.$$

A fit keeps a factor W of the inverse, $A^{-1} = W W^\top$. If columns only enter, W is the inverse
of the Cholesky factor of A. With $u = W^\top X_\gamma^\top y$ the coefficients are
$\hat\beta = W u$.

When column m enters, W gains a column $\omega$; when it leaves, W loses one:

- Entering adds $\omega = (e_m - c) / \sqrt d$, where $c = A^{-1} X_\gamma^\top x_m$ and
  $d = |x_m - X_\gamma c|^2 + \lambda |e_m - c|^2$.
- To remove one, a Householder reflection H of the columns of W, which does not change $W W^\top$,
  leaves row m of W with a single entry. The column $\omega$ with this entry is then dropped.

The product that gives c is taken a second time, for the residual of c by the columns themselves.
Without this, errors of W grow as columns that repeat others enter and leave.

Nothing is subtracted from the inverse itself, so columns that nearly repeat each other lose no more
digits than $\sqrt \lambda$ costs. A fit is in double precision even where the program is not: it
decides the log-probability, and its products are with K columns only. Those with all p columns,
which propose changes, are in the program's precision.

With $r = X_\gamma \omega$ and $\alpha = r^\top y$, a column that enters changes

$$y - X_\gamma \hat\beta \text{ by } -\alpha r, \quad q_j = x_j^\top P x_j \text{ by }
  -(x_j^\top r)^2, \quad z_j = x_j^\top P y \text{ by } -\alpha\, x_j^\top r$$

and $\log \det A$ by $\log d$. A column that leaves reverses these signs, with
$d = (A^{-1})_{mm}^{-1}$.

At most K columns are in use: matrices are K x K, with zeros in unused rows and columns. Only plain
operations are used, and nothing is ever p x p.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hopscale.models.double import in_double

PRECISE = jax.lax.Precision.HIGHEST


class Fit(NamedTuple):
    """Least squares on the columns in use; `columns` holds p in free slots.

    Row and column s of `factor` W and entry s of `projection` u are those of slot s. Between
    functions in double precision, numbers are kept as words.
    """

    columns: Int[Array, " K"]
    factor: Float[Array, "K K"]
    projection: Float[Array, " K"]
    residual: Float[Array, " n"]
    log_det: Float[Array, ""]
    size: Int[Array, ""]


class Summary(NamedTuple):
    """What a fit says, in the program's precision.

    Attributes:
        rss: the unexplained sum of squares, and what the ridge adds to it.
        log_det: of A.
        coefficients, inverse_diagonal: an entry for each slot.
    """

    rss: Float[Array, ""]
    log_det: Float[Array, ""]
    coefficients: Float[Array, " K"]
    inverse_diagonal: Float[Array, " K"]


class Change(NamedTuple):
    """How a column that enters (sign 1), leaves (-1) or stays (0) changes every column."""

    direction: Float[Array, " n"]
    amount: Float[Array, ""]
    sign: Float[Array, ""]


class Columns(NamedTuple):
    """For every column, the squared length and the product with y that others leave of it."""

    q: Float[Array, " p"]
    z: Float[Array, " p"]


@in_double
def empty(columns: Int[Array, " K"], y: Float[Array, " n"]) -> Fit:
    """The fit of no columns: all slots are free."""
    slots = columns.size
    return Fit(
        columns=columns,
        factor=jnp.zeros((slots, slots), jnp.float64),
        projection=jnp.zeros(slots, jnp.float64),
        residual=y.astype(jnp.float64),
        log_det=jnp.zeros((), jnp.float64),
        size=jnp.zeros((), jnp.int32),
    )


def change(
    rows: Float[Array, "p n"],
    ridge: Float[Array, ""],
    fit: Fit,
    column: Int[Array, ""],
    active: Bool[Array, ""],
) -> tuple[Fit, Change]:
    """Add a column if it is out, and remove it if it is in; do nothing unless `active`.

    `rows` holds the columns of X as rows. If there is no free slot, the size grows past K and the
    rest is meaningless. The fit's numbers are in double precision here.
    """
    ridge, dtype = ridge.astype(jnp.float64), rows.dtype
    p, slots = len(rows), fit.columns.size
    here = fit.columns == column
    leaves = jnp.any(here)
    slot = jax.lax.argmax(jnp.where(leaves, here, fit.columns == p), 0, jnp.int32)
    one = (jnp.arange(slots, dtype=jnp.int32) == slot).astype(jnp.float64)
    in_use = _in_use(rows, fit)
    x = jnp.where(leaves, 0.0, rows[column]).astype(jnp.float64)
    row = fit.factor[slot]
    inverse = jnp.sum(row**2)  # the diagonal entry of the inverse of A
    v = row + jnp.where(row[slot] < 0, -1.0, 1.0) * jnp.sqrt(inverse) * one  # no cancellation
    twice = 2.0 / jnp.where(leaves, jnp.sum(v**2), 1.0)  # H = I - twice v v'
    # One product with W either way: c if the column enters, W v if it leaves.
    c = _dot(fit.factor, jnp.where(leaves, v, _dot(_dot(in_use, x), fit.factor)))
    # A second product for the residual of c, so that errors of W do not grow from column to column.
    missing = jnp.where(leaves, 0.0, _dot(in_use, x - _dot(c, in_use)) - ridge * c)
    c = c + _dot(fit.factor, _dot(missing, fit.factor))
    omega = jnp.where(leaves, fit.factor[:, slot] - twice * v[slot] * c, one - c)
    rest = x + _dot(omega, in_use)  # its own slot is still empty as it enters
    length = jnp.sqrt(jnp.sum(rest**2) + ridge * jnp.sum(omega**2))
    length = jnp.where(leaves, 1.0, length)
    omega, direction = omega / length, rest / length
    turned = fit.projection - twice * _dot(v, fit.projection) * v
    amount = jnp.where(leaves, turned[slot], _dot(x, fit.residual) / length)
    sign = jnp.where(leaves, -1.0, 1.0)
    keep = jnp.where(leaves, 1.0 - one, 1.0)
    left, right = jnp.where(leaves, -twice * c, omega), jnp.where(leaves, v, one)
    after = Fit(
        columns=fit.columns.at[slot].set(jnp.where(leaves, p, column).astype(jnp.int32)),
        factor=(fit.factor + left[:, None] * right[None, :]) * keep[:, None] * keep[None, :],
        projection=jnp.where(leaves, turned * keep, fit.projection + amount * one),
        residual=fit.residual - sign * amount * direction,
        log_det=fit.log_det + jnp.where(leaves, jnp.log(inverse), 2.0 * jnp.log(length)),
        size=fit.size + jnp.where(leaves, -1, 1).astype(jnp.int32),
    )
    after = jax.tree.map(lambda new, old: jnp.where(active, new, old), after, fit)
    by = Change(direction, amount, jnp.where(active, sign, 0.0))
    return after, jax.tree.map(lambda a: a.astype(dtype), by)


@jax.jit  # outside a program the loop would be compiled at each call
@in_double
def change_each(
    rows: Float[Array, "p n"],
    ridge: Float[Array, ""],
    fit: Fit,
    columns: Columns | None,
    which: Int[Array, " some"],
    number: Int[Array, ""],
) -> tuple[Fit, Columns | None]:
    """Change the first `number` of some columns, one after the other; `columns` too, if given."""

    def one(i, carry):
        fit, columns = carry
        fit, by = change(rows, ridge, fit, which[i], i < number)
        return fit, None if columns is None else change_columns(rows, columns, by)

    return jax.lax.fori_loop(0, number, one, (fit, columns))


def change_columns(rows: Float[Array, "p n"], columns: Columns, change: Change) -> Columns:
    """Update every column for one that enters or leaves: one product with X."""
    w = _dot(rows, change.direction)
    return Columns(q=columns.q - change.sign * w**2, z=columns.z - change.sign * change.amount * w)


@in_double
def summary(fit: Fit, ridge: Float[Array, ""]) -> Summary:
    coefficients = _dot(fit.factor, fit.projection)
    found = Summary(
        rss=jnp.sum(fit.residual**2) + ridge.astype(jnp.float64) * jnp.sum(coefficients**2),
        log_det=fit.log_det,
        coefficients=coefficients,
        inverse_diagonal=jnp.sum(fit.factor**2, axis=1),
    )
    return jax.tree.map(lambda a: a.astype(ridge.dtype), found)


@in_double
def all_columns(rows: Float[Array, "p n"], fit: Fit) -> Columns:
    """`Columns` from scratch: products of X with a basis of the columns in use."""
    basis = _dot(fit.factor.T, _in_use(rows, fit)).astype(rows.dtype)  # (K, n)
    q = jnp.sum(rows**2, axis=1) - jnp.sum(_dot(rows, basis.T) ** 2, axis=1)
    return Columns(q=q, z=_dot(rows, fit.residual.astype(rows.dtype)))


def _in_use(rows: Float[Array, "p n"], fit: Fit) -> Float[Array, "K n"]:
    used = rows.at[fit.columns].get(mode="fill", fill_value=0.0)
    return used.astype(jnp.float64)


def _dot(a, b):
    return jnp.matmul(a, b, precision=PRECISE)
