"""What a report consists of, apart from how it is written down."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hopscale_reproduction.charts import Chart


class Text(NamedTuple):
    """A paragraph. `code` in backticks, exponents as ^(2/3)."""

    text: str


class Bullets(NamedTuple):
    items: list[str]


class Claim(NamedTuple):
    """Something the paper says, and what was found: "yes", "partly", "no" or "not run"."""

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
    """A picture that is a file already."""

    path: Path
    caption: str


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
    """A whole report."""

    title: str
    facts: list[str]  # below the title
    sections: list[Section]

    def pictures(self) -> list[Picture]:
        """All pictures, folded ones too."""
        return [block for section in self.sections for block in _pictures(section.blocks)]


def _pictures(blocks: list[Block]) -> list[Picture]:
    found = []
    for block in blocks:
        if isinstance(block, Picture):
            found.append(block)
        elif isinstance(block, Fold):
            found += _pictures(block.blocks)
    return found
