r"""What can go wrong while a model learns, defined by numbers.

The gap of an iteration is mean f(data) - mean f(samples).

- A **crisis** begins when the mean of |gap| over the last 10 iterations exceeds `PCD.crisis` nats
  (100). It is over when the mean over the last 100 is below half of that. Training continues
  through it. In a healthy full-size model the mean is about 10, with single gaps up to 100.
- **Divergence** is a number that is not finite, |gap| beyond `PCD.limit` (2^24, where single
  precision cannot tell energies apart that differ by one nat), or a crisis that is not over after
  `PCD.patience` iterations (5,000; at least 100, because no crisis is over sooner).
- **Collapse** is, over the last 1,000 iterations, a mean acceptance below 0.01 (the chains are
  frozen) or a mean variety below 0.05 (the samples are alike). Variety is the mean number of sites
  in which two samples of a batch differ, divided by that of two states of the data.

All this is judged from the record of training, iteration by iteration, so it does not depend on
chunks and survives a resume.
"""

import collections
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

RECORDED = ("gap", "energy_data", "energy_samples", "acceptance", "scale", "gradient", "variety")
GAP, ACCEPTANCE, GRADIENT, VARIETY = (
    RECORDED.index(name) for name in ("gap", "acceptance", "gradient", "variety")
)

OPENING_ITERATIONS = 10
CLOSING_ITERATIONS = 100
CLOSED_SHARE = 0.5
COLLAPSE_ITERATIONS = 1_000
FROZEN_ACCEPTANCE = 0.01
ALIKE_VARIETY = 0.05

COLLAPSED = ("frozen", "alike")


class TrainingError(ArithmeticError):
    """Training failed.

    Attributes:
        reason: "not finite", "beyond the limit", "crisis not over" (a `DivergedError`), "frozen"
            or "alike" (a `CollapsedError`).
        iteration: the iteration at which that was found.
        history: by iteration up to that one, as `Trained.history`.
        crises: as `Trained.crises`.
    """

    def __init__(self, message, reason="", iteration=0, history=None, crises=()):
        super().__init__(message)
        self.reason, self.iteration = reason, iteration
        self.history, self.crises = history, crises


class DivergedError(TrainingError):
    """Numbers that are not finite or beyond the limit, or a crisis that does not end."""


class CollapsedError(TrainingError):
    """Chains that are frozen, or samples that are alike."""


class Crisis(NamedTuple):
    """A stretch of iterations in which the gap was open; `end` is None if it still is.

    `deepest` is the largest |gap| of it, including the iterations whose mean opened it.
    """

    begin: int
    end: int | None
    deepest: float

    def __str__(self) -> str:
        end = "on" if self.end is None else f"{self.end:,}"
        return f"iterations {self.begin:,} to {end}, |gap| up to {self.deepest:.3g}"


class Trouble(NamedTuple):
    """Why training cannot continue, and the iteration at which that was found."""

    reason: str
    iteration: int
    text: str

    @property
    def error(self) -> type[TrainingError]:
        return CollapsedError if self.reason in COLLAPSED else DivergedError


class Health:
    """Reads the record of training, row by row, and reports when something is wrong.

    Args:
        crisis, limit, patience: as for `PCD`.
    """

    def __init__(self, crisis: float, limit: float, patience: int):
        self.opens, self.limit, self.patience = crisis, limit, patience
        self.iteration = 0
        self.crises: list[Crisis] = []
        self._gaps = collections.deque(maxlen=CLOSING_ITERATIONS)
        self._chains = collections.deque(maxlen=COLLAPSE_ITERATIONS)
        self._chain_sums = np.zeros(2)

    @property
    def in_crisis(self) -> bool:
        return bool(self.crises) and self.crises[-1].end is None

    def read(self, rows: Iterable[np.ndarray]) -> Trouble | None:
        """Read rows of iterations; return the first trouble in them, if there is any."""
        for row in rows:
            self.iteration += 1
            gap = abs(float(row[GAP]))
            found = self._numbers(gap, float(row[GRADIENT])) or self._crisis(gap)
            found = found or self._collapse(float(row[ACCEPTANCE]), float(row[VARIETY]))
            if found:
                return found
        return None

    def _numbers(self, gap: float, gradient: float) -> Trouble | None:
        finite = np.isfinite(gap) and np.isfinite(gradient)
        if finite and gap <= self.limit:
            return None
        return self._trouble(
            "beyond the limit" if finite else "not finite",
            f"the gap of the energies is {gap:.4g} (the limit is {self.limit:g}), the norm of the "
            f"gradient {gradient:.4g}",
        )

    def _crisis(self, gap: float) -> Trouble | None:
        self._gaps.append(gap)
        if not self.in_crisis:
            if self._mean(OPENING_ITERATIONS) > self.opens:
                deepest = max(self._last(OPENING_ITERATIONS))
                self.crises.append(Crisis(begin=self.iteration, end=None, deepest=deepest))
            return None
        now = self.crises[-1]
        now = now._replace(deepest=max(now.deepest, gap))
        lasted = self.iteration - now.begin
        closed = self._mean(CLOSING_ITERATIONS) < CLOSED_SHARE * self.opens
        if closed and lasted >= CLOSING_ITERATIONS:
            now = now._replace(end=self.iteration)
        self.crises[-1] = now
        if now.end is None and lasted >= self.patience:
            return self._trouble(
                "crisis not over",
                f"the gap opened at iteration {now.begin:,} and has not closed since; it is "
                f"{gap:.4g}, and was up to {now.deepest:.4g}",
            )
        return None

    def _mean(self, iterations: int) -> float:
        """The mean of |gap| over the last iterations; 0 if there are fewer."""
        if len(self._gaps) < iterations:
            return 0.0
        return float(np.mean(self._last(iterations)))

    def _last(self, iterations: int) -> list[float]:
        return list(self._gaps)[-iterations:]

    def _collapse(self, *chain: float) -> Trouble | None:
        """Take the acceptance and the variety of an iteration, and check for collapse."""
        values = np.asarray(chain)
        self._chain_sums += values
        if len(self._chains) == COLLAPSE_ITERATIONS:
            self._chain_sums -= self._chains[0]
        self._chains.append(values)
        if len(self._chains) < COLLAPSE_ITERATIONS:
            return None
        acceptance, variety = self._chain_sums / COLLAPSE_ITERATIONS
        lately = f"in the last {COLLAPSE_ITERATIONS:,} iterations"
        if acceptance < FROZEN_ACCEPTANCE:
            return self._trouble("frozen", f"{lately} {acceptance:.2g} of the steps were accepted")
        if variety < ALIKE_VARIETY:
            text = f"{lately} samples differed by {variety:.2g} of what data differ by"
            return self._trouble("alike", text)
        return None

    def _trouble(self, reason: str, text: str) -> Trouble:
        return Trouble(reason=reason, iteration=self.iteration, text=text)
