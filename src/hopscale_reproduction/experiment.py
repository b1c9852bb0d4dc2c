"""What an experiment is: what to run, what to compute from it, and what the report shows."""

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
SLOW = {"quick": (), "paper": ("rbm", "table2")}  # run only if named, by profile


class Part(NamedTuple):
    """Blocks that an experiment adds to a section of the report.

    `report/outline.py` sets the order of sections and of their parts. A section that is not named
    there takes its title from its first part.
    """

    section: str
    name: str
    blocks: "Callable[[Snapshot], list[Block]]"
    title: str = ""


class Context(NamedTuple):
    """What a procedure may use besides its cell."""

    folder: Path  # that of the store, for files that belong to results
    data_dir: Path | None
    seconds_left: Callable[[], float]  # infinite without a limit
    say: Callable[[str], None]  # prints a line for the user


class OutOfTimeError(Exception):
    """A procedure stops before the end, with its progress on disk; it can be resumed later."""


class Procedure(Protocol):
    """How to run cells that are not runs of a sampler: one at a time."""

    def run(self, cell: Any, context: Context) -> Results:
        """The results of a cell.

        Raises:
            OutOfTimeError: `context.seconds_left` has run out.
            KeyboardInterrupt: Ctrl-C.
        """
        ...

    def stored(self, cell: Any, results: Results, context: Context) -> None:
        """Called when the results are in the store, to clean up or to print a message."""
        ...


def _no_problems(profile: str, find: Find) -> list[str]:
    return []


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment.

    Args:
        name: on the command line.
        title: in progress bars and reports.
        cells: `cells(profile, find)` lists the cells of a profile. Some depend on the results of
            others (a grid of rates starts at a measured one), which `find` looks up. The list is
            requested again until all of its cells have been run.
        cell_type: the type of its cells.
        procedure: how a cell is run; None for runs of samplers, which are run in batches.
        parts: what the report shows. A part that several experiments share appears once.
        claims: claims of the paper, judged from a snapshot; shared ones appear once.
        summary: a table to print after a run.
        problems: sentences that say why results cannot be judged.
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
