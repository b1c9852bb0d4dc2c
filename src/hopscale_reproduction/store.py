"""The result store: one SQLite file, a row a cell.

A row is written in one transaction when its cell is done, so a process killed at any moment
loses the cells it had in flight and nothing else. Processes may share a store: each claims the
cells it is about to run, a minute at a time, and leaves alone what others have claimed.
"""

import contextlib
import datetime
import functools
import json
import os
import platform
import socket
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hopscale_reproduction.cells import digest

APPLICATION = 0x686F7073  # marks the file as a store: "hops"
VERSION = 1
LEASE_SECONDS = 60.0
FIELDS = ("kind", "settings", "results", "versions", "hardware", "created")  # of a row
PARTS = ("settings", "results", "versions")  # those that are JSON objects

_SCHEMA = (
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
    """CREATE TABLE cells (
        key TEXT PRIMARY KEY,       -- digest of the settings
        kind TEXT NOT NULL,         -- "run" of a sampler, or the name of another experiment
        settings TEXT NOT NULL,     -- JSON
        seed INTEGER,
        results TEXT NOT NULL,      -- JSON
        versions TEXT NOT NULL,     -- JSON
        hardware TEXT NOT NULL,
        created TEXT NOT NULL
    )""",
    """CREATE TABLE claims (
        key TEXT PRIMARY KEY,
        owner TEXT NOT NULL,        -- host and process
        until REAL NOT NULL
    )""",
)


class Row(dict):
    """A stored cell: `settings`, `results`, `versions`, and plain fields by name."""


class Store:
    """Cells by their settings.

    Args:
        path: the file; made if it is not there.
        owner: whose claims to make, as host and process; this process, unless given.

    Raises:
        ValueError: for a file that is not a store, or a damaged one, which is left untouched.
        OSError: where the file cannot be opened or written.
    """

    def __init__(self, path: str | Path, owner: str | None = None):
        self.path = Path(path)
        self.damaged: dict[str, str] = {}  # rows that were left out: which, and why
        self._owner = owner or f"{socket.gethostname()}:{os.getpid()}"
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"cannot open {self.path}: no folder {self.path.parent}.")
        with self._errors():
            self._db = sqlite3.connect(self.path, timeout=60.0, check_same_thread=False)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def _open(self) -> None:
        """Check what the file is; make the tables of a new one, all at once or not at all."""
        if not self._number("SELECT count(*) FROM sqlite_master"):
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")  # another process may be at it
                if not self._number("SELECT count(*) FROM sqlite_master"):
                    for statement in _SCHEMA:
                        self._db.execute(statement)
        if self._number("PRAGMA application_id") != APPLICATION:
            raise ValueError(f"{self.path} is an SQLite file, but not a store of results.")
        version = self._number("PRAGMA user_version")
        if version != VERSION:
            raise ValueError(
                f"{self.path} has format {version}; this version of hopscale reads {VERSION}. "
                "Use another --out."
            )

    def _number(self, query: str) -> int:
        return self._db.execute(query).fetchone()[0]

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(sqlite3.Error), self._db:
            self._db.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))
        self._db.close()

    def get(self, settings: dict[str, Any]) -> dict[str, Any] | None:
        """The results of the cell with these settings; None if it was not run."""
        with self._errors():
            row = self._db.execute(
                "SELECT results FROM cells WHERE key = ?", (digest(settings),)
            ).fetchone()
        return json.loads(row[0]) if row else None

    def put(self, settings: dict[str, Any], results: dict[str, Any], kind: str = "run") -> None:
        """Keep the results of a cell. The first to come stay."""
        self.add_all([new_row(settings, results, kind)])

    def add_all(self, rows: Iterable["Row"]) -> None:
        """Keep cells that were stored before: all of them, or none where that fails."""
        values = [_values(row) for row in rows]
        with self._errors(), self._db:
            self._db.executemany(
                "INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values
            )
            keys = [value[:1] for value in values]
            self._db.executemany("DELETE FROM claims WHERE key = ?", keys)

    def rows(self, kind: str | None = None) -> list[Row]:
        """All cells, or all of one kind, in the order they were stored."""
        query = "SELECT kind, settings, results, versions, hardware, created FROM cells"
        chosen = () if kind is None else (kind,)
        with self._errors():
            found = self._db.execute(
                query + (" WHERE kind = ?" if chosen else "") + " ORDER BY rowid", chosen
            ).fetchall()
        return [
            Row(
                kind=kind,
                settings=json.loads(settings),
                results=json.loads(results),
                versions=json.loads(version_text),
                hardware=machine,
                created=created,
            )
            for kind, settings, results, version_text, machine, created in found
        ]

    def claim(self, keys: Iterable[str]) -> set[str]:
        """Claim cells, or claim them again.

        Left out are cells that another process holds, and cells that are stored by now.
        """
        now, mine = time.time(), set()
        with self._errors(), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM claims WHERE until <= ?", (now,))
            held = dict(self._db.execute("SELECT key, owner FROM claims"))
            for key in keys:
                if self._db.execute("SELECT 1 FROM cells WHERE key = ?", (key,)).fetchone():
                    continue
                if held.get(key, self._owner) == self._owner or _is_gone(held[key]):
                    lease = (key, self._owner, now + LEASE_SECONDS)
                    self._db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", lease)
                    mine.add(key)
        return mine

    @contextlib.contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew the claims of this process, by a thread: compiling or a chunk may take long."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(LEASE_SECONDS / 3):
                # A store that is busy or gone is met again by whoever writes results.
                with contextlib.suppress(sqlite3.Error):
                    db = sqlite3.connect(self.path, timeout=LEASE_SECONDS / 3)
                    with contextlib.closing(db), db:
                        until = (time.time() + LEASE_SECONDS, self._owner)
                        db.execute("UPDATE claims SET until = ? WHERE owner = ?", until)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """SQLite's errors, in words."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}. What was stored before is kept.") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.path} is not a store of results, or is damaged ({error}). "
                "Move it away, or use another --out."
            ) from error


def new_row(settings: dict[str, Any], results: dict[str, Any], kind: str = "run") -> Row:
    """A row of results that were computed here and now."""
    return Row(
        kind=kind,
        settings=settings,
        results=results,
        versions=versions(),
        hardware=hardware(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _values(row: Row) -> tuple[Any, ...]:
    """A row as the table has it."""
    return (
        digest(row["settings"]),
        row["kind"],
        json.dumps(row["settings"], sort_keys=True),
        row["settings"].get("seed"),
        json.dumps(row["results"]),
        json.dumps(row["versions"]),
        row["hardware"],
        row["created"],
    )


def _is_gone(owner: str) -> bool:
    """Whether a claim's owner was a process of this machine that no longer runs."""
    host, process = owner.rsplit(":", 1)
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


@functools.cache
def versions() -> dict[str, str]:
    """Of what computes the results."""
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
    """The device that computes, in words."""
    import jax

    device = jax.devices()[0]
    if device.platform != "cpu":
        return str(device.device_kind)
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    """The processor's name, where the system tells it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
