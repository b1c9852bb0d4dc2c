"""Table 2: the least numbers of steps to train deep EBMs, as far as the store tells."""

from typing import NamedTuple

from hopscale.paper import ebm
from hopscale.paper.least import COLUMNS, PROFILES, Least, Search, settings
from hopscale.paper.views.book import Book

PROFILE = {"quick": "quick", "paper": "full"}


class Steps(NamedTuple):
    """One cell: ours, None if nothing is known of it, and the paper's."""

    data: str
    column: str
    ours: Least | None
    paper: int | None


def steps(book: Book) -> list[Steps]:
    """Data sets of the profile, then those that only the paper has."""
    profile = PROFILES[PROFILE[book.profile]]
    search = Search(profile, lambda model: book.get(settings(profile, model)))
    printed = ebm.paper()
    names = dict.fromkeys([*profile.data, *(data for data, _ in printed)])
    return [
        Steps(
            data=data,
            column=column,
            ours=search.least(data, column) if data in profile.data else None,
            paper=printed.get((data, column)),
        )
        for data in names
        for column in COLUMNS
    ]
