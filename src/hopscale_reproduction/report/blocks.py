"""What a report consists of, apart from how it is written down."""

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
    """Something the paper says, and what was found.

    `status` is "yes", "partly", "no", "too short" for runs that cannot tell, or "not run".
    """

    name: str
    claim: str
    found: str
    status: str


class Claims(NamedTuple):
    items: list[Claim]


class Stack(NamedTuple):
    """A cell that compares: ours above, the paper's and the ratio below."""

    top: str
    bottom: str
    mark: str  # "within", "high", "low", "not run" or "unjudged"
    detail: str = ""


Content = str | Stack


class Grid(NamedTuple):
    """A table. `groups` are heads over several columns: (name, how many)."""

    caption: str
    heads: list[str]
    rows: Sequence[Sequence[Content]]  # none: not run
    groups: tuple[tuple[str, int], ...] = ()
    rules: tuple[int, ...] = ()  # rows with a line above


class Picture(NamedTuple):
    chart: Chart
    caption: str


class Image(NamedTuple):
    """A picture that is a file, or is drawn where there is none."""

    path: Path
    caption: str
    draw: Callable[[], bytes] | None = None


class Fold(NamedTuple):
    """Blocks behind a line to open."""

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
    """All of a report."""

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
