"""An estimate of log Z from the weights of chains, and whether it is a measurement."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hopscale import tables

RESAMPLES = 1_000
BRIDGE_RESAMPLES = 200
HALVINGS = 60
AGREED = 0.5  # nats: two sides agree if they are at most twice this apart
NEEDED_CHAINS = 10.0
NEEDED_SHARE = 0.1


def reliable(effective: float, chains: int) -> bool:
    """Whether an estimate of log Z is a measurement: at least 10 and a tenth of chains effective.

    With fewer, a few heavy weights dominate, and heavier ones were probably missed. Then log Z
    comes out too low and likelihoods too high, and the standard error does not show it. More betas
    help; more chains hardly do.

    With resampling, families are counted instead of chains. The tenth applies to them too: the few
    families of each repeat add up to 10 over many repeats, and still miss the same modes.
    """
    return effective >= needed_effective(chains)


def needed_effective(chains: int) -> float:
    """The number of effective chains, or families, that a measurement needs."""
    return max(NEEDED_CHAINS, NEEDED_SHARE * chains)


class LogZ(NamedTuple):
    r"""An estimate of log Z.

    From one side, the estimate is the log of the mean weight of chains that walk from the base to
    the target. It is too low if few chains find what counts. From two sides, other chains walk back
    from samples of the target. Their mean weight estimates 1 / Z, and the same lack makes this
    estimate of log Z too high. Samples that are not the target's own, such as those of chains that
    have not mixed, can spoil the upper side only.

    Attributes:
        value: log Z. From one side, the log of the mean weight of all chains of all repeats. From
            two sides without resampling, Bennett's estimate (1976), which combines the weights of
            both; with resampling, the midpoint. If the lower side is more than a nat above the
            upper side, the samples miss part of the target, and the value is the lower side.
        error: its standard error, by a bootstrap of families. From two sides it is at least half
            the distance between them, and at least what the differences between repeats imply.
            From one side it means nothing unless `reliable`: a few heavy chains hide how many are
            missing.
        effective: $(\sum W)^2 / \sum W^2$, the number of equal weights that would be as good;
            from two sides the smaller of the two.
        by_repeat: the log of the mean weight of each repeat, from the lower side.
        log_weights: the log-weight of each family, the chains that descend from the same draw of
            the base; -inf if it died out. Without resampling a family is a chain.
        acceptance: mean acceptance probability along the path.
        scale: mean scale along the path; None for kernels without a scale.
        samples: the last states of the chains, at the target itself.
        seconds: the time of the call, including compilation.
        resample: as given.
        lower: the mean over repeats of the log of the mean weight; its expectation is at most
            log Z.
        upper: the same from chains that walk back; its expectation is at least log Z. None if no
            chains walk back.
        upper_by_repeat: its value in each repeat; None if no chains walk back.
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
    lower: float = float("nan")
    upper: float | None = None
    upper_by_repeat: np.ndarray | None = None

    @property
    def reliable(self) -> bool:
        """Whether `value` is a measurement.

        From two sides: if the error is at most 0.5, so that they are at most 1 nat apart. From one
        side: by the rule of `hopscale.learn.reliable`.
        """
        if self.upper is not None:
            return self.error <= AGREED
        return reliable(self.effective, self.log_weights.size)

    def __str__(self) -> str:
        return tables.text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.html(self)

    def __rich__(self):
        return tables.table("log Z", self._rows(), self.warning)

    @property
    def warning(self) -> str:
        """Why the estimate is not a measurement; empty if it is one."""
        if self.reliable:
            return ""
        if self.upper is not None and contradict(self.lower, self.upper):
            return (
                f"not a measurement: chains that walked to the target found "
                f"{self.lower - self.upper:.3g} nats more of it than the samples account for. The "
                "samples miss a mode, which may hold most of it; see where the chains ended "
                "(`samples`)."
            )
        if self.upper is not None:
            return (
                f"not a measurement: the two sides are {abs(self.upper - self.lower):.3g} nats "
                f"apart, with an error of {self.error:.2g}, and {AGREED:g} is needed. Take more "
                "betas, a base nearer to the target, or samples of longer chains."
            )
        chains = self.log_weights.size
        return (
            f"not a measurement: {self.effective:.1f} of {chains} chains are effective, and "
            f"{needed_effective(chains):g} are needed. log Z is probably too low, likelihoods are "
            "probably too high, and the errors do not show it. Take more betas."
        )

    def _rows(self):
        doubt = "" if self.reliable else "  NOT MEASURED"
        yield "log Z", f"{self.value:.3f} ± {self.error:.2g}{doubt}"
        if self.upper is not None:
            yield "from below, from above", f"{self.lower:.3f}, {self.upper:.3f}"
        repeats, chains = self.log_weights.shape
        resampled = f", resampled below {self.resample:g}" if self.resample else ""
        yield "chains", f"{repeats:,} x {chains:,}{resampled}"
        yield "effective chains", f"{self.effective:.1f}"
        yield "acceptance", f"{self.acceptance:.3f}"
        if self.scale is not None:
            yield "scale R", f"{self.scale:.2f}"
        yield "seconds", f"{self.seconds:.1f}"


class TwoSides(NamedTuple):
    """The estimate of log Z from forward and backward chains together."""

    value: float
    error: float
    upper: float
    effective: float


def two_sides(
    forward: np.ndarray, backward: np.ndarray, midpoint: bool, samples: int | None = None
) -> TwoSides:
    """Log Z from the log-weights, by repeat and family, of forward and of backward chains.

    Args:
        forward, backward: of shape (repeats, families).
        midpoint: take the midpoint of the two sides instead of Bennett's estimate.
        samples: the number of samples that backward families begin at in turn, again from the first
            after the last; None if no two begin at the same.
    """
    lower, upper = mean_bound(forward), -mean_bound(backward)
    _, lower_error, _ = log_mean(forward.reshape(-1))
    _, upper_error, effective = log_mean(backward.reshape(-1), samples)
    value, error = (lower + upper) / 2, float(np.hypot(lower_error, upper_error)) / 2
    if not midpoint:
        value, error = bridge(forward.reshape(-1), backward.reshape(-1), samples)
    if contradict(lower, upper):
        value = lower
    repeats = float(np.hypot(_spread(forward), _spread(backward))) / 2
    error = max(error, abs(upper - lower) / 2, repeats)
    return TwoSides(value=value, error=error, upper=upper, effective=effective)


def contradict(lower: float, upper: float) -> bool:
    """Whether the bounds cannot both hold: one k nats too high has probability e^-k at most."""
    return lower - upper > 2 * AGREED


def _spread(log_weights: np.ndarray) -> float:
    """The standard error of the bound, from how repeats differ; 0 for one repeat."""
    values = [log_mean(one)[0] for one in log_weights]
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def mean_bound(log_weights: Float[np.ndarray, "repeats chains"]) -> float:
    """The mean over repeats of the log of the mean weight: at most log Z, but for chance (Jensen).

    The log of the mean over all repeats is higher, and by chance if few weights dominate.
    """
    return float(np.mean([log_mean(one)[0] for one in log_weights]))


def bridge(
    forward: np.ndarray, backward: np.ndarray, samples: int | None = None
) -> tuple[float, float]:
    r"""Bennett's estimate of log Z and its standard error, by a bootstrap of both sides.

    With weights w of n forward chains and v of m backward chains, and l = log(m / n), it solves

    $$\sum \sigma(\log w + l - \log Z) = \sum \sigma(\log v - l + \log Z).$$

    `samples` is as for `two_sides`.
    """
    if not np.isfinite(forward).any():
        return float("-inf"), float("nan")
    rng = np.random.default_rng(0)
    once = [np.ones((1, len(side))) for side in (forward, backward)]
    found = _meeting(forward, backward, *once)
    there = _times_drawn(rng, np.arange(len(forward)))
    back = _times_drawn(rng, _origins(len(backward), samples))
    some = there[:, np.isfinite(forward)].any(axis=1)
    again = _meeting(forward, backward, there[some], back[some])
    return float(found[0]), float(again.std(ddof=1))


def _origins(families: int, samples: int | None) -> np.ndarray:
    """The index of the draw that each family begins at."""
    return np.arange(families) % (samples or families)


def _times_drawn(rng: np.random.Generator, origins: np.ndarray) -> np.ndarray:
    """How often each family is in each bootstrap sample: those of one origin are drawn together."""
    number = origins.max() + 1
    return rng.multinomial(number, np.full(number, 1 / number), BRIDGE_RESAMPLES)[:, origins]


def _meeting(
    forward: np.ndarray, backward: np.ndarray, there: np.ndarray, back: np.ndarray
) -> np.ndarray:
    """The solution for each row of counts of chains, by bisection of an interval that holds it."""
    shift = np.log(back.sum(axis=1) / there.sum(axis=1))[:, None]
    ends = np.concatenate([forward, -backward])
    ends = ends[np.isfinite(ends)]  # chains of weight zero count as no more than that
    low = np.full_like(shift, ends.min() - np.abs(shift).max() - 50)
    high = np.full_like(shift, ends.max() + np.abs(shift).max() + 50)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        ups = (there * _sigmoid(forward + shift - middle)).sum(axis=1, keepdims=True)
        downs = (back * _sigmoid(backward - shift + middle)).sum(axis=1, keepdims=True)
        low, high = np.where(ups > downs, middle, low), np.where(ups > downs, high, middle)
    return (low + high)[:, 0] / 2


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def families(log_weights: np.ndarray, ancestors: np.ndarray) -> np.ndarray:
    """The log of the summed weight of each family; -inf if it died out."""
    summed = np.full(len(log_weights), -np.inf)
    np.logaddexp.at(summed, ancestors, log_weights.astype(np.float64))
    return summed


def log_mean(log_weights: np.ndarray, samples: int | None = None) -> tuple[float, float, float]:
    """The log of the mean weight, its standard error by a bootstrap, and the effective number.

    Families that begin at the same sample (`samples` is as for `two_sides`) are one draw. Bootstrap
    draws without any weight, which are likely only with few families, are left out.
    """
    top = log_weights.max()
    if top == -np.inf:  # no chain has any weight
        return float("-inf"), float("nan"), 0.0
    origins = _origins(log_weights.size, samples)
    weights, sizes = np.bincount(origins, np.exp(log_weights - top)), np.bincount(origins)
    rows = np.random.default_rng(0).integers(0, weights.size, (RESAMPLES, weights.size))
    means = weights[rows].sum(axis=1) / sizes[rows].sum(axis=1)
    resampled = np.log(means[means > 0])
    effective = weights.sum() ** 2 / (weights**2).sum()
    mean = weights.sum() / log_weights.size
    return float(top + np.log(mean)), float(resampled.std(ddof=1)), float(effective)
