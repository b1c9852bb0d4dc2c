"""A number recorded at every draw of every chain: its mean, and how accurate that is."""

import dataclasses
from functools import cached_property

import numpy as np

from hopscale import diagnostics
from hopscale.engine.pages import average

RANKED_ENTRIES = 2**19  # the most entries that are ranked: longer traces are averaged in blocks
RANKED_GRID = 2.0**-8  # standard deviations within which two entries are ranked as equal


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A number for each chain and draw, and the accuracy of its mean.

    Attributes:
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

    @cached_property
    def r_hat(self) -> float:
        """Rank-normalised split R-hat over all chains; NaN if nothing ever changed."""
        trace = self.trace
        while trace.size > RANKED_ENTRIES and trace.shape[1] >= 512:
            trace = average(trace[:, : trace.shape[1] // 2 * 2].T, 2).T
        # Rounding errors of updates make equal log-densities differ, by another amount in each
        # chain. Ranks would take that for chains that disagree.
        with np.errstate(invalid="ignore"):
            grid = RANKED_GRID * trace.std(dtype=np.float64) if trace.size else 0.0
        return diagnostics.r_hat(np.round(trace / grid) if grid > 0 else trace)

    def __repr__(self) -> str:
        shown = f"{self.name}: {self.mean:.6g} ± {self.error:.2g}, sd {self.sd:.4g}"
        return f"{shown}, ESS {self.ess_total:.4g} in all, R-hat {self.r_hat:.4f}"
