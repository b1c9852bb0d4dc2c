"""Results as short tables."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console, ConsoleOptions, Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def table(title: str, rows: Iterable[tuple[str, str]], note: str = "") -> Group:
    """Names and values below a title, and a note below them."""
    shown = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    for name, value in rows:
        shown.add_row(name, value)
    # Not the table's own title, which rich wraps at the width of the table.
    return Group(Text(title, style="italic"), shown, *([Text(note)] if note else []))


class Columns(NamedTuple):
    """Columns by name, the most important first: names of rows, then numbers.

    Where the screen is too narrow, the last columns are left out.
    """

    cells: Mapping[str, Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        tables = [self._first(count) for count in range(len(self.cells), 1, -1)]
        endless = options.update(max_width=10**6)
        least = [Measurement.get(console, endless, table).minimum for table in tables]
        fitting = (t for t, width in zip(tables, least, strict=True) if width <= options.max_width)
        yield next(fitting, tables[-1])

    def _first(self, count: int) -> Table:
        """A table of the first columns."""
        found = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
        (rows, names), *numbers = list(self.cells.items())[:count]
        found.add_column(rows, overflow="fold")
        for name, cells in numbers:
            found.add_column(name, justify="right", min_width=max(map(len, (name, *cells))))
        for row in zip(names, *(cells for _, cells in numbers), strict=True):
            found.add_row(*row)
        return found


def text(shown: Group) -> str:
    """A table as text without colours, 88 characters wide."""
    out = io.StringIO()
    Console(file=out, width=88).print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def html(shown: Any) -> str:
    """Anything that rich can show as HTML for a notebook."""
    out = Console(file=io.StringIO(), width=100, record=True, force_jupyter=False)
    out.print(shown)
    style = "line-height: 1.25; white-space: pre; overflow-x: auto"
    return out.export_html(inline_styles=True, code_format=f'<pre style="{style}">{{code}}</pre>')


def short(array: Any) -> str:
    """An array in one line."""
    found = np.asarray(array)
    if found.size <= 12:
        return " ".join(np.array2string(found, precision=4).split())
    return f"array of shape {found.shape}, from {found.min():.4g} to {found.max():.4g}"


def listed(names: Sequence[str]) -> str:
    """Names as part of a sentence: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
