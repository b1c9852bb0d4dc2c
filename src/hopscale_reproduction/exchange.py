"""Results as files: CSV for people and spreadsheets, JSON for programs.

In CSV, a column is named after the part of a cell it belongs to: `settings.size`, `results.ejd`.
Values in it are JSON, but for plain text.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

from hopscale_reproduction.files import replacing
from hopscale_reproduction.store import FIELDS, PARTS, Row, Store


def write(store: Store, file: Path) -> int:
    """Write all cells; a file of that name is replaced only when the new one is complete."""
    to_text, _ = _format(file)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"cannot write {file}: no folder {file.parent}.")
    rows = store.rows()
    with replacing(file) as out:
        out.write(to_text(rows).encode())
    return len(rows)


def read(store: Store, file: Path) -> int:
    """Add the cells of a file to a store; how many were new."""
    before = len(store.rows())
    _, from_text = _format(file)
    try:
        rows = [_checked(row) for row in from_text(file.read_bytes().decode())]
    except (KeyError, TypeError, ValueError, AttributeError, csv.Error) as error:
        raise ValueError(f"{file} does not hold exported results: {error}.") from error
    store.add_all(rows)
    return len(store.rows()) - before


def _checked(row: dict[str, Any]) -> Row:
    """A row of a file; raises where a field is missing or of another kind."""
    for name in FIELDS:
        if not isinstance(row[name], dict if name in PARTS else str):
            raise TypeError(f"{name} is {row[name]!r}")
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
    return [_nested(row) for row in csv.DictReader(io.StringIO(text, newline=""))]


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
    """Text as it is unless it could be taken for JSON; everything else as JSON."""
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
