"""The trained models, and how few steps suffice: the numbers and the figure of Table 2."""

import functools
from typing import NamedTuple

from rich.table import Table

from hopscale_reproduction import printed
from hopscale_reproduction.chart import Chart, Mark, Panel, Point, Series
from hopscale_reproduction.experiment import Find, Results
from hopscale_reproduction.experiments.table2.cells import COLUMNS, PROFILES, Profile, TrainingCell
from hopscale_reproduction.experiments.table2.search import FewestSteps, NoReferenceError, Search
from hopscale_reproduction.snapshot import Snapshot

LOOKS = {
    "LBP_b-1": ("LBP-1, barker", "sky", "s"),
    "ALBP_b": ("ALBP, barker", "blue", "o"),
    "LBP_s-1": ("LBP-1, √t", "orange", "^"),
    "ALBP_s": ("ALBP, √t", "red", "D"),
}
LANE = 0.09  # distance between rows of models that diverged, in spans of the likelihoods


# Numbers


class Steps(NamedTuple):
    """One cell: ours, None if nothing is known about it, and the paper's."""

    data: str
    column: str
    ours: FewestSteps | None
    paper: int | None


class Trained(NamedTuple):
    """One model and its validation log-likelihood, None if training diverged."""

    cell: TrainingCell
    value: float | None
    error: float
    effective: float
    results: Results


@functools.cache
def paper() -> dict[tuple[str, str], int]:
    """The printed table: steps by data set and column."""
    return {
        (data, column): printed.steps(data, *method)
        for data in PROFILES["paper"].data
        for column, method in COLUMNS.items()
    }


def search_in(snapshot: Snapshot) -> Search:
    return Search(PROFILES[snapshot.profile], snapshot.find)


def steps(search: Search) -> list[Steps]:
    """All cells: the data sets of the profile, then those that only the paper has."""
    own = search.profile.data
    names = dict.fromkeys([*own, *(data for data, _ in paper())])
    return [
        Steps(
            data=data,
            column=column,
            ours=search.fewest(data, column) if data in own else None,
            paper=paper().get((data, column)),
        )
        for data in names
        for column in COLUMNS
    ]


def trained(search: Search) -> list[Trained]:
    """All models of the profile that were trained."""
    profile = search.profile
    found = (
        (cell, search.find(cell))
        for data in profile.data
        for column in COLUMNS
        for count in sorted({*profile.counts, profile.reference})
        for cell in search.models(data, column, count)
    )
    return [
        Trained(
            cell,
            value=result.get("log_likelihood"),
            error=result.get("error", 0.0),
            effective=result.get("effective", 0.0),
            results=result,
        )
        for cell, result in found
        if result is not None
    ]


def level(search: Search, data: str) -> float | None:
    """The lowest log-likelihood that suffices, if there is a reference."""
    try:
        reference = search.reference(data, partly=True)
    except NoReferenceError:
        return None
    return None if reference is None else reference - search.profile.margin


def problems(search: Search) -> list[str]:
    """Why data sets cannot be judged."""
    found = []
    for data in search.profile.data:
        try:
            search.reference(data)
        except NoReferenceError as error:
            found.append(str(error))
    return found


# Printed after a run


def summary(profile: Profile, find: Find) -> Table:
    """The table to print, ours above the paper's."""
    table = Table(title="Table 2: least number of steps an iteration")
    for name in ("data", "", *COLUMNS):
        table.add_column(name, justify="right" if name in COLUMNS else "left")
    found = steps(Search(profile, find))
    for data in dict.fromkeys(item.data for item in found):
        here = [item for item in found if item.data == data]
        if data in profile.data:
            ours = ["not run" if item.ours is None else str(item.ours) for item in here]
            table.add_row(data, "ours", *ours)
        if (data, here[0].column) in paper():
            table.add_row(data, "paper", *(str(item.paper) for item in here), style="dim")
    table.caption = (
        f"within {profile.margin:g} nats of the reference; ~: open, log Z is not known well enough"
    )
    return table


# Figure


def chart(snapshot: Snapshot) -> Chart:
    """One panel per data set: the result of each number of steps."""
    search = search_in(snapshot)
    models = trained(search)
    names = dict.fromkeys(one.cell.data for one in models if one.value is not None)
    panels = [
        _panel(data, level(search, data), [one for one in models if one.cell.data == data])
        for data in names
    ]
    title = "Validation log-likelihood against steps per iteration"
    return Chart("learning", title, panels, min(3, max(1, len(panels))), height=2.6)


def _panel(data: str, enough: float | None, models: list[Trained]) -> Panel:
    seen = [(one.value, one.error) for one in models if one.value is not None]
    values = [value + side * error for value, error in seen for side in (-1, 1)]
    marks = () if enough is None else (Mark("y", enough),)
    low = min([*values, *(mark.at for mark in marks)])
    span = max(max(values) - low, 1.0)
    series = []
    for lane, column in enumerate(COLUMNS, start=1):
        name, color, marker = LOOKS[column]
        own = [one for one in models if one.cell.column == column]
        points = [
            Point(one.cell.steps, one.value, one.error, note=_note(one))
            for one in own
            if one.value is not None
        ]
        bottom = low - (lane + 1) * LANE * span
        lost = [Point(one.cell.steps, bottom, note=_note(one)) for one in own if one.value is None]
        series.append(Series(name, points, color, marker))
        series.append(Series("" if points else name, lost, color, marker, hollow=True))
    return Panel(
        f"{data} (open: diverged)",
        "steps per iteration",
        "log-likelihood, nats",
        series,
        marks,
        log="x",
        zero=False,
    )


def _note(one: Trained) -> str:
    cell, outcome = one.cell, "diverged"
    if one.value is not None:
        outcome = f"{one.value:.2f} ± {one.error:.2f} nats, {one.effective:.0f} effective chains"
    return f"{LOOKS[cell.column][0]}, {cell.steps} steps, seed {cell.seed}: {outcome}"
