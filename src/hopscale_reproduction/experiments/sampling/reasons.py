"""Why a cell is outside the criterion, as far as the numbers tell."""

import math

from hopscale_reproduction.criteria import ESS_TOLERANCE
from hopscale_reproduction.experiments import instances
from hopscale_reproduction.experiments.sampling.comparison import Entry
from hopscale_reproduction.formatting import percent
from hopscale_reproduction.snapshot import Snapshot

FEW = 100  # effective draws, below which their number does not grow as the length of the chain
FAR = 3.0  # standard deviations that chance explains
UNEXPLAINED = "Not explained by chance"
DRAWN = {
    "bernoulli": "over draws of p",
    "ising": "over draws of the field",
    "fhmm": "over draws of W, b and the series",
}


class Reasons:
    """Reasons for cells of a store."""

    def __init__(self, snapshot: Snapshot):
        self._spreads = snapshot.once(instances.spreads)

    def of(self, entry: Entry) -> str:
        """The reason, in words."""
        return _of_ess(entry) if entry.metric == "ess" else self._of_ejd(entry)

    def explained(self, entry: Entry) -> bool:
        """Whether there is a reason."""
        return not self.of(entry).startswith(UNEXPLAINED)

    def _of_ejd(self, entry: Entry) -> str:
        assert entry.ours is not None
        error = entry.ours.error / entry.ours.mean
        spread = instances.spread_at(self._spreads, entry.column, entry.method)
        spread = entry.ours.spread if math.isnan(spread) else spread
        if not math.isnan(spread):
            return _by_chance(entry, math.hypot(spread, error), DRAWN[entry.column.model])
        if entry.r_hat > 1.1:
            return f"The chains are too short here: R-hat is {entry.r_hat:.2f}."
        if entry.column.model == "fhmm":
            return f"{UNEXPLAINED}: W and b are not given, and one draw of them was run."
        return _by_chance(entry, error, "")


def _of_ess(entry: Entry) -> str:
    """Chance, or else the length of slow chains.

    If a chain is shorter than its autocorrelation time, its effective size hardly grows with its
    length, and its effective size per draw falls as one over its length. Chains of other lengths
    than the paper's can be off by as much as the lengths are, in that direction, and no more.
    """
    assert entry.measured is not None
    assert entry.ours is not None
    assert entry.paper is not None
    deviation = math.sqrt(2.0) * entry.ours.error / entry.ours.mean
    reason = _by_chance(entry, deviation, "")
    ours, printed = entry.measured.mean * entry.draws, entry.printed or math.nan
    if not reason.startswith(UNEXPLAINED) or min(ours, printed) >= FEW:
        return reason
    off, lengths = entry.paper / entry.ours.mean, entry.draws / entry.implied
    low, high = sorted((1.0, lengths))
    alike = high / low <= 1.0 + ESS_TOLERANCE
    if alike or not low * (1.0 - FAR * deviation) <= off <= high * (1.0 + FAR * deviation):
        return reason
    return (
        f"A slow chain: {ours:.0f} effective draws of {entry.draws:,} here, {printed:.0f} of about "
        f"{entry.implied:,.0f} in print. Summing autocorrelations up to the first negative one "
        "overestimates the effective size of a short chain."
    )


def _by_chance(entry: Entry, deviation: float, what: str) -> str:
    """By how many standard deviations, and of what, the numbers differ."""
    assert entry.ours is not None
    assert entry.paper is not None
    rounding = instances.ROUNDING / entry.paper if entry.metric == "ejd" else 0.0
    z = (entry.paper / entry.ours.mean - 1.0) / math.hypot(deviation, rounding)
    source = (
        f"{what}, the standard deviation is {percent(deviation)};"
        if what
        else "by Monte Carlo error alone,"
    )
    start = "Within chance" if abs(z) <= FAR else UNEXPLAINED
    return f"{start}: {source} the printed number has z = {z:+.1f}.".replace("-", "−")
