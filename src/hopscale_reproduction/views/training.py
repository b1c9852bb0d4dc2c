"""Table 2: models that were trained, and the least numbers of steps, as the store tells."""

from typing import NamedTuple

from hopscale_reproduction import ebm
from hopscale_reproduction.least import (
    COLUMNS,
    PROFILES,
    Least,
    Model,
    NoReferenceError,
    Search,
    settings,
)
from hopscale_reproduction.views.book import Book

PROFILE = {"quick": "quick", "paper": "full"}


class Steps(NamedTuple):
    """One cell: ours, None if nothing is known of it, and the paper's."""

    data: str
    column: str
    ours: Least | None
    paper: int | None


class Trained(NamedTuple):
    """One model and its validation log-likelihood, None if training diverged."""

    model: Model
    value: float | None
    error: float
    effective: float


def steps(book: Book) -> list[Steps]:
    """Data sets of the profile, then those that only the paper has."""
    search, printed = _search(book), ebm.paper()
    own = search.profile.data
    names = dict.fromkeys([*own, *(data for data, _ in printed)])
    return [
        Steps(
            data=data,
            column=column,
            ours=search.least(data, column) if data in own else None,
            paper=printed.get((data, column)),
        )
        for data in names
        for column in COLUMNS
    ]


def trained(book: Book) -> list[Trained]:
    """All models of the profile that were trained."""
    search = _search(book)
    profile = search.profile
    counts = sorted({*profile.counts, profile.reference})
    models = [
        Model(data, column, count, seed)
        for data in profile.data
        for column in COLUMNS
        for count in counts
        for seed in profile.seeds
    ]
    found = ((model, search.known(model)) for model in models)
    return [
        Trained(
            model,
            value=result.get("log_likelihood"),
            error=result.get("error", 0.0),
            effective=result.get("effective", 0.0),
        )
        for model, result in found
        if result is not None
    ]


def level(book: Book, data: str) -> float | None:
    """The least log-likelihood that suffices, if the reference is known."""
    search = _search(book)
    try:
        reference = search.reference(data)
    except NoReferenceError:
        return None
    return None if reference is None else reference - search.profile.margin


def most(book: Book) -> int:
    """The largest number of steps that is tried."""
    return _search(book).profile.counts[-1]


def problems(book: Book) -> list[str]:
    """What keeps a data set from being judged."""
    search, found = _search(book), []
    for data in search.profile.data:
        try:
            search.reference(data)
        except NoReferenceError as error:
            found.append(str(error))
    return found


def _search(book: Book) -> Search:
    profile = PROFILES[PROFILE[book.profile]]
    return Search(profile, lambda model: book.get(settings(profile, model)))
