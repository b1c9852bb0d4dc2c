"""Table 2: the least numbers of steps to train deep EBMs, as far as the store tells."""

from typing import NamedTuple

from hopscale.paper import ebm
from hopscale.paper.least import COLUMNS, PROFILES, Least, Search, settings
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


def steps(book: Book) -> list[Steps]:
    """Data sets of the profile, then those that only the paper has."""
    profile = PROFILES[PROFILE[book.profile]]

    def told(data: str, column: str, steps: int, seed: int) -> Results:
        found = book.get(settings(profile, data, column, steps, seed))
        if found is None:
            raise _NotRun(f"{data}, {column}, {steps} steps")
        return found

    search = Search(profile, told)
    printed = ebm.paper()
    names = dict.fromkeys([*profile.data, *(data for data, _ in printed)])
    return [
        Steps(
            data=data,
            column=column,
            ours=_least(search, data, column) if data in profile.data else None,
            paper=printed.get((data, column)),
            most=profile.counts[-1],
        )
        for data in names
        for column in COLUMNS
    ]


def _least(search: Search, data: str, column: str) -> Least | None:
    try:
        return search.least(data, column)
    except (_NotRun, ArithmeticError):
        return None
