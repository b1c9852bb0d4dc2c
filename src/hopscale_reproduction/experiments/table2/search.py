r"""Table 2: how few Metropolis-Hastings steps per iteration suffice to train a deep EBM.

The paper trains until models are "in same good quality" and does not say how that was judged.
Here a number of steps suffices if, with every seed of the profile,

- training neither diverges nor collapses (`hopscale.learn.health` defines both; a crisis that ends
  is neither), and
- the log-likelihood of the validation data, $\log \tilde\pi(x) - \log Z$ with log Z by annealed
  importance sampling from two sides, is at most `margin` nats per image below the reference.

The reference is the mean over seeds of adaptive LBP with g = sqrt(t) and enough steps (10 for
digits; 15, the paper's own number, for 28 x 28). What is reported rests on the seeds that were
trained so far, and says so where some are missing. All samplers of a data set have the same
reference. The margin is 0.3 nats for 8 x 8 images, several times the spread between seeds, and
5 nats for 28 x 28, where log Z is known no better. A cell is marked `~` if the errors of log Z,
including the reference's, leave the verdict open, or if its two sides do not agree.

Numbers are tried from the smallest up, each with new models, because a model with few steps costs
least. A number that suffices counts only if the next larger one suffices too. Nothing is assumed
about numbers that were not tried.
"""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hopscale_reproduction.experiment import Find, Results
from hopscale_reproduction.experiments.table2.cells import (
    COLUMNS,
    REFERENCE,
    Profile,
    TrainingCell,
    references,
)

AHEAD = 2  # models of a sampler to offer at a time


class NoReferenceError(ArithmeticError):
    """The reference of a data set diverged."""


class Sufficiency(NamedTuple):
    """Whether a number of steps suffices, whether that is sure, and with how many seeds.

    `seeds` is None where all seeds were trained, or where one that fails decides.
    """

    enough: bool
    sure: bool
    seeds: int | None = None


class FewestSteps(NamedTuple):
    """The smallest number of steps that suffices; None if none of those tried does.

    `above` is the number up to which all were tried and none suffices; 0 if the first one does.
    `seeds` is with how many seeds it was tried, None if with all of the profile's.
    """

    steps: int | None
    sure: bool
    above: int
    seeds: int | None = None

    def __str__(self) -> str:
        text = f"> {self.above}" if self.steps is None else str(self.steps)
        text = text if self.sure else f"~{text}"
        if self.seeds is None:
            return text
        return f"{text} ({self.seeds} seed{'s' if self.seeds > 1 else ''})"


class Search:
    """What is known about the smallest numbers of steps, and what to run to know more.

    Args:
        profile: the numbers to try, and the margin below the reference.
        find: the results of a model; None if it was not trained.
    """

    def __init__(self, profile: Profile, find: Find):
        self.profile, self.find = profile, find

    def models(self, data: str, column: str, steps: int) -> list[TrainingCell]:
        """The models of one number of steps, one per seed."""
        return [
            TrainingCell(self.profile, data, column, steps, seed) for seed in self.profile.seeds
        ]

    def fewest(self, data: str, column: str) -> FewestSteps | None:
        """The smallest number that suffices, as far as it is known; None if nothing is known.

        Without a reference, the only thing that can be known about a number is that it diverges.
        """
        counts = self.profile.counts
        above = 0
        for steps, following in itertools.zip_longest(counts, counts[1:]):
            judged = self._judge(data, column, steps, partly=True)
            if judged is None:
                break
            if judged.enough:
                confirmed = judged
                if following:
                    confirmed = self._judge(data, column, following, partly=True)
                if confirmed is None:
                    break
                if confirmed.enough:
                    sure = judged.sure and confirmed.sure and self._sure(data, column, above)
                    return FewestSteps(steps, sure, above, judged.seeds)
            above = steps
        return FewestSteps(None, self._sure(data, column, above), above) if above else None

    def wanted(self, data: str) -> list[TrainingCell]:
        """Models that were not run, those that are needed soonest first; empty at the end.

        The first model of each sampler is followed by the one needed if the first does not
        suffice, so that more processes than samplers have work.

        Raises:
            NoReferenceError: the reference diverged, so there is nothing to compare with.
        """
        self.reference(data)
        first = [model for model in references(self.profile, data) if self.find(model) is None]
        columns = [itertools.islice(self._needed(data, column), AHEAD) for column in COLUMNS]
        turns = itertools.chain.from_iterable(itertools.zip_longest(*columns))
        return list(dict.fromkeys([*first, *(model for model in turns if model is not None)]))

    def reference(self, data: str, partly: bool = False) -> float | None:
        """The log-likelihood of the reference; None if its models are not all trained yet.

        `partly` takes the mean over those that are, and gives None if none is.
        """
        results = [result for _, result in self._known(references(self.profile, data))]
        if any(result["diverged"] for result in results):
            raise NoReferenceError(
                f"on {data}, {REFERENCE} with {self.profile.reference} steps diverged at a "
                f"learning rate of {self.profile.learning_rate:g}: there is no reference to judge "
                "by."
            )
        if not results or (len(results) < len(self.profile.seeds) and not partly):
            return None
        return float(np.mean([result["log_likelihood"] for result in results]))

    def _reference_error(self, data: str) -> float:
        """The standard error of a reference that is known."""
        known = self._known(references(self.profile, data))
        return float(np.linalg.norm([result["error"] for _, result in known])) / len(known)

    def _known(self, models: list[TrainingCell]) -> list[tuple[TrainingCell, Results]]:
        """The models that were trained, with their results."""
        found = ((model, self.find(model)) for model in models)
        return [(model, result) for model, result in found if result is not None]

    def _needed(self, data: str, column: str) -> Iterator[TrainingCell]:
        """Models to run, from the smallest number up until one suffices and the next is known."""
        before = False
        for steps in self.profile.counts:
            judged = self._judge(data, column, steps)
            models = self.models(data, column, steps)
            if judged is None:
                yield from (model for model in models if self.find(model) is None)
            if before and (judged is None or judged.enough):
                return
            before = judged is not None and judged.enough

    def _judge(
        self, data: str, column: str, steps: int, partly: bool = False
    ) -> Sufficiency | None:
        """Whether this number of steps suffices with every seed; None if it is not known yet.

        One that does not suffice decides. `partly` asks for all that were trained, at least one.
        """
        models = self.models(data, column, steps)
        known = self._known(models)
        if any(result["diverged"] for _, result in known):
            return Sufficiency(enough=False, sure=True)
        if not known:
            return None
        try:
            level = self.reference(data, partly)
        except NoReferenceError:
            level = None
        if level is None:
            return None
        compared = self._known(references(self.profile, data))
        sure = all(result["measured"] for _, result in compared)
        for _, result in known:
            above = result["log_likelihood"] - level + self.profile.margin
            error = math.hypot(result["error"], self._reference_error(data))
            sure = sure and result["measured"] and abs(above) > 2 * error
            if not above >= 0:  # or not a number
                return Sufficiency(enough=False, sure=sure)
        fewest = min(len(known), len(compared))
        if fewest == len(models):
            return Sufficiency(enough=True, sure=sure)
        return Sufficiency(enough=True, sure=sure, seeds=fewest) if partly else None

    def _sure(self, data: str, column: str, steps: int) -> bool:
        """Whether the verdict on a number of steps is sure; that 0 steps are too few is sure."""
        judged = self._judge(data, column, steps, partly=True) if steps else None
        return judged is None or judged.sure
