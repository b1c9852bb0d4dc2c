"""Table 2: the least numbers of steps to train deep EBMs, as far as the store tells."""

from typing import Any, NamedTuple

from hopscale.paper import ebm
from hopscale.paper.ebm import COLUMNS, PROFILES, Least, Table2
from hopscale.paper.views.book import Book, Results

PROFILE = {"quick": "quick", "paper": "full"}


class Steps(NamedTuple):
    """One cell: ours, None if its runs are not all there, and the paper's."""

    data: str
    column: str
    ours: Least | None
    paper: int | None
    most: int  # of the numbers that were tried


class _NotRun(Exception):
    """A run that is not in the store."""


class _Told(Table2):
    """The experiment, where nothing is trained."""

    def result(self, data: str, column: str, steps: int, seed: int) -> Results:
        found = self.store.get(self.settings(data, column, steps, seed))
        if found is None:
            raise _NotRun(f"{data}, {column}, {steps} steps")
        return found


class _Reader:
    """A book as a store that takes nothing."""

    def __init__(self, book: Book):
        self.get = book.get

    def put(self, settings: dict[str, Any], results: Results, kind: str) -> None:
        raise NotImplementedError("a report trains nothing")


def steps(book: Book) -> list[Steps]:
    """Data sets of the profile, then those that only the paper has."""
    profile = PROFILES[PROFILE[book.profile]]
    experiment = _Told(_Reader(book), profile)
    printed = ebm.paper()
    names = dict.fromkeys([*profile.data, *(data for data, _ in printed)])
    return [
        Steps(
            data=data,
            column=column,
            ours=_least(experiment, data, column) if data in profile.data else None,
            paper=printed.get((data, column)),
            most=profile.counts[-1],
        )
        for data in names
        for column in COLUMNS
    ]


def _least(experiment: Table2, data: str, column: str) -> Least | None:
    try:
        return experiment.least(data, column)
    except (_NotRun, ArithmeticError):
        return None
