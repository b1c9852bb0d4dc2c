"""Convergence diagnostics: effective sample size, R-hat and Monte Carlo error of a statistic.

`effective_sample_size` is the paper's estimator, for each chain. The others are for all chains
together: `r_hat` is that of Vehtari et al. (2021), and `mean_ess` and `mcse_mean` are close to
theirs where these are right.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

CHANCE = 0.01  # the probability that an estimate of a variance is higher, or lower, by chance
FEWEST_BLOCKS = 16  # of each chain, and in all: fewer say little of how averages vary
FEWEST_IN_ALL = 48
FEWEST_CHAINS = 17


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
    statistic never changed counts as one draw.

    Args:
        trace: the statistic, one row per chain.
        block: the number of draws averaged in each entry of the trace.
        variance: the variance of single draws in each chain, needed if `block` > 1.
    """
    _check(trace)
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
    # By rounding, a constant chain has a variance of about 1e-32 of its square.
    stuck = covariance[:, 0] <= 1e-14 * np.maximum(np.mean(trace**2, axis=1), 1e-300)
    negative = covariance < 0
    first = np.where(negative.any(axis=1), negative.argmax(axis=1), n)
    counted = np.arange(n) < first[:, None]
    summed = 2.0 * np.sum(np.where(counted, covariance, 0.0), axis=1) - covariance[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        size = n * spread / summed
    return np.where(stuck, 1.0, size)


def r_hat(trace: Float[np.ndarray, "chains n"]) -> float:
    """Rank-normalised split R-hat: how much the half-chains disagree, 1 if they agree.

    The larger of two values (Vehtari et al. 2021, arXiv:1903.08008): R-hat of the ranks of the
    values, which detects chains with different locations, and R-hat of the ranks of their distances
    from the median, which detects different spreads.

    If entries are averages of several draws, disagreement is measured against the spread of
    averages, which is smaller. The value is then at least as strict as that of single draws, and
    chains that agree still give 1.

    Returns:
        R-hat. NaN if the trace is uninformative, with fewer than 4 entries per chain, a value that
        is not finite, or all values equal. inf if every half-chain is constant and they differ.
    """
    return max(part.r_hat for part in r_hats(trace))


class RHat(NamedTuple):
    """One of the two values of `r_hat`, and how sure it is.

    Attributes:
        r_hat: how much half-chains disagree.
        ess: what a chain is worth, in independent entries, for what is compared. It is measured
            within half-chains, so that chains with different means do not lower it.
    """

    r_hat: float
    ess: float


def r_hats(trace: Float[np.ndarray, "chains n"]) -> tuple[RHat, RHat]:
    """Both values of `r_hat`: of the ranks, and of the ranks of distances from the median.

    Where there are no tails (two values, each half of the time) both are of the ranks.
    """
    if not _says_something(trace):
        unknown = RHat(float("nan"), float("nan"))
        return unknown, unknown
    halves = _halves(trace)
    order = np.argsort(halves, axis=None)
    values = halves.reshape(-1)[order]
    of_ranks = _between_within(_scores(values), order, halves.shape)
    middle = values.size // 2  # the number of values is even
    median = (float(values[middle - 1]) + float(values[middle])) / 2
    distances = np.abs(values - median)
    if distances.min() == distances.max():
        return of_ranks, of_ranks
    # Distances fall and then rise, so a stable sort only has to merge two runs.
    nearest = np.argsort(distances, kind="stable")
    return of_ranks, _between_within(_scores(distances[nearest]), order[nearest], halves.shape)


def mean_ess(
    trace: Float[np.ndarray, "chains n"],
    block: int = 1,
    variance: Float[np.ndarray, " chains"] | None = None,
) -> float:
    r"""Effective sample size of all chains together, for the mean of the statistic.

    $$\text{ESS} = \sigma^2 / \text{Var}(\text{mean})$$

    Averages of draws have the same mean as the draws, so Var(mean) can be estimated from them. The
    variance of single draws cannot, and has to be given.

    Args:
        trace: the statistic, one row per chain.
        block: the number of draws averaged in each entry. The result counts draws, not entries.
        variance: the variance of single draws in each chain (divided by n), needed if `block` > 1.
    """
    if not _says_something(trace):
        return float("nan")
    draws = trace.size * block
    if block == 1:
        of_draws = trace.var(dtype=np.float64)
    else:
        between = trace.mean(axis=1, dtype=np.float64).var()
        of_draws = _variance_of_draws(block, variance).mean() + between
    return float(of_draws * draws / (draws - 1) / _variance_of_mean(trace))


def mcse_mean(
    trace: Float[np.ndarray, "chains n"],
    block: int = 1,
    variance: Float[np.ndarray, " chains"] | None = None,
) -> float:
    r"""Monte Carlo standard error of the statistic's mean over all draws of all chains.

    Var(mean) is the sum of autocorrelations, up to where Geyer's initial monotone sequence ends in
    noise. A small part that changes slowly is below this noise, and so is what is left when
    antithetic draws cancel. Both show in averages of 2, 4, 8, ... draws, and in the means of many
    chains. Hence the variance is estimated from each of these; the result is that of the shortest
    averages which no longer ones contradict.

    Args:
        trace, block, variance: as for `mean_ess`; the last two make no difference here.
    """
    return float(np.sqrt(_variance_of_mean(trace))) if _says_something(trace) else float("nan")


def _variance_of_draws(block: int, variance: np.ndarray | None) -> np.ndarray:
    if variance is None:
        raise ValueError(
            f"entries average {block} draws, from which the variance of single draws cannot be "
            "had: give variance, one for each chain."
        )
    return np.asarray(variance, dtype=np.float64)


class _Estimate(NamedTuple):
    """An estimate of a variance, about as uncertain as a chi-square of these degrees of freedom."""

    variance: float
    freedom: float

    def contradicts(self, other: "_Estimate") -> bool:
        """Whether the other, taken to be right, leaves this one to chance."""
        from scipy.special import chdtri  # SciPy is slow to import

        low, high = (chdtri(self.freedom, p) / self.freedom for p in (1.0 - CHANCE, CHANCE))
        return not low <= self.variance / other.variance <= high


def _variance_of_mean(trace: np.ndarray) -> float:
    """Var(mean) from the shortest averages of entries that no longer ones contradict.

    Longer averages miss less of the correlation, and there are fewer of them. This choice between
    estimates with less bias and those with less noise is Lepski's (1991).
    """
    found = list(_estimates(trace))
    agreed = (
        estimate.variance
        for place, estimate in enumerate(found)
        if not any(longer.contradicts(estimate) for longer in found[place + 1 :])
    )
    return next(agreed)  # nothing contradicts the last


def _estimates(trace: np.ndarray) -> Iterator[_Estimate]:
    """Var(mean) from entries, from their averages over 2, 4, 8, ..., and from means of chains."""
    precision = trace.dtype if trace.dtype.kind == "f" else np.float64
    rounding = float(np.finfo(precision).eps * np.abs(trace).max())
    entries = trace
    while True:
        yield _by_correlation(entries)
        chains, pairs = len(entries), entries.shape[1] // 2
        entries = entries[:, : 2 * pairs].reshape(chains, pairs, 2).mean(axis=2, dtype=np.float64)
        if pairs < FEWEST_BLOCKS or entries.size < FEWEST_IN_ALL or entries.std() <= rounding:
            break
    means = trace.mean(axis=1, dtype=np.float64)
    if len(means) >= FEWEST_CHAINS and means.std() > rounding:
        yield _Estimate(float(means.var(ddof=1)) / len(means), len(means) - 1)


def _by_correlation(entries: np.ndarray) -> _Estimate:
    """Var(mean) from autocovariances about the mean of all chains.

    By Bartlett's formula the sum up to lag k has a relative variance of 2 (2 k + 1) / n for n
    entries in all. Each autocovariance is too small by Var(mean).
    """
    n = entries.shape[1]
    lags = np.arange(n // 2)
    covariance = _mean_autocovariance(entries, float(entries.mean(dtype=np.float64)))[: n // 2]
    covariance *= n / (n - lags)
    time, last = _correlation_time(covariance / covariance[0], entries.size)
    counted = (2 * last + 1) / entries.size
    variance = float(covariance[0]) * time / entries.size
    return _Estimate(variance * (1.0 + counted), 1.0 / counted)


def _check(trace: Any) -> None:
    if not hasattr(trace, "ndim"):
        raise TypeError(f"trace must be an array of shape (chains, n); got {trace!r:.80}.")
    if trace.ndim != 2:
        raise ValueError(f"trace must have shape (chains, n); got {trace.shape}.")


def _says_something(trace: np.ndarray) -> bool:
    """Whether there are at least 4 entries per chain, all finite and not all equal."""
    _check(trace)
    if trace.shape[0] < 1 or trace.shape[1] < 4:
        return False
    least, most = trace.min(), trace.max()
    return bool(np.isfinite(least) and np.isfinite(most) and least < most)


def _halves(trace: np.ndarray) -> np.ndarray:
    """First and last halves as separate chains, without the middle entry of an odd number."""
    half = trace.shape[1] // 2
    return np.concatenate([trace[:, :half], trace[:, -half:]])


def _scores(values: np.ndarray) -> np.ndarray:
    """Normal scores of sorted values by ranks, averaged over ties, with offset 3/8 (Blom 1958)."""
    changes = values[1:] != values[:-1]
    if changes.all():
        return _score(np.arange(1.0, values.size + 1), values.size)
    first = np.flatnonzero(np.concatenate([[True], changes]))
    counts = np.diff(first, append=values.size)
    return np.repeat(_score(first + 0.5 * (counts + 1), values.size), counts)


def _score(rank: np.ndarray, total: int) -> np.ndarray:
    from scipy.special import ndtri  # SciPy is slow to import

    return ndtri((rank - 0.375) / (total + 0.25))


def _between_within(scores: np.ndarray, order: np.ndarray, shape: tuple[int, ...]) -> RHat:
    """R-hat of scores, whose places in arrays of half-chains are given.

    It is the square root of the variance over all half-chains divided by the mean one within each.
    """
    placed = np.empty(scores.size)
    placed[order] = scores
    placed = placed.reshape(shape)
    n = shape[1]
    means = placed.mean(axis=1)
    within = float(placed.var(axis=1).mean()) * n / (n - 1)
    if within < 1e-13:  # scores are of the order of 1: rounding alone leaves about 1e-16
        return RHat(float("inf"), 1.0)
    r_hat = float(np.sqrt((n - 1) / n + means.var(ddof=1) / within))
    return RHat(r_hat, _worth_of_two(placed))


def _worth_of_two(halves: np.ndarray) -> float:
    """The effective sample size of two half-chains, of which only changes within each count."""
    n = halves.shape[1]
    covariance = _mean_autocovariance(halves)
    rho = covariance / covariance[0] - 1.0 / (n - 1)
    rho[0] = 1.0
    return 2.0 * n / _correlation_time(rho, halves.size)[0]


def _correlation_time(rho: np.ndarray, entries: int) -> tuple[float, int]:
    """One plus twice the sum of autocorrelations, and the last lag that counts, at least 1.

    By Geyer's initial monotone sequence. In a reversible chain the autocorrelations at an even lag
    and the next odd one have a positive sum. Noise begins with the first pair whose sum is not
    positive.
    """
    pairs = 1 + max(0, (len(rho) - 3) // 2)
    sums = rho[0 : 2 * pairs : 2] + rho[1 : 2 * pairs : 2]
    noise = np.flatnonzero(sums <= 0.0)
    end = int(noise[0]) if noise.size else pairs - 1
    last = rho[2 * end] if sums[end] >= 0.0 else max(rho[2 * end], 0.0)
    time = -1.0 + 2.0 * np.minimum.accumulate(sums[:end]).sum() + last
    # Noise can leave next to nothing of antithetic entries: at most log10(n) times their number n.
    return float(max(time, 1.0 / np.log10(entries))), max(2 * end - 1, 1)


def _mean_autocovariance(
    chains: np.ndarray, centre: float | None = None, at_once: int = 128
) -> np.ndarray:
    """Autocovariance averaged over chains, about `centre` or about the mean of each.

    It is the inverse transform of the average power spectrum, so one inverse transform suffices.
    Spectra of all chains at once would take gigabytes.
    """
    from scipy.fft import next_fast_len  # SciPy is slow to import

    n = chains.shape[1]
    size: int = next_fast_len(2 * n, real=True)  # pyright: ignore[reportAssignmentType]
    power = np.zeros(size // 2 + 1)
    for first in range(0, len(chains), at_once):
        part = chains[first : first + at_once].astype(np.float64)
        part -= part.mean(axis=1, keepdims=True) if centre is None else centre
        spectrum = np.fft.rfft(part, size, axis=1)
        power += (spectrum.real**2 + spectrum.imag**2).sum(axis=0)
    return np.fft.irfft(power, size)[:n] / (n * len(chains))
