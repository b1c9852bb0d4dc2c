"""Results as files: CSV for people and spreadsheets, JSON for programs.

In CSV, the name of a column begins with the part of a cell that it belongs to: `settings.size`,
`results.ejd`. Values are JSON, except for plain text.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

from hopscale_reproduction.experiments import cell_types
from hopscale_reproduction.files import replacing
from hopscale_reproduction.rows import FIELDS, PARTS, Row
from hopscale_reproduction.store import Store


def write(store: Store, file: Path) -> int:
    """Write all cells; an existing file is replaced only when the new one is complete."""
    to_text, _ = _format(file)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"cannot write {file}: no folder {file.parent}.")
    rows = store.rows()
    with replacing(file) as out:
        out.write(to_text(rows).encode())
    return len(rows)


def read(store: Store, file: Path) -> int:
    """Add the cells of a file to a store; return how many were new.

    Raises:
        ValueError: a row is wrong; the message names the first one, and no cell is added.
    """
    return add(store, rows_in(file))


def add(store: Store, rows: list[Row]) -> int:
    """Add cells to a store; return how many were new."""
    before = len(store.rows())
    store.add_all(rows)
    return len(store.rows()) - before


def rows_in(file: Path) -> list[Row]:
    """The cells of a file.

    Raises:
        ValueError: a row is wrong; the message names the first one.
    """
    _, from_text = _format(file)
    try:
        found = from_text(file.read_bytes().decode("utf-8-sig"))  # spreadsheets write a BOM
        rows = [_checked(number, row) for number, row in enumerate(found, start=1)]
        if not rows:
            raise ValueError("there is no row in it")
    except (KeyError, TypeError, ValueError, AttributeError, csv.Error) as error:
        raise ValueError(
            f"{file} does not hold exported results: {error}. Nothing was added; give a file that "
            "`hopscale results export` has written."
        ) from error
    return rows


def _checked(number: int, row: dict[str, Any]) -> Row:
    """A row of a file; raises if a field is missing or cannot be valid."""
    try:
        for name in FIELDS:
            if name not in row:
                raise ValueError(f"{name} is missing")
            if not isinstance(row[name], dict if name in PARTS else str):
                raise ValueError(f"{name} is {row[name]!r}")
        cells = cell_types()
        if row["kind"] not in cells:
            raise ValueError(f"kind must be one of {', '.join(cells)}; it is {row['kind']!r}")
        cells[row["kind"]].check(row["settings"], row["results"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"in row {number}, {error}") from error
    return Row({name: row[name] for name in FIELDS})


def _format(file: Path):
    formats = {".csv": (_to_csv, _from_csv), ".json": (_to_json, _from_json)}
    if file.suffix not in formats:
        raise ValueError(f"{file} must end in .csv or .json.")
    return formats[file.suffix]


def _to_json(rows: list[Row]) -> str:
    return json.dumps(rows, indent=1)


def _from_json(text: str) -> list[dict[str, Any]]:
    return json.loads(text)


def _to_csv(rows: list[Row]) -> str:
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _from_csv(text: str) -> list[dict[str, Any]]:
    heads, *lines = [line for line in csv.reader(io.StringIO(text, newline="")) if line] or [[]]
    for number, line in enumerate(lines, start=1):
        if len(line) != len(heads):
            raise ValueError(
                f"in row {number}, the number of columns is {len(line)}, not {len(heads)}, as if "
                "the file had been cut off or edited"
            )
    return [_nested(dict(zip(heads, line, strict=True))) for line in lines]


def _flat(row: Row) -> dict[str, str]:
    flat = {}
    for part, value in row.items():
        if part in PARTS:
            flat |= {f"{part}.{name}": _text(entry) for name, entry in value.items()}
        else:
            flat[part] = value
    return flat


def _nested(flat: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {part: {} for part in PARTS}
    for column, text in flat.items():
        part, _, name = column.partition(".")
        if not name:
            row[part] = text
        elif text != "":
            row[part][name] = _value(text)
    return row


def _text(value: Any) -> str:
    """Text unchanged unless it could be taken for JSON; everything else as JSON."""
    if isinstance(value, str) and value and not _is_json(value):
        return value
    return json.dumps(value)


def _value(text: str) -> Any:
    return json.loads(text) if _is_json(text) else text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True
