"""What an experiment is: what to run, what to make of it, and what the report says of it."""

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hopscale_reproduction.cells import AnyCell, Cell
from hopscale_reproduction.report.blocks import Block, Claim

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hopscale_reproduction.snapshot import Snapshot

Results = dict[str, Any]
Find = Callable[[Any], Results | None]

PROFILES = ("quick", "paper")
SLOW = {"quick": (), "paper": ("rbm", "table2")}  # what has to be asked for, by profile


class Part(NamedTuple):
    """Blocks that an experiment adds to a section of the report.

    `report/outline.py` has the order of sections and of their parts. A section that is not named
    there takes its title from its first part.
    """

    section: str
    name: str
    blocks: "Callable[[Snapshot], list[Block]]"
    title: str = ""


class Context(NamedTuple):
    """What a procedure may use besides its cell."""

    folder: Path  # of the store: files that belong to results go here
    data_dir: Path | None
    seconds_left: Callable[[], float]  # infinite without a limit
    say: Callable[[str], None]  # a line for whoever watches


class OutOfTimeError(Exception):
    """A procedure ends unfinished, with what it has on the disk; it can go on another time."""


class Procedure(Protocol):
    """How cells are run that are not runs of a sampler: one at a time."""

    def run(self, cell: Any, context: Context) -> Results:
        """The results of a cell.

        Raises:
            OutOfTimeError: `context.seconds_left` came to an end.
            KeyboardInterrupt: Ctrl-C.
        """
        ...

    def stored(self, cell: Any, results: Results, context: Context) -> None:
        """Called when the results are in the store: to clean up, or to tell."""
        ...


def _no_problems(profile: str, find: Find) -> list[str]:
    return []


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment.

    Args:
        name: on the command line.
        title: in progress bars and reports.
        cells: `cells(profile, find)` lists the cells of a profile. Some follow from others (a grid
            of rates starts at a measured one): `find` looks up what is there, and the list is asked
            for again until nothing in it is left to run.
        cell_type: of its cells.
        procedure: how a cell is run; None for runs of samplers, which go in batches.
        parts: what the report says. A part that several experiments share appears once.
        claims: of the paper, judged by a snapshot; shared ones appear once.
        summary: a table to print when it was run.
        problems: what keeps results from being judged, in sentences.
    """

    name: str
    title: str
    cells: Callable[[str, Find], Iterable[AnyCell]]
    cell_type: type[AnyCell] = Cell
    procedure: Procedure | None = None
    parts: tuple[Part, ...] = ()
    claims: "tuple[Callable[[Snapshot], Claim], ...]" = ()
    summary: "Callable[[str, Find], RenderableType] | None" = None
    problems: Callable[[str, Find], list[str]] = _no_problems
