"""A number recorded at every draw of every chain: its mean, and how accurate that is."""

import dataclasses
from functools import cached_property

import numpy as np

from hopscale import diagnostics
from hopscale.engine.pages import average

RANKED_ENTRIES = 2**19  # the most entries that are ranked: longer traces are averaged in blocks
RANKED_GRID = 2.0**-8  # standard deviations within which two entries are ranked as equal
RESOLUTIONS = 32.0  # of single precision, likewise
CENTRAL = 3.3  # standard deviations of a normal distribution between its quantiles 0.05 and 0.95


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A number for each chain and draw, and the accuracy of its mean.

    Attributes:
        name: what it is called in `run.statistics`.
        trace: its history, of shape (chains, blocks), each entry the mean of `block` draws. One
            draw in runs of up to 16,384 draws, or of fewer if there are more than 256 chains.
        mean_by_chain, variance_by_chain: over single draws.
    """

    name: str
    trace: np.ndarray
    block: int
    mean_by_chain: np.ndarray
    variance_by_chain: np.ndarray

    @property
    def mean(self) -> float:
        """The mean over all draws of all chains."""
        return float(self.mean_by_chain.mean())

    @property
    def sd(self) -> float:
        """The standard deviation over all draws of all chains."""
        return float(np.sqrt(self.variance_by_chain.mean() + self.mean_by_chain.var()))

    @cached_property
    def error(self) -> float:
        """The Monte Carlo standard error of the mean."""
        return diagnostics.mcse_mean(self.trace, self.block, self.variance_by_chain)

    @cached_property
    def ess_by_chain(self) -> np.ndarray:
        """Effective sample size of each chain, by the paper's estimator."""
        trace = self.trace.astype(np.float64)
        return diagnostics.effective_sample_size(trace, self.block, self.variance_by_chain)

    @property
    def ess(self) -> float:
        """Effective sample size of a chain, by the paper's estimator, averaged over chains."""
        return float(self.ess_by_chain.mean())

    @cached_property
    def ess_total(self) -> float:
        """Effective sample size of all chains together: small if they disagree."""
        return diagnostics.mean_ess(self.trace, self.block, self.variance_by_chain)

    @property
    def r_hat(self) -> float:
        """Rank-normalised split R-hat over all chains; NaN if nothing ever changed."""
        return max(part.r_hat for part in self.r_hats)

    @cached_property
    def r_hats(self) -> tuple[diagnostics.RHat, diagnostics.RHat]:
        """R-hat of where chains are, and of how far they spread from the median of all."""
        trace = self.trace
        while trace.size > RANKED_ENTRIES and trace.shape[1] >= 512:
            trace = average(trace[:, : trace.shape[1] // 2 * 2].T, 2).T
        return diagnostics.r_hats(_without_rounding(trace))

    def __repr__(self) -> str:
        shown = f"{self.name}: {self.mean:.6g} ± {self.error:.2g}, sd {self.sd:.4g}"
        return f"{shown}, ESS {self.ess_total:.4g} in all, R-hat {self.r_hat:.4f}"


def _without_rounding(trace: np.ndarray) -> np.ndarray:
    """A trace in which entries that differ by rounding alone are equal.

    Rounding errors of updates make equal log-densities differ, by another amount in each chain.
    Ranks would take that for chains that disagree. The grid is a small part of the spread of most
    entries, which a few outliers or a transient do not widen.
    """
    entries = trace[np.isfinite(trace)].astype(np.float64)
    if not entries.size:
        return trace
    low, middle, high = np.quantile(entries, [0.05, 0.5, 0.95])
    spread = min(entries.std(), (high - low) / CENTRAL)
    rounding = RESOLUTIONS * np.finfo(np.float32).eps * abs(middle)
    grid = max(RANKED_GRID * spread, rounding)
    return np.round(trace / grid) if grid > 0 else trace
