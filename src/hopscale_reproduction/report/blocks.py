"""The parts of a report, independent of the output format."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hopscale_reproduction.chart import Chart


class Text(NamedTuple):
    """A paragraph. `code` in backticks, exponents as ^(2/3)."""

    text: str


class Bullets(NamedTuple):
    items: list[str]


class Claim(NamedTuple):
    """A claim of the paper, and what was found.

    `status` is "yes", "partly", "no", "too short" if the runs cannot decide it, or "not run".
    """

    name: str
    claim: str
    found: str
    status: str

    @classmethod
    def unanswered(cls, name: str, claim: str, begun: bool, why: str = "") -> "Claim":
        """One that nothing was run for or, where runs were begun, that these cannot decide."""
        return cls(name, claim, why, "too short") if begun else cls(name, claim, "", "not run")


class Claims(NamedTuple):
    items: list[Claim]


class Stack(NamedTuple):
    """A cell that compares our value, above, with the paper's and the ratio, below."""

    top: str
    bottom: str
    mark: str  # "within", "high", "low", "not run" or "unjudged"
    detail: str = ""


Content = str | Stack


class Grid(NamedTuple):
    """A table. `groups` are heads over several columns: (name, number of columns)."""

    caption: str
    heads: list[str]
    rows: Sequence[Sequence[Content]]  # empty if nothing was run
    groups: tuple[tuple[str, int], ...] = ()
    rules: tuple[int, ...] = ()  # rows with a line above


class Picture(NamedTuple):
    chart: Chart
    caption: str


class Image(NamedTuple):
    """A picture in a file, which is drawn if it does not exist."""

    path: Path
    caption: str
    draw: Callable[[], bytes] | None = None


class Fold(NamedTuple):
    """Blocks that are hidden until the reader opens their summary line."""

    summary: str
    blocks: list["Block"]


class Head(NamedTuple):
    """A heading inside a section, with a name to link to."""

    name: str
    title: str


Block = Text | Bullets | Claims | Grid | Picture | Image | Fold | Head


class Section(NamedTuple):
    name: str
    title: str
    blocks: list[Block]


class Report(NamedTuple):
    """A whole report."""

    title: str
    facts: list[str]  # below the title
    sections: list[Section]

    def pictures(self) -> list[Picture]:
        """All pictures, folded ones too."""
        return [block for block in self._blocks() if isinstance(block, Picture)]

    def images(self) -> list[Image]:
        """All images, folded ones too."""
        return [block for block in self._blocks() if isinstance(block, Image)]

    def _blocks(self) -> Iterator[Block]:
        for section in self.sections:
            yield from _unfolded(section.blocks)


def _unfolded(blocks: list[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from _unfolded(block.blocks)
