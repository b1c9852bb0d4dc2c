"""The result store: nothing lost, nothing run twice, clear words when a file is wrong."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from hopscale_reproduction import revisions, store
from hopscale_reproduction.cells import Cell, digest, table_cell
from hopscale_reproduction.store import Store

SETTINGS = {"model": "ising", "size": 20, "rate": None, "options": {"sign": "+"}, "seed": 3}
RESULTS = {"ejd": 1.5, "ess": 10.25}


def test_a_cell_is_found_by_all_of_its_settings(tmp_path):
    with Store(tmp_path / "s.sqlite") as opened:
        assert opened.get(SETTINGS) is None
        opened.put(SETTINGS, RESULTS)
        assert opened.get(dict(reversed(SETTINGS.items()))) == RESULTS
        for name in SETTINGS:
            assert opened.get({**SETTINGS, name: "other"}) is None
        row = opened.rows("run")[0]
        assert (row["settings"], row["results"]) == (SETTINGS, RESULTS)
        assert set(row["versions"]) >= {"hopscale", "jax", "python"}
        assert row["hardware"]
        assert opened.rows("other") == []


def test_every_setting_of_a_cell_is_in_its_digest():
    cell = Cell("ising", 20, "C2", "lbp", "barker", "same", options=(("sign", "+"),))
    other = Cell(
        "fhmm", 21, "C1", "gwg", "sqrt", "once", 0.5, 2.0, 1, (("sign", "-"),), "sum", 7, 8, 9, 1
    )
    seen = {digest(cell.settings())}
    names = cell.settings().keys() - {"revision"}
    for name in names:
        seen.add(digest(cell.but(**{name: getattr(other, name)}).settings()))
    assert len(seen) == 1 + len(names)


def test_a_role_is_no_setting():
    cell = table_cell("ising", 20, "C2", "lbp", "barker")
    assert cell.but(role="grid") == cell
    assert digest(cell.but(role="grid").settings()) == digest(cell.settings())


def test_the_first_revision_has_the_keys_of_before_there_were_any(monkeypatch):
    """A later one has others."""
    monkeypatch.setattr(revisions, "REVISIONS", dict.fromkeys(revisions.REVISIONS, 1))
    cell = table_cell("ising", 20, "C2", "lbp", "barker")
    first = digest(cell.settings())
    assert first == "8be2257549d88ab7cceb31031edcfa79d04c2275f07eace7d958c1c91da3c966"
    assert "revision" not in cell.settings()
    monkeypatch.setitem(revisions.REVISIONS, "lbp", 2)
    assert cell.settings()["revision"] == {"lbp": 2}
    assert digest(cell.settings()) != first
    assert digest(cell.but(sampler="rwm").settings()) != first
    assert "revision" not in cell.but(sampler="rwm").settings()


def test_the_first_result_stays(tmp_path):
    with Store(tmp_path / "s.sqlite") as opened:
        opened.put(SETTINGS, RESULTS)
        opened.put(SETTINGS, {"ejd": 2.0})
        assert opened.get(SETTINGS) == RESULTS
        assert len(opened.rows()) == 1


def test_claims_are_exclusive_until_they_lapse(tmp_path, monkeypatch):
    with Store(tmp_path / "s.sqlite") as mine, Store(tmp_path / "s.sqlite", owner="x:1") as other:
        assert mine.claim(["a", "b"]) == {"a", "b"}
        assert other.claim(["b", "c"]) == {"c"}
        assert mine.claim(["a", "c"]) == {"a"}
        now = time.time()
        monkeypatch.setattr(store.time, "time", lambda: now + 2 * store.LEASE_SECONDS)
        assert mine.claim(["c"]) == {"c"}


def test_claims_are_renewed_while_their_owner_works(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "LEASE_SECONDS", 0.3)
    with Store(tmp_path / "s.sqlite") as mine, Store(tmp_path / "s.sqlite", owner="x:1") as other:
        mine.claim(["a"])
        with mine.renewing():
            for _ in range(10):
                time.sleep(0.1)
                assert other.claim(["a"]) == set()
        time.sleep(0.4)
        assert other.claim(["a"]) == {"a"}


def test_what_is_stored_cannot_be_claimed(tmp_path):
    """A list of missing cells grows old while another process works through the same list."""
    with Store(tmp_path / "s.sqlite") as mine, Store(tmp_path / "s.sqlite", owner="x:1") as other:
        key = digest(SETTINGS)
        assert other.claim([key, "b"]) == {key, "b"}
        other.put(SETTINGS, RESULTS)
        assert mine.claim([key]) == set()
        assert other.claim([key, "b"]) == {"b"}


def test_claims_that_lapsed_are_not_kept(tmp_path, monkeypatch):
    with Store(tmp_path / "s.sqlite") as mine:
        mine.claim(["a"])
        now = time.time()
        monkeypatch.setattr(store.time, "time", lambda: now + 2 * store.LEASE_SECONDS)
        mine.claim(["b"])
        assert mine._db.execute("SELECT key FROM claims").fetchall() == [("b",)]


def test_claims_of_a_dead_process_do_not_hold(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    with Store(tmp_path / "s.sqlite") as mine, Store(tmp_path / "s.sqlite") as other:
        host = mine._owner.rsplit(":", 1)[0]
        other._owner = f"{host}:{done.stdout.strip()}"
        assert other.claim(["a"]) == {"a"}
        assert mine.claim(["a"]) == {"a"}


WRITER = """
import sys, itertools
from hopscale_reproduction.store import Store
with Store(sys.argv[1]) as opened:
    for i in itertools.count():
        opened.put({"cell": i, "seed": 0}, {"ejd": i})
        print(i, flush=True)
"""


def test_sigkill_loses_nothing_that_was_stored(tmp_path):
    path = tmp_path / "s.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= 20:
                os.kill(writer.pid, signal.SIGKILL)
                break
    with Store(path) as opened:
        found = [row["settings"]["cell"] for row in opened.rows()]
        assert found == list(range(len(found)))
        assert len(found) >= 21
        opened.put(SETTINGS, RESULTS)


def test_two_processes_make_and_share_a_store(tmp_path):
    path = tmp_path / "s.sqlite"
    code = WRITER.replace("itertools.count()", "range(40)").replace(
        '"seed": 0', '"seed": sys.argv[2]'
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(path), seed], stdout=subprocess.DEVNULL)
        for seed in "ab"
    ]
    assert [writer.wait() for writer in both] == [0, 0]
    with Store(path) as opened:
        assert len(opened.rows()) == 80


def test_a_store_is_made_at_once_or_not_at_all(tmp_path, monkeypatch):
    """Killed halfway, the next to come begins again."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "_SCHEMA", (*store._SCHEMA[:3], "CREATE TABLE nothing"))
        with pytest.raises(OSError, match="syntax"):
            Store(tmp_path / "s.sqlite")
    with Store(tmp_path / "s.sqlite") as opened:
        assert opened.claim(["a"]) == {"a"}


def test_files_that_are_no_store_are_named_and_left_alone(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("not a database, and longer than the header of one would be " * 10)
    with pytest.raises(ValueError, match=r"text\.sqlite is not a store"):
        Store(text)
    assert text.read_text().startswith("not a database")
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE t (x)")
    with pytest.raises(ValueError, match="not a store of results"):
        Store(foreign)
    with pytest.raises(FileNotFoundError, match="no folder"):
        Store(tmp_path / "nowhere" / "s.sqlite")


def test_another_format_is_refused(tmp_path):
    with Store(tmp_path / "s.sqlite"):
        pass
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="format 99"):
        Store(tmp_path / "s.sqlite")


def test_a_damaged_store_is_named(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as opened:
        for i in range(200):
            opened.put({"cell": i}, RESULTS)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises((ValueError, OSError), match=r"s\.sqlite"), Store(path) as opened:
        opened.rows()


def test_a_full_disk_keeps_what_was_there(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as opened:
        opened.put(SETTINGS, RESULTS)
        pages = opened._db.execute("PRAGMA page_count").fetchone()[0]
        opened._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OSError, match="full"):
            opened.put({"big": "x" * 100_000}, RESULTS)
    with Store(path) as opened:
        assert opened.get(SETTINGS) == RESULTS


def flip(path, column, old, new):
    """Change what is stored behind the store's back."""
    with sqlite3.connect(path) as db:
        statement = f"UPDATE cells SET {column} = replace({column}, ?, ?)"
        assert db.execute(f"{statement} WHERE rowid = 2", (old, new)).rowcount == 1


@pytest.mark.parametrize(
    ("column", "old", "new"),
    [
        ("results", "1.5", "1.7"),
        ("settings", '"size": 20', '"size": 21'),
        ("settings", '"size"', "size"),
        ("hardware", "cores", "cares"),
        ("created", "20", "30"),
        ("key", "a", "b"),
        ("kind", "run", "ran"),
    ],
)
def test_a_damaged_row_is_named_and_run_again(tmp_path, column, old, new):
    path = tmp_path / "s.sqlite"
    all_settings = [{**SETTINGS, "seed": seed} for seed in range(3)]
    with Store(path) as opened:
        for settings in all_settings:
            opened.put(settings, RESULTS)
    flip(path, column, old, new)
    with Store(path) as opened:
        assert [row["settings"]["seed"] for row in opened.rows()] == [0, 2]
        assert list(opened.damaged) == ["row 2"]
        assert opened.get(all_settings[1]) is None
        assert opened.get(all_settings[2]) == RESULTS
        assert opened.claim([digest(all_settings[1])])
        opened.put(all_settings[1], {"ejd": 2.0})
        assert opened.get(all_settings[1]) == {"ejd": 2.0}
    with Store(path) as opened:
        assert len(opened.rows()) == 3
        assert len(opened.damaged) == (column == "key")  # that row is under no one's key


def test_bytes_that_are_no_text_are_damage(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as opened:
        opened.put(SETTINGS, RESULTS)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE cells SET results = CAST(x'ff' || results AS TEXT)")
    with Store(path) as opened:
        assert opened.rows() == []
        assert list(opened.damaged) == ["row 1"]


def test_a_store_without_checksums_is_brought_up_to_date(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as opened:
        opened.put(SETTINGS, RESULTS)
        before = opened.rows()
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE cells DROP COLUMN checksum")
        db.execute("PRAGMA user_version = 1")
    with Store(path) as opened, Store(path) as other:
        assert opened.rows() == other.rows() == before
        assert opened.get(SETTINGS) == RESULTS
        opened.put({**SETTINGS, "seed": 9}, RESULTS)
        assert len(opened.rows()) == 2
