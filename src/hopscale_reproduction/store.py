"""The result store: one SQLite file with one row per cell.

A row is written in one transaction when its cell is done, so a process that is killed at any
moment loses only the cells that it was running. Processes may share a store: each claims the cells
it is about to run, for a minute at a time, and skips cells that others have claimed. A row whose
checksum does not match counts as not run, and is named in `Store.damaged`.
"""

import contextlib
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hopscale_reproduction.cells import digest
from hopscale_reproduction.rows import (
    CHECKED,
    COLUMNS,
    DamagedRowError,
    Row,
    checksum_of,
    decode,
    encode,
    new_row,
)

APPLICATION = 0x686F7073  # marks the file as a store: "hops"
VERSION = 2  # format 1 had no checksums; it is upgraded when opened
LEASE_SECONDS = 60.0

_SCHEMA = (
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
    """CREATE TABLE cells (
        key TEXT PRIMARY KEY,       -- digest of the settings
        kind TEXT NOT NULL,         -- "run" of a sampler, or what else was computed
        settings TEXT NOT NULL,     -- JSON
        seed INTEGER,
        results TEXT NOT NULL,      -- JSON
        versions TEXT NOT NULL,     -- JSON
        hardware TEXT NOT NULL,
        created TEXT NOT NULL,
        checksum TEXT NOT NULL
    )""",
    """CREATE TABLE claims (
        key TEXT PRIMARY KEY,
        owner TEXT NOT NULL,        -- host and process
        until REAL NOT NULL
    )""",
)
# Read as bytes: a damaged row need not be valid text.
_SELECT = f"SELECT rowid, checksum, {', '.join(f'CAST({c} AS BLOB)' for c in CHECKED)} FROM cells"


class Store:
    """Cells by their settings.

    Args:
        path: the file; created if it does not exist.
        owner: the owner of the claims to make, as host and process; by default this process.

    Raises:
        ValueError: the file is not a store, or is damaged; it is left untouched.
        OSError: the file cannot be opened or written.
    """

    def __init__(self, path: str | Path, owner: str | None = None):
        self.path = Path(path)
        self.damaged: dict[str, str] = {}  # the rows that were left out, and why
        self._damaged_keys: set[str] = set()
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
        """Check the file's format; create the tables of a new one, all at once or not at all."""
        if not self._number("SELECT count(*) FROM sqlite_master"):
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")  # another process may be doing the same
                if not self._number("SELECT count(*) FROM sqlite_master"):
                    for statement in _SCHEMA:
                        self._db.execute(statement)
        if self._number("PRAGMA application_id") != APPLICATION:
            raise ValueError(f"{self.path} is an SQLite file, but not a store of results.")
        self._add_checksums()
        version = self._number("PRAGMA user_version")
        if version != VERSION:
            raise ValueError(
                f"{self.path} has format {version}; this version of hopscale reads {VERSION}. "
                "Use another --out."
            )

    def _add_checksums(self) -> None:
        """Bring a store of format 1 up to date."""
        if self._number("PRAGMA user_version") != 1:
            return
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if self._number("PRAGMA user_version") != 1:
                return  # another process was first
            self._db.execute("ALTER TABLE cells ADD COLUMN checksum TEXT NOT NULL DEFAULT ''")
            found = self._db.execute(_SELECT).fetchall()
            pairs = [(checksum_of(columns), row) for row, _, *columns in found]
            self._db.executemany("UPDATE cells SET checksum = ? WHERE rowid = ?", pairs)
            self._db.execute(f"PRAGMA user_version = {VERSION}")

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
            found = self._db.execute(f"{_SELECT} WHERE key = ?", (digest(settings),)).fetchone()
        row = self._decoded(found) if found else None
        return None if row is None else row["results"]

    def put(self, settings: dict[str, Any], results: dict[str, Any], kind: str = "run") -> None:
        """Store the results of a cell. If it already has results, these are kept."""
        self.add_all([new_row(settings, results, kind)])

    def add_all(self, rows: Iterable[Row]) -> None:
        """Store cells in the order given: all of them, or none if that fails.

        Cells that the store already has stay unchanged, unless they are damaged.
        """
        values = [encode(row) for row in rows]
        keys = [value[:1] for value in values]
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        with self._errors(), self._db:
            damaged = [key for key in keys if key[0] in self._damaged_keys]
            self._db.executemany("DELETE FROM cells WHERE key = ?", damaged)
            self._db.executemany(f"INSERT OR IGNORE INTO cells VALUES ({marks})", values)
            self._db.executemany("DELETE FROM claims WHERE key = ?", keys)
        self._damaged_keys -= {key for (key,) in damaged}

    def rows(self, kind: str | None = None) -> list[Row]:
        """All cells, or all of one kind, in the order they were stored, without damaged ones."""
        with self._errors():
            found = self._db.execute(f"{_SELECT} ORDER BY rowid").fetchall()
        rows = (self._decoded(columns) for columns in found)
        return [row for row in rows if row is not None and kind in (None, row["kind"])]

    def _decoded(self, found: tuple) -> Row | None:
        """A row; if it is damaged, None, and `damaged` notes it."""
        number, checksum, *columns = found
        try:
            return decode(columns, checksum)
        except DamagedRowError as error:
            self.damaged[f"row {number}"] = str(error)
            self._damaged_keys.add(columns[0].decode(errors="replace"))
            return None

    def claim(self, keys: Iterable[str]) -> set[str]:
        """Claim cells, or renew their claims; return the keys that were claimed.

        Cells that another process has claimed and cells that are already stored are left out.
        """
        now, mine = time.time(), set()
        with self._errors(), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM claims WHERE until <= ?", (now,))
            claimed = dict(self._db.execute("SELECT key, owner FROM claims"))
            for key in keys:
                stored = self._db.execute("SELECT 1 FROM cells WHERE key = ?", (key,)).fetchone()
                if stored and key not in self._damaged_keys:
                    continue
                if claimed.get(key, self._owner) == self._owner or _is_gone(claimed[key]):
                    lease = (key, self._owner, now + LEASE_SECONDS)
                    self._db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", lease)
                    mine.add(key)
        return mine

    @contextlib.contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew the claims of this process in a thread: compiling or a chunk may take long."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(LEASE_SECONDS / 3):
                # If the store is busy or gone, writing results will raise an error anyway.
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
        """Replace SQLite's errors with readable ones."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}. What was stored before is kept.") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.path} is not a store of results, or is damaged ({error}). "
                "Move it away, or use another --out."
            ) from error


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
