r"""Table 2: how few Metropolis-Hastings steps an iteration suffice to train a deep EBM.

The paper trains until models are "in same good quality" and does not say how that was judged.
Here a number of steps suffices if, with every seed of the profile,

- training does not diverge (`hopscale.learn.DivergedError`), and
- the log-likelihood of the validation data, $\log \tilde\pi(x) - \log Z$ with log Z by annealed
  importance sampling, is at most `margin` nats an image below the reference.

The reference is the mean over seeds of adaptive LBP with g = sqrt(t) at the largest number of
steps of the profile: one for all samplers of a data set. The margin is 0.3 nats for 8 x 8 images
and 1 nat for 28 x 28, several times the spread between seeds; a cell is marked `~` where the error
of log Z leaves the verdict open, or log Z was not measured for want of effective chains
(`hopscale.learn.reliable`).

The least number is found by halving the list of numbers, which takes for granted that more steps
are no worse; the next number above it is run too, and where that fails the search goes on above.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hopscale.learn import reliable

COLUMNS = {
    "LBP_b-1": ("barker", "fixed-1"),
    "ALBP_b": ("barker", "adaptive"),
    "LBP_s-1": ("sqrt", "fixed-1"),
    "ALBP_s": ("sqrt", "adaptive"),
}
REFERENCE = "ALBP_s"


@dataclasses.dataclass(frozen=True)
class Profile:
    """How large an experiment is; `counts` are the numbers of steps to choose from."""

    data: tuple[str, ...]
    network: str
    channels: int
    iterations: int
    rate: float
    warmup: int
    average: float
    counts: tuple[int, ...]
    seeds: tuple[int, ...]
    margin: float
    chains: int
    betas: int
    repeats: int


PROFILES = {
    "quick": Profile(
        data=("digits",),
        network="mlp",
        channels=64,
        iterations=2_000,
        rate=1e-3,
        warmup=200,
        average=0.99,
        counts=(1, 2, 3, 4, 5, 6, 8, 10, 15, 20),
        seeds=(0, 1),
        margin=0.3,
        chains=100,
        betas=1_000,
        repeats=2,
    ),
    "full": Profile(
        data=("static-mnist", "dynamic-mnist", "omniglot", "caltech"),
        network="resnet",
        channels=64,
        iterations=20_000,
        rate=1e-4,
        warmup=2_000,
        average=0.999,
        counts=(5, 10, 15, 20, 30, 40, 60, 80, 90, 100),
        seeds=(0,),
        margin=1.0,
        chains=200,
        betas=5_000,
        repeats=3,
    ),
}


class Least(NamedTuple):
    """The least number of steps that suffices; None if none of the list does."""

    steps: int | None
    sure: bool


def settings(profile: Profile, data: str, column: str, steps: int, seed: int) -> dict[str, Any]:
    """Everything that decides the result of one model."""
    balance, variant = COLUMNS[column]
    shared = dataclasses.asdict(profile)
    for name in ("data", "counts", "seeds", "margin"):
        del shared[name]
    own = {"data": data, "balance": balance, "variant": variant, "steps": steps, "seed": seed}
    return {"experiment": "ebm", **shared, **own}


class Search:
    """The least number of steps, from results however they come.

    Args:
        profile: what to choose from, and how far from the reference is near enough.
        result: of one model, by data set, column, number of steps and seed.
    """

    def __init__(self, profile: Profile, result: Callable[[str, str, int, int], dict[str, Any]]):
        self.profile, self.result = profile, result

    def reference(self, data: str) -> float:
        """The log-likelihood that counts as good."""
        most = self.profile.counts[-1]
        values = [self.result(data, REFERENCE, most, seed) for seed in self.profile.seeds]
        if any(value["diverged"] for value in values):
            raise ArithmeticError(
                f"on {data}, {REFERENCE} with {most} steps diverged: there is no reference. Take a "
                "smaller rate."
            )
        return float(np.mean([value["log_likelihood"] for value in values]))

    def suffices(self, data: str, column: str, steps: int) -> tuple[bool, bool]:
        """Whether so many steps are enough with every seed, and whether that is sure."""
        most = self.profile.counts[-1]
        least = self.reference(data) - self.profile.margin
        sure = all(self._measured(data, REFERENCE, most, seed) for seed in self.profile.seeds)
        for seed in self.profile.seeds:
            result = self.result(data, column, steps, seed)
            if result["diverged"]:
                return False, True
            above = result["log_likelihood"] - least
            sure = sure and self._measured(data, column, steps, seed)
            sure = sure and abs(above) > 2 * result["error"]
            if above < 0:
                return False, sure
        return True, sure

    def _measured(self, data: str, column: str, steps: int, seed: int) -> bool:
        """Whether enough chains carry the estimate of log Z."""
        effective = self.result(data, column, steps, seed)["effective"]
        return reliable(effective, self.profile.chains * self.profile.repeats)

    def least(self, data: str, column: str) -> Least:
        """Halve the list of numbers, then make sure of the next above."""
        counts = self.profile.counts
        enough = functools.cache(lambda place: self.suffices(data, column, counts[place]))
        low, high = -1, len(counts) - 1
        if not enough(high)[0]:
            return Least(None, enough(high)[1])
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle)[0] else (middle, high)
        while high < len(counts) - 1 and not enough(high + 1)[0]:
            high = next(place for place in range(high + 2, len(counts)) if enough(place)[0])
        sure = enough(high)[1] and (high == 0 or enough(high - 1)[1])
        return Least(counts[high], sure)
