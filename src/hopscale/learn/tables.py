"""Results as short tables."""

import io
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table


def table(title: str, rows: Iterable[tuple[str, str]], note: str = "") -> Table:
    """Names and values below a title."""
    result = Table(
        title=title,
        title_justify="left",
        caption=note or None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_header=False,
        pad_edge=False,
    )
    for name, value in rows:
        result.add_row(name, value)
    return result


def text(shown: Table) -> str:
    """What a table looks like without colours, 88 characters wide."""
    out = io.StringIO()
    Console(file=out, width=88).print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
