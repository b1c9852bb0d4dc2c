"""A row of the store: one cell with its results, their origin and a checksum."""

import contextlib
import datetime
import functools
import hashlib
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hopscale_reproduction.cells import digest

FIELDS = ("kind", "settings", "results", "versions", "hardware", "created")  # of a row
PARTS = ("settings", "results", "versions")  # those that are JSON objects
COLUMNS = ("key", "kind", "settings", "seed", "results", "versions", "hardware", "created")
CHECKED = ("key", *FIELDS)  # columns that the checksum covers


class Row(dict):
    """A stored cell: `settings`, `results`, `versions`, and plain fields by name."""


class DamagedRowError(ValueError):
    """A row differs from what was written."""


def new_row(settings: dict[str, Any], results: dict[str, Any], kind: str = "run") -> Row:
    """A row of results that were computed now, on this machine."""
    return Row(
        kind=kind,
        settings=settings,
        results=results,
        versions=versions(),
        hardware=hardware(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def encode(row: Row) -> tuple[Any, ...]:
    """A row as stored in the table: `COLUMNS`, then the checksum."""
    texts = {
        "key": digest(row["settings"]),
        **{name: row[name] for name in FIELDS},
        "settings": json.dumps(row["settings"], sort_keys=True),
        "results": json.dumps(row["results"]),
        "versions": json.dumps(row["versions"]),
    }
    values = {**texts, "seed": row["settings"].get("seed")}
    checksum = checksum_of([texts[name].encode() for name in CHECKED])
    return (*(values[name] for name in COLUMNS), checksum)


def decode(columns: Sequence[bytes], checksum: str) -> Row:
    """A row from the bytes of the columns that the checksum covers.

    Raises:
        DamagedRowError: they differ from those that were written.
    """
    if checksum_of(columns) != checksum:
        raise DamagedRowError("its checksum does not fit")
    try:
        texts = dict(zip(CHECKED, (column.decode() for column in columns), strict=True))
        row = Row(
            {name: json.loads(texts[name]) if name in PARTS else texts[name] for name in FIELDS}
        )
    except ValueError as error:
        raise DamagedRowError(str(error)) from error
    if digest(row["settings"]) != texts["key"]:
        raise DamagedRowError("its key does not fit its settings")
    return row


def checksum_of(columns: Sequence[bytes]) -> str:
    """The checksum of all columns and their lengths."""
    hashed = hashlib.sha256()
    for column in columns:
        hashed.update(len(column).to_bytes(8, "big"))
        hashed.update(column)
    return hashed.hexdigest()


@functools.cache
def versions() -> dict[str, str]:
    """The versions of the software that computes the results."""
    import jax
    import numpy

    import hopscale

    return {
        "hopscale": hopscale.__version__,
        "jax": jax.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }


@functools.cache
def hardware() -> str:
    """The name of the device that computes the results."""
    import jax

    device = jax.devices()[0]
    if device.platform != "cpu":
        return str(device.device_kind)
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    """The processor's name, if the system reports it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
