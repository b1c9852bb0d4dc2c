"""Results as short tables."""

import io
from collections.abc import Iterable

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text


def table(title: str, rows: Iterable[tuple[str, str]], note: str = "") -> Group:
    """Names and values below a title, and a note below them."""
    shown = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_header=False,
        pad_edge=False,
    )
    for name, value in rows:
        shown.add_row(name, value)
    return Group(shown, *([Text(note)] if note else []))


def text(shown: Group) -> str:
    """What a table looks like without colours, 88 characters wide."""
    out = io.StringIO()
    Console(file=out, width=88).print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
