r"""Predictions of the paper's limit theorems for a product of bits.

Both theorems say that the log acceptance ratio of a proposal of R flips tends to a normal
distribution $\mathcal N(-s^2/2, s^2)$, so that the acceptance rate is $2\Phi(-s/2)$. They differ in
how s grows with R:

$$s = c\,R^k, \qquad
\text{LBP: } c = \lambda_1 / N,\ k = \tfrac32; \qquad
\text{RWM: } c = \lambda_2,\ k = \tfrac12.$$

Departure from the paper: the predictions below use the complete variance of the reversed path,
`lambda_1(..., complete=True)`, where Eq. (7) omits a term of the same order. For barker the two
coincide. `complete=False` gives the paper's predictions.

The argument `p` is the probability of a 1 at each site: an array, or a target with an attribute
`p`. All arithmetic is float64 NumPy.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from hopscale import balance as _balance
from hopscale.validate import choice, number

_EXPONENT = {"lbp": 1.5, "rwm": 0.5}
_PATHS = ("reversed", "same")


class HasP(Protocol):
    """A target that knows its marginals, as `hopscale.targets.Bernoulli` does."""

    @property
    def p(self) -> Any: ...


Numbers = float | Sequence[float] | np.ndarray | Array
Probabilities = Numbers | HasP


class Optimum(NamedTuple):
    """The scaled size z and the acceptance rate at which the expected jump distance is largest."""

    z: float
    rate: float


def lambda_1(
    p: Probabilities,
    balance: str | _balance.LogBalance = "barker",
    path: str = "reversed",
    *,
    complete: bool = False,
) -> float:
    r"""The constant of a locally balanced proposal, Eq. (7).

    With $w_j(v) = g(\pi_j(1 - v) / \pi_j(v))$, sites drawn with probability
    $q_j \propto p_j w_j(1)$ and $\bar w = E_x[\frac1N \sum_i w_i(x_i)]$,

    $$\lambda_1^2 = \frac{E_q[(w(0) - w(1))^2]}{4\, \bar w^2}.$$

    If the way back is scored in the same order, the 4 becomes a 3: the log acceptance ratio is then
    to leading order $\frac1W \sum_r r\,(w_{u_r}(x) - w_{u_r}(y))$, and $\sum_r r^2 = R^3/3$.

    Departure from the paper: with the reversed path the mean of that ratio given u contains
    $\frac{1}{2W} \sum_r (2r - R - 1)(w_{u_r}(0) + w_{u_r}(1))$. The proof of the lemma on A
    keeps only the expectation of this term. Its variance over u is of the same order as the rest,
    and adds

    $$\frac{\operatorname{Var}_q(w(0) + w(1))}{12\, \bar w^2}$$

    to $\lambda_1^2$. (The expectation is not negligible either: sites of large weight are drawn
    first, which moves the mean by minus half of this, as $E[\exp] = 1$ requires.) The added term is
    0 for barker, where $w(0) + w(1) = 1$, and if all sites are alike. `complete=True` includes it.
    With the same order nothing is missing.

    Args:
        p: probability of a 1 at each site.
        balance: name or log g, as for `balance.resolve`.
        path: "reversed", as in Eq. (5), or "same".
        complete: whether to add the term that Eq. (7) omits.
    """
    choice("path", path, _PATHS, "Eq. (5) is 'reversed'.")
    p = _probabilities(p)
    w_0, w_1 = _weights(p, balance)
    if np.all(p == 0.5):  # no site prefers a value: exactly 0, not a rounding error
        return 0.0
    flow = p * w_1  # = (1 - p) w_0, as g is balanced
    q = flow / flow.sum()
    square = q @ (w_0 - w_1) ** 2 / (4 if path == "reversed" else 3)
    if complete and path == "reversed":
        total = w_0 + w_1
        square += q @ (total - q @ total) ** 2 / 12
    return float(np.sqrt(square) / (2 * flow.mean()))


def lambda_2(p: Probabilities, beta: float = 0.0) -> float:
    r"""The constant of random walk Metropolis, Eq. (21).

    $$\lambda_2^2 = \frac2N \sum_i N^{2\beta} (2 p_i - 1) \log \frac{p_i}{1 - p_i}$$

    The theorem lets every p approach 1/2 as $N^{-\beta}$, and has $R = l N^{2\beta}$. The two
    factors cancel in $\lambda_2 \sqrt l$, so with the default $\beta = 0$ the constant belongs to
    R itself, and the acceptance rate is $2\Phi(-\frac12 \lambda_2 \sqrt R)$. For p away from 1/2
    the best R is a few flips, and the normal limit is a rough guide, not a theorem.

    Args:
        p: probability of a 1 at each site.
        beta: the paper's exponent; set it to obtain the paper's number.
    """
    number("beta", beta, -float("inf"), float("inf"), "()")
    p = _probabilities(p)
    terms = (2 * p - 1) * (np.log(p) - np.log1p(-p))
    return float(np.sqrt(2 * terms.mean()) * p.size**beta)


def acceptance(
    scale: Numbers,
    p: Probabilities,
    sampler: str = "lbp",
    *,
    balance: str | _balance.LogBalance = "barker",
    path: str = "reversed",
    complete: bool = True,
) -> Float[np.ndarray, "*shape"]:
    r"""Predicted acceptance rate of proposals of `scale` flips, Eqs. (6) and (20).

    $$a(R) = 2\Phi(-\tfrac12 \lambda_1 R^{3/2} / N)
    \quad\text{or}\quad a(R) = 2\Phi(-\tfrac12 \lambda_2 R^{1/2})$$

    Departure from the paper: `complete`, on by default; see `lambda_1`.

    Args:
        scale: R, at least 1, of any shape.
        p: probability of a 1 at each site.
        sampler: "lbp" or "rwm".
        balance, path, complete: as for `lambda_1`; "rwm" does not use them.
    """
    size = np.asarray(scale, np.float64)
    if not np.all(size >= 1):  # also catches NaN
        raise ValueError(
            f"scale must be at least 1, the number of flips proposed; got {np.min(size):g}. "
            "Clip the scale from below."
        )
    c, k = _spread(p, sampler, balance, path, complete)
    return np.asarray(2 * ndtr(-c * size**k / 2))


def ejd(
    scale: Numbers,
    p: Probabilities,
    sampler: str = "lbp",
    *,
    balance: str | _balance.LogBalance = "barker",
    path: str = "reversed",
    complete: bool = True,
) -> Float[np.ndarray, "*shape"]:
    r"""Predicted expected jump distance of proposals of `scale` flips, Eq. (8).

    $$\rho(R) = R\, a(R)$$

    Args:
        scale, p, sampler, balance, path, complete: as for `acceptance`.
    """
    rate = acceptance(scale, p, sampler, balance=balance, path=path, complete=complete)
    return np.asarray(np.asarray(scale, np.float64) * rate)


def optimum(sampler: str = "lbp") -> Optimum:
    r"""The best z and its acceptance rate, the same for every p: the two corollaries, Eq. (8).

    $$z = \arg\max_z\, 2 z\, \Phi(-\tfrac12 z^k), \qquad
    z = \lambda_1^{2/3} R / N^{2/3} \text{ or } \lambda_2^2 R$$

    The derivative vanishes where $\Phi(-h) = k\,h\,\phi(h)$, $h = z^k / 2$. Departure from the
    paper: it prints z = 5.673 for RWM. The maximum is at 5.670, and is higher by one part in 10^7.

    Args:
        sampler: "lbp" (1.081, 0.574) or "rwm" (5.670, 0.234).
    """
    k = _exponent(sampler)
    half: Any = brentq(
        lambda h: ndtr(-h) - k * h * np.exp(-0.5 * h * h) / np.sqrt(2.0 * np.pi),
        1e-3,
        5.0,
        xtol=1e-14,
    )
    return Optimum(z=float((2 * half) ** (1 / k)), rate=float(2 * ndtr(-half)))


def optimal_scale(
    p: Probabilities,
    sampler: str = "lbp",
    *,
    balance: str | _balance.LogBalance = "barker",
    path: str = "reversed",
    complete: bool = True,
) -> float:
    r"""The scale with the largest predicted jump distance.

    $$R^* = z\, (N / \lambda_1)^{2/3} \quad\text{or}\quad R^* = z / \lambda_2^2,$$

    from the corollaries of Theorems 3.1 (Eq. (8)) and 3.2, clipped to [1, N].

    Args:
        p, sampler, balance, path, complete: as for `acceptance`.

    Examples:
        >>> p = [0.3] * 1000
        >>> print(round(hs.theory.optimal_scale(p)), round(hs.theory.optimal_scale(p, "rwm")))
        177 8
    """
    c, k = _spread(p, sampler, balance, path, complete)
    size = _probabilities(p).size
    if c == 0:  # every p is 1/2: nothing is ever rejected
        return float(size)
    return float(np.clip(optimum(sampler).z * c ** (-1 / k), 1, size))


def optimal_ejd(
    p: Probabilities,
    sampler: str = "lbp",
    *,
    balance: str | _balance.LogBalance = "barker",
    path: str = "reversed",
    complete: bool = True,
) -> float:
    r"""The predicted jump distance at the optimal scale, Eq. (8).

    $$\rho(R^*) = 2 R^* \Phi(-\tfrac12 c\, {R^*}^k),$$

    with c and k as at the top of this module.

    Args:
        p, sampler, balance, path, complete: as for `acceptance`.
    """
    scale = optimal_scale(p, sampler, balance=balance, path=path, complete=complete)
    return float(ejd(scale, p, sampler, balance=balance, path=path, complete=complete))


def efficiency_curve(
    rate: Numbers,
    p: Probabilities,
    sampler: str = "lbp",
    *,
    balance: str | _balance.LogBalance = "barker",
    path: str = "reversed",
    complete: bool = True,
) -> Float[np.ndarray, "*shape"]:
    r"""Predicted jump distance as a function of the acceptance rate, as in Figures 1-3.

    It follows from Eqs. (6) and (20), solved for R, and Eq. (8):

    $$s(a) = -2\,\Phi^{-1}(a / 2), \qquad \rho(a) = a\, (s(a) / c)^{1/k}$$

    Nothing is clipped: for rates near 0 and 1 the scale may lie outside [1, N].

    Args:
        rate: acceptance rates a, strictly inside (0, 1), of any shape.
        p, sampler, balance, path, complete: as for `acceptance`.
    """
    a = np.asarray(rate, np.float64)
    if not np.all((a > 0) & (a < 1)):
        raise ValueError(
            "rate must lie strictly inside (0, 1); it ranges over "
            f"[{np.min(a):g}, {np.max(a):g}]. Leave the end points out."
        )
    c, k = _spread(p, sampler, balance, path, complete)
    if c == 0:
        raise ValueError(
            "p must differ from 1/2 somewhere for the acceptance rate to depend on the scale; "
            "every p is 1/2 and the rate is 1. Use ejd(scale, p), which is the scale."
        )
    return np.asarray(a * (-2 * ndtri(a / 2) / c) ** (1 / k))


def _spread(
    p: Probabilities,
    sampler: str,
    balance: str | _balance.LogBalance,
    path: str,
    complete: bool,
) -> tuple[float, float]:
    """The c and k of s = c R^k, the standard deviation of the log acceptance ratio."""
    k = _exponent(sampler)
    if sampler == "rwm":
        return lambda_2(p), k
    return lambda_1(p, balance, path, complete=complete) / _probabilities(p).size, k


def _exponent(sampler: str) -> float:
    choice("sampler", sampler, _EXPONENT, "The paper has no limit theorem for others.")
    return _EXPONENT[sampler]


def _probabilities(p: Probabilities) -> Float[np.ndarray, " N"]:
    try:
        values = np.asarray(getattr(p, "p", p), np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "p must hold the probability of a 1 at each site, as an array or a Bernoulli target; "
            f"got {type(p).__name__}. The theory is for independent bits."
        ) from error
    if values.size == 0 or not np.all((values > 0) & (values < 1)):
        came = f"values in [{values.min():g}, {values.max():g}]" if values.size else "no site"
        raise ValueError(
            f"p must hold probabilities strictly inside (0, 1), one for each site; got {came}. "
            "Leave out sites that never vary."
        )
    return values


def _weights(
    p: Float[np.ndarray, " N"], balance: str | _balance.LogBalance
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """w_j(0) and w_j(1) of Eq. (5)."""
    logit = np.log(p) - np.log1p(-p)
    with jax.enable_x64(True):  # log g is a JAX function, which would round to float32
        log_g = _balance.resolve(balance)
        log_w = [np.asarray(log_g(jnp.asarray(s)), np.float64) for s in (logit, -logit)]
    return np.exp(log_w[0]), np.exp(log_w[1])
