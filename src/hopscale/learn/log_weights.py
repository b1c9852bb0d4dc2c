"""An estimate of log Z from the weights of chains, and whether it is a measurement."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hopscale.learn import tables

RESAMPLES = 1_000
NEEDED_CHAINS = 10.0
NEEDED_SHARE = 0.1


def reliable(effective: float, chains: int) -> bool:
    """Whether an estimate of log Z is a measurement: effective chains at least 10 and a tenth.

    With fewer, a few heavy weights stand for all, and heavier ones were probably missed: log Z
    comes out too low, likelihoods too high, and the standard error does not show it. More betas
    help, more chains hardly.

    With resampling it is families that count. The tenth holds for them too: the few families of
    each repeat add up to 10 over many repeats, and still miss the same modes.
    """
    return effective >= needed_effective(chains)


def needed_effective(chains: int) -> float:
    """How many effective chains, or families, a measurement takes."""
    return max(NEEDED_CHAINS, NEEDED_SHARE * chains)


class LogZ(NamedTuple):
    """An estimate of log Z.

    Attributes:
        value: the log of the mean weight of all chains of all repeats.
        error: its standard error, by a bootstrap of families. It means nothing unless `reliable`:
            a few heavy chains hide how many are missing.
        effective: $(\\sum W)^2 / \\sum W^2$, the number of equal weights that would be as good.
        by_repeat: log of the mean weight of each repeat.
        log_weights: of each family, the chains that descend from the same draw of the base: -inf
            if it died out. Without resampling a family is a chain.
        acceptance: mean acceptance probability along the path.
        scale: mean scale along the path; None for kernels without.
        samples: where the chains ended, at the model itself.
        seconds: of the call, compiling included.
        resample: as given.
    """

    value: float
    error: float
    effective: float
    by_repeat: np.ndarray
    log_weights: Float[np.ndarray, "repeats chains"]
    acceptance: float
    scale: float | None
    samples: np.ndarray
    seconds: float
    resample: float = 0.0

    @property
    def reliable(self) -> bool:
        """Whether `value` is a measurement, by the rule of `reliable`."""
        return reliable(self.effective, self.log_weights.size)

    def __str__(self) -> str:
        return tables.text(self.__rich__())

    __repr__ = __str__

    def __rich__(self):
        return tables.table("log Z", self._rows(), self.warning)

    @property
    def warning(self) -> str:
        """Why the estimate is not a measurement; empty if it is one."""
        if self.reliable:
            return ""
        chains = self.log_weights.size
        return (
            f"not a measurement: {self.effective:.1f} of {chains} chains are effective, and "
            f"{needed_effective(chains):g} are needed. log Z is probably too low, likelihoods are "
            "probably too high, and the errors do not show it. Take more betas."
        )

    def _rows(self):
        doubt = "" if self.reliable else "  NOT MEASURED"
        yield "log Z", f"{self.value:.3f} ± {self.error:.2g}{doubt}"
        repeats, chains = self.log_weights.shape
        resampled = f", resampled below {self.resample:g}" if self.resample else ""
        yield "chains", f"{repeats:,} x {chains:,}{resampled}"
        yield "effective chains", f"{self.effective:.1f}"
        yield "acceptance", f"{self.acceptance:.3f}"
        if self.scale is not None:
            yield "scale R", f"{self.scale:.2f}"
        yield "seconds", f"{self.seconds:.1f}"


def families(log_weights: np.ndarray, ancestors: np.ndarray) -> np.ndarray:
    """The log of the summed weight of each family; -inf if it died out."""
    summed = np.full(len(log_weights), -np.inf)
    np.logaddexp.at(summed, ancestors, log_weights.astype(np.float64))
    return summed


def log_mean(log_weights: np.ndarray) -> tuple[float, float, float]:
    """The log of the mean weight, its standard error by a bootstrap, and the effective number.

    Draws of the bootstrap without any weight, which only few families make likely, are left out.
    """
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    rows = np.random.default_rng(0).integers(0, weights.size, (RESAMPLES, weights.size))
    means = weights[rows].mean(axis=1)
    resampled = np.log(means[means > 0])
    effective = weights.sum() ** 2 / (weights**2).sum()
    return float(top + np.log(weights.mean())), float(resampled.std(ddof=1)), float(effective)
