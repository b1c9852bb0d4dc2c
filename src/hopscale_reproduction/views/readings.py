"""Two readings of the paper, each beside the printed number; the fitted weights of the FHMM."""

import math
from typing import NamedTuple

from hopscale_reproduction import tables
from hopscale_reproduction.experiments import fit, readings
from hopscale_reproduction.experiments.readings import Reading
from hopscale_reproduction.views.book import Book, Value, metric
from hopscale_reproduction.views.names import Method


class Side(NamedTuple):
    """One reading's jump distance."""

    reading: Reading
    size: int
    config: str
    printed: float | None
    ours: Value | None

    @property
    def method(self) -> Method:
        return Method(*self.reading.method)

    @property
    def ratio(self) -> float | None:
        return None if self.ours is None or not self.printed else self.ours.mean / self.printed


def sides(book: Book) -> list[Side]:
    """Every reading in every configuration of the profile."""
    found = []
    for reading in readings.READINGS:
        for config in readings.configs(book.profile):
            cell = readings.cell(reading, book.profile, config)
            results = book.find(cell)
            printed = tables.value(reading.model, cell.size, config, *reading.method, "ejd")
            ours = None if results is None else Value(*metric(cell, results, "ejd"))
            found.append(Side(reading, cell.size, config, printed, ours))
    return found


class Verdict(NamedTuple):
    """A reading over all its cells: how far from the printed numbers, typically and at most."""

    question: str
    name: str
    behind: bool
    cells: int
    typical: float
    worst: float


def verdicts(sides: list[Side]) -> list[Verdict]:
    """One line a reading, of those that were run."""
    groups: dict[tuple[str, str, bool], list[float]] = {}
    for side in sides:
        if side.ratio is not None:
            where = (side.reading.question, side.reading.name, side.reading.behind)
            groups.setdefault(where, []).append(abs(math.log(side.ratio)))
    return [
        Verdict(*where, len(logs), math.exp(_rms(logs)) - 1.0, math.exp(max(logs)) - 1.0)
        for where, logs in groups.items()
    ]


def _rms(values: list[float]) -> float:
    return math.sqrt(sum(v * v for v in values) / len(values))


def misfit(book: Book) -> dict[float, float]:
    """|W|^2 and how far ours is from the printed FHMM numbers."""
    return fit.misfit(book.profile, book.find)
