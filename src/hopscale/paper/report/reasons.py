"""Why a cell is outside the criterion, as far as the numbers tell."""

import math

from hopscale.paper.views import chance
from hopscale.paper.views.comparison import Entry
from hopscale.paper.words import percent

FEW = 100  # effective draws, below which the estimator is far from linear in the chain's length
FAR = 3.0  # standard deviations that chance explains


UNEXPLAINED = "Not explained by chance"


def reason(entry: Entry) -> str:
    """One sentence."""
    assert entry.ours is not None
    return _of_ess(entry) if entry.metric == "ess" else _of_ejd(entry)


def explained(entry: Entry) -> bool:
    """Whether there is a reason."""
    return not reason(entry).startswith(UNEXPLAINED)


def _of_ess(entry: Entry) -> str:
    assert entry.measured is not None
    assert entry.ours is not None
    ours, printed = entry.measured.mean * entry.draws, entry.printed or math.nan
    if min(ours, printed) < FEW:
        return (
            f"A slow chain: {ours:.0f} effective draws of {entry.draws:,} here, {printed:.0f} "
            "printed. Cut at the first negative lag, a short chain counts for more than it is."
        )
    return _by_chance(entry, math.sqrt(2.0) * entry.ours.error / entry.ours.mean, "")


def _of_ejd(entry: Entry) -> str:
    assert entry.ours is not None
    model, size, config = entry.column
    chance_of_run = entry.ours.error / entry.ours.mean
    if model == "bernoulli":
        draw = chance.predicted(size, config, entry.method)
        return _by_chance(entry, math.hypot(draw, chance_of_run), "one draw of p")
    if not math.isnan(entry.ours.spread):
        what = "the draw of the field" if model == "ising" else "the draw of W, b and the series"
        return _by_chance(entry, math.hypot(entry.ours.spread, chance_of_run), what)
    if entry.r_hat > 1.1:
        return f"The chains are too short here: R-hat is {entry.r_hat:.2f}."
    if model == "fhmm":
        return "The weights are not given; one |W|^2 was fitted to all columns."
    return _by_chance(entry, chance_of_run, "")


def _by_chance(entry: Entry, deviation: float, what: str) -> str:
    """How many standard deviations, and of what."""
    assert entry.ours is not None
    assert entry.paper is not None
    rounding = chance.ROUNDING / entry.paper if entry.metric == "ejd" else 0.0
    z = (entry.paper / entry.ours.mean - 1.0) / math.hypot(deviation, rounding)
    source = f"{what} moves it by {percent(deviation)}" if what else "Monte Carlo error alone"
    if abs(z) <= FAR:
        return f"Within chance: {source}, and the printed number is z = {z:+.1f} away."
    return f"{UNEXPLAINED}: {source}, and the printed number is z = {z:+.1f} away."
