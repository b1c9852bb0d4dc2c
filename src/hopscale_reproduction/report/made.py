"""How the report was made: machines, versions, time."""

from collections import Counter

from hopscale_reproduction.experiments import EXPERIMENTS, named
from hopscale_reproduction.report.blocks import Block, Bullets, Grid, Section, Text
from hopscale_reproduction.views.book import Book


def section(book: Book) -> Section:
    runs = [row for row in book.rows if row["kind"] == "run"]
    seconds = sum(row["results"].get("seconds", 0.0) for row in book.rows)
    blocks: list[Block] = [
        Text(
            f"The store has {len(book.rows):,} cells: {len(runs):,} runs of samplers, "
            f"{duration(seconds)} of running time together, compilation apart. This report is the "
            f"`{book.profile}` profile's; cells of other profiles in the same store are not shown."
        ),
        _coverage(book),
        Bullets(_origins(book)),
        Text(
            f"To make it again: `{_command(book)}`. A cell is known by "
            "all its settings, its seed among them; what is in the store is not run again. "
            "Next to this page, `results.sqlite` has every cell with settings, results, versions "
            "and hardware, and `figures/` every figure as PNG and SVG; `hopscale results export` "
            "writes the cells as a table."
        ),
    ]
    return Section("made", "How this was made", blocks)


def _command(book: Book) -> str:
    """What runs all that is shown here."""
    usual = {experiment.name for experiment in named(["default"])}
    more = any(book.found(e.name) for e in EXPERIMENTS if e.name not in usual)
    more = more or any(row["kind"] == "ebm" for row in book.rows)
    return f"hopscale reproduce{' all' if more else ''} --profile {book.profile}"


def _coverage(book: Book) -> Grid:
    rows = []
    for experiment in EXPERIMENTS:
        cells, found = len(book.cells(experiment.name)), len(book.found(experiment.name))
        if cells:
            rows.append([experiment.title, f"{found:,}", f"{cells:,}"])
    return Grid("Cells of this profile.", ["experiment", "run", "listed so far"], rows)


def _origins(book: Book) -> list[str]:
    machines = Counter(row["hardware"] for row in book.rows)
    versions = Counter(
        ", ".join(f"{name} {number}" for name, number in row["versions"].items())
        for row in book.rows
    )
    days = sorted(row["created"][:10] for row in book.rows)
    items = [f"{name}: {n:,} cells" for name, n in machines.most_common()]
    items += [f"{text}: {n:,} cells" for text, n in versions.most_common()]
    if days:
        items.append(
            f"Stored {days[0]}" if days[0] == days[-1] else f"Stored {days[0]} to {days[-1]}"
        )
    return items or ["No cell was run yet."]


def duration(seconds: float) -> str:
    """In the unit that reads best."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
