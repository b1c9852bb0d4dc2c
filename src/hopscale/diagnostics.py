"""How well a run mixed: effective sample size and R-hat, from a statistic's traces."""

import numpy as np
from jaxtyping import Float


def autocovariance(trace: Float[np.ndarray, "chains n"]) -> Float[np.ndarray, "chains n"]:
    """Autocovariance of each chain at lags 0 ... n - 1, each sum divided by n."""
    n = trace.shape[1]
    centred = trace - trace.mean(axis=1, keepdims=True)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centred, size, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :n] / n


def effective_sample_size(
    trace: Float[np.ndarray, "chains n"],
    block: int = 1,
    variance: Float[np.ndarray, " chains"] | None = None,
) -> Float[np.ndarray, " chains"]:
    r"""Effective sample size of each chain, as in the paper.

    $$\text{ESS} = \frac{n}{1 + 2 \sum_{k=1}^{K-1} \rho_k}$$

    where the sum stops before the first lag K whose autocorrelation is negative. A chain whose
    statistic never moved counts as one draw.

    Args:
        trace: the statistic, one row a chain.
        block: how many draws each entry of the trace averages.
        variance: the statistic's variance over single draws, needed if `block` > 1.
    """
    chains, n = trace.shape
    if n == 0:
        return np.full(chains, np.nan)
    if chains > 64:  # transforms of all chains at once would take gigabytes
        parts = [slice(first, first + 64) for first in range(0, chains, 64)]
        return np.concatenate(
            [
                effective_sample_size(trace[p], block, None if variance is None else variance[p])
                for p in parts
            ]
        )
    covariance = autocovariance(trace)
    spread = covariance[:, 0] if variance is None or block == 1 else variance
    # Rounding leaves a constant chain with a variance of about 1e-32 of its square.
    stuck = covariance[:, 0] <= 1e-14 * np.maximum(np.mean(trace**2, axis=1), 1e-300)
    negative = covariance < 0
    first = np.where(negative.any(axis=1), negative.argmax(axis=1), n)
    counted = np.arange(n) < first[:, None]
    summed = 2.0 * np.sum(np.where(counted, covariance, 0.0), axis=1) - covariance[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        size = n * spread / summed
    return np.where(stuck, 1.0, size)


def r_hat(
    trace: Float[np.ndarray, "chains n"],
    block: int = 1,
    variance: Float[np.ndarray, " chains"] | None = None,
) -> float:
    """Split R-hat: how much the halves of all chains disagree, 1 when they do not.

    The square root of (variance over all half-chains) / (mean variance within a half), both of
    single draws: where the trace holds averages of `block` draws, `variance` says what that is.
    """
    n = trace.shape[1] // 2
    if n < 2:
        return float("nan")
    halves = np.concatenate([trace[:, :n], trace[:, n : 2 * n]])
    within = (
        halves.var(axis=1, ddof=1).mean() if variance is None or block == 1 else variance.mean()
    )
    between = halves.mean(axis=1).var(ddof=1)
    if within == 0:
        return 1.0 if between == 0 else float("inf")
    return float(np.sqrt(1.0 - 1.0 / (n * block) + between / within))
