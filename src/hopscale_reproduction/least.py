r"""Table 2: how few Metropolis-Hastings steps an iteration suffice to train a deep EBM.

The paper trains until models are "in same good quality" and does not say how that was judged.
Here a number of steps suffices if, with every seed of the profile,

- training does not diverge (`hopscale.learn.DivergedError`), and
- the log-likelihood of the validation data, $\log \tilde\pi(x) - \log Z$ with log Z by annealed
  importance sampling, is at most `margin` nats an image below the reference.

The reference is the mean over seeds of adaptive LBP with g = sqrt(t) and many steps: one for all
samplers of a data set. The margin is 0.3 nats for 8 x 8 images, several times the spread between
seeds, and 5 nats for 28 x 28, where log Z is known no better; a cell is marked `~` where the errors
of log Z, the reference's too, leave the verdict open, or log Z was not measured for want of
effective chains (`hopscale.learn.reliable`).

Numbers are tried from the smallest up, each with fresh models, because a model of few steps costs
least; one that suffices counts only if the next above it suffices too. Nothing is taken for
granted about those that were not tried.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
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
AHEAD = 2  # models of a sampler to offer at a time


@dataclasses.dataclass(frozen=True)
class Profile:
    """How large an experiment is.

    `counts` are the numbers of steps to choose from; `reference` is that of the reference.
    """

    data: tuple[str, ...]
    network: str
    channels: int
    iterations: int
    rate: float
    warmup: int
    average: float
    buffer: int
    precision: str
    counts: tuple[int, ...]
    reference: int
    seeds: tuple[int, ...]
    margin: float
    chains: int
    betas: int
    repeats: int
    resample: float


PROFILES = {
    "quick": Profile(
        data=("digits",),
        network="mlp",
        channels=64,
        iterations=2_000,
        rate=1e-3,
        warmup=200,
        average=0.99,
        buffer=10_000,
        precision="default",
        counts=(1, 2, 3, 4, 5, 6, 8, 10, 15, 20),
        reference=20,
        seeds=(0, 1),
        margin=0.3,
        chains=100,
        betas=1_000,
        repeats=2,
        resample=0.5,
    ),
    "full": Profile(
        data=("static-mnist", "dynamic-mnist", "omniglot", "caltech"),
        network="resnet",
        channels=64,
        iterations=2_000,
        rate=3e-4,
        warmup=300,
        average=0.998,
        buffer=2_000,
        precision="bfloat16",
        counts=(5, 10, 15, 20, 30, 40, 60, 80, 90, 100),
        reference=40,
        seeds=(0,),
        margin=5.0,
        chains=300,
        betas=4_000,
        repeats=3,
        resample=0.5,
    ),
}


class NoReferenceError(ArithmeticError):
    """The reference of a data set diverged."""


class Model(NamedTuple):
    """One model to train."""

    data: str
    column: str
    steps: int
    seed: int


class Verdict(NamedTuple):
    """Whether a number of steps suffices, and whether that is sure."""

    enough: bool
    sure: bool


class Least(NamedTuple):
    """The least number of steps that suffices; None if none of those tried does.

    `above` is the number up to which all were tried and do not suffice, 0 if the first one does.
    """

    steps: int | None
    sure: bool
    above: int

    def __str__(self) -> str:
        text = f"> {self.above}" if self.steps is None else str(self.steps)
        return text if self.sure else f"~{text}"


def settings(profile: Profile, model: Model) -> dict[str, Any]:
    """Everything that decides the result of one model."""
    balance, variant = COLUMNS[model.column]
    shared = dataclasses.asdict(profile)
    for name in ("data", "counts", "reference", "seeds", "margin"):
        del shared[name]
    own = {"data": model.data, "steps": model.steps, "seed": model.seed}
    return {"experiment": "ebm", **shared, **own, "balance": balance, "variant": variant}


class Search:
    """What is known of the least numbers, and what to run to know more.

    Args:
        profile: what to choose from, and how far from the reference is near enough.
        known: the results of a model; None if it was not run.
    """

    def __init__(self, profile: Profile, known: Callable[[Model], dict[str, Any] | None]):
        self.profile, self.known = profile, known

    def least(self, data: str, column: str) -> Least | None:
        """The least number that suffices, as far as it is known; None if nothing is.

        Where there is no reference, that a number diverges is all that can be known of it.
        """
        counts = self.profile.counts
        above = 0
        for steps, following in itertools.zip_longest(counts, counts[1:]):
            verdict = self._verdict(data, column, steps)
            if verdict is None:
                break
            if verdict.enough:
                confirmed = self._verdict(data, column, following) if following else verdict
                if confirmed is None:
                    break
                if confirmed.enough:
                    sure = verdict.sure and confirmed.sure and self._sure(data, column, above)
                    return Least(steps, sure, above)
            above = steps
        return Least(None, self._sure(data, column, above), above) if above else None

    def wanted(self, data: str) -> list[Model]:
        """Models that were not run, those that are needed soonest first; empty at the end.

        Behind the first of each sampler comes the one that will be needed unless it suffices, for
        more processes than samplers.

        Raises:
            NoReferenceError: the reference diverged, and there is nothing to compare with.
        """
        self.reference(data)
        first = [model for model in self._references(data) if self.known(model) is None]
        columns = [itertools.islice(self._needed(data, column), AHEAD) for column in COLUMNS]
        turns = itertools.chain.from_iterable(itertools.zip_longest(*columns))
        return list(dict.fromkeys([*first, *(model for model in turns if model is not None)]))

    def reference(self, data: str) -> float | None:
        """The log-likelihood that counts as good."""
        results = [self.known(model) for model in self._references(data)]
        if any(result is not None and result["diverged"] for result in results):
            raise NoReferenceError(
                f"on {data}, {REFERENCE} with {self.profile.reference} steps diverged at a rate of "
                f"{self.profile.rate:g}: there is no reference to judge by."
            )
        values = [result["log_likelihood"] for result in results if result is not None]
        return float(np.mean(values)) if len(values) == len(results) else None

    def _reference_error(self, data: str) -> float:
        """The standard error of a reference that is known."""
        results = [self.known(model) for model in self._references(data)]
        errors = [result["error"] for result in results if result is not None]
        return float(np.linalg.norm(errors)) / len(errors)

    def _references(self, data: str) -> list[Model]:
        steps = self.profile.reference
        return [Model(data, REFERENCE, steps, seed) for seed in self.profile.seeds]

    def _needed(self, data: str, column: str) -> Iterator[Model]:
        """Models from the smallest number up, until one that suffices and the next are known."""
        before = False
        for steps in self.profile.counts:
            verdict = self._verdict(data, column, steps)
            models = (Model(data, column, steps, seed) for seed in self.profile.seeds)
            if verdict is None:
                yield from (model for model in models if self.known(model) is None)
            if before and (verdict is None or verdict.enough):
                return
            before = verdict is not None and verdict.enough

    def _verdict(self, data: str, column: str, steps: int) -> Verdict | None:
        """Whether so many steps are enough with every seed; None if that is not known yet."""
        results = [self.known(Model(data, column, steps, seed)) for seed in self.profile.seeds]
        if any(result is not None and result["diverged"] for result in results):
            return Verdict(enough=False, sure=True)
        try:
            level = self.reference(data)
        except NoReferenceError:
            level = None
        if level is None:
            return None
        sure = all(self._measured(model) for model in self._references(data))
        for seed, result in zip(self.profile.seeds, results, strict=True):
            if result is None:
                return None
            above = result["log_likelihood"] - level + self.profile.margin
            sure = sure and self._measured(Model(data, column, steps, seed))
            sure = sure and abs(above) > 2 * math.hypot(
                result["error"], self._reference_error(data)
            )
            if not above >= 0:  # or not a number
                return Verdict(enough=False, sure=sure)
        return Verdict(enough=True, sure=sure)

    def _sure(self, data: str, column: str, steps: int) -> bool:
        """Whether the verdict on so many steps is sure; that none are too few is."""
        verdict = self._verdict(data, column, steps) if steps else None
        return verdict is None or verdict.sure

    def _measured(self, model: Model) -> bool:
        """Whether enough chains carry the estimate of log Z."""
        result = self.known(model)
        assert result is not None
        return reliable(result["effective"], self.profile.chains * self.profile.repeats)
