"""How the report was made: machines, versions, time."""

from collections import Counter

from hopscale_reproduction.experiment import SLOW
from hopscale_reproduction.report.blocks import Block, Bullets, Grid, Section, Text
from hopscale_reproduction.snapshot import Snapshot


def section(snapshot: Snapshot) -> Section:
    runs = [row for row in snapshot.rows if row["kind"] == "run"]
    seconds = sum(row["results"].get("seconds", 0.0) for row in snapshot.rows)
    blocks: list[Block] = [
        Text(
            f"The store has {len(snapshot.rows):,} cells, of which {len(runs):,} are runs of "
            f"samplers. The total running time is {duration(seconds)}, without compiling samplers. "
            f"This report covers the `{snapshot.profile}` profile; cells of other profiles in the "
            "same store are not shown."
        ),
        _coverage(snapshot),
        Bullets(_origins(snapshot)),
        Text(
            f"To reproduce this report, run `{_command(snapshot)}`. A cell is identified by all "
            "its settings, including its seed; cells in the store are not run again. Next to this "
            "page, `results.sqlite` has every cell with settings, results, versions and hardware, "
            "and `figures/` has every figure as PNG and SVG. `hopscale results export` writes the "
            "cells as a table."
        ),
    ]
    return Section("provenance", "How this was made", blocks)


def _command(snapshot: Snapshot) -> str:
    """The command that runs everything shown here."""
    slow = any(snapshot.found(name) for name in SLOW[snapshot.profile])
    return f"hopscale reproduce{' all' if slow else ''} --profile {snapshot.profile}"


def _coverage(snapshot: Snapshot) -> Grid:
    rows = []
    for name, experiment in snapshot.experiments.items():
        cells, found = len(snapshot.cells(name)), len(snapshot.found(name))
        if cells:
            rows.append([experiment.title, f"{found:,}", f"{cells:,}"])
    return Grid("Cells of this profile.", ["experiment", "run", "listed so far"], rows)


def _origins(snapshot: Snapshot) -> list[str]:
    machines = Counter(row["hardware"] for row in snapshot.rows)
    versions = Counter(
        ", ".join(f"{name} {number}" for name, number in row["versions"].items())
        for row in snapshot.rows
    )
    days = sorted(row["created"][:10] for row in snapshot.rows)
    items = [f"{name}: {n:,} cells" for name, n in machines.most_common()]
    items += [f"{text}: {n:,} cells" for text, n in versions.most_common()]
    if days:
        items.append(
            f"Stored {days[0]}" if days[0] == days[-1] else f"Stored {days[0]} to {days[-1]}"
        )
    return items or ["No cell was run yet."]


def duration(seconds: float) -> str:
    """A duration in the most readable unit."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
