"""The result store: nothing lost, nothing run twice, clear words when a file is wrong."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from hopscale_reproduction import exchange, store
from hopscale_reproduction.cells import Cell, digest
from hopscale_reproduction.store import Store

SETTINGS = {"model": "ising", "size": 20, "rate": None, "options": {"sign": "+"}, "seed": 3}
RESULTS = {"ejd": 1.5, "ess": 10.25}


def test_a_cell_is_found_by_all_of_its_settings(tmp_path):
    with Store(tmp_path / "s.sqlite") as kept:
        assert kept.get(SETTINGS) is None
        kept.put(SETTINGS, RESULTS)
        assert kept.get(dict(reversed(SETTINGS.items()))) == RESULTS
        for name in SETTINGS:
            assert kept.get({**SETTINGS, name: "other"}) is None
        row = kept.rows("run")[0]
        assert (row["settings"], row["results"]) == (SETTINGS, RESULTS)
        assert set(row["versions"]) >= {"hopscale", "jax", "python"}
        assert row["hardware"]
        assert kept.rows("other") == []


def test_every_setting_of_a_cell_is_in_its_digest():
    cell = Cell("ising", 20, "C2", "lbp", "barker", "same", options=(("sign", "+"),))
    other = Cell(
        "fhmm", 21, "C1", "gwg", "sqrt", "once", 0.5, 2.0, 1, (("sign", "-"),), "sum", 7, 8, 9, 1
    )
    seen = {digest(cell.settings())}
    for name in cell.settings():
        seen.add(digest(cell.but(**{name: getattr(other, name)}).settings()))
    assert len(seen) == 1 + len(cell.settings())


def test_the_first_result_stays(tmp_path):
    with Store(tmp_path / "s.sqlite") as kept:
        kept.put(SETTINGS, RESULTS)
        kept.put(SETTINGS, {"ejd": 2.0})
        assert kept.get(SETTINGS) == RESULTS
        assert len(kept.rows()) == 1


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
with Store(sys.argv[1]) as kept:
    for i in itertools.count():
        kept.put({"cell": i, "seed": 0}, {"ejd": i})
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
    with Store(path) as kept:
        found = [row["settings"]["cell"] for row in kept.rows()]
        assert found == list(range(len(found)))
        assert len(found) >= 21
        kept.put(SETTINGS, RESULTS)


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
    with Store(path) as kept:
        assert len(kept.rows()) == 80


def test_a_store_is_made_at_once_or_not_at_all(tmp_path, monkeypatch):
    """Killed halfway, the next to come begins anew."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "_SCHEMA", (*store._SCHEMA[:3], "CREATE TABLE nothing"))
        with pytest.raises(OSError, match="syntax"):
            Store(tmp_path / "s.sqlite")
    with Store(tmp_path / "s.sqlite") as kept:
        assert kept.claim(["a"]) == {"a"}


def test_files_that_are_no_store_are_named_and_left_alone(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("not a database, and longer than the header of one would be " * 10)
    with pytest.raises(ValueError, match=r"text\.sqlite is not a store"):
        Store(text)
    assert text.read_text().startswith("not a database")
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as made:
        made.execute("CREATE TABLE t (x)")
    with pytest.raises(ValueError, match="not a store of results"):
        Store(foreign)
    with pytest.raises(FileNotFoundError, match="no folder"):
        Store(tmp_path / "nowhere" / "s.sqlite")


def test_another_format_is_refused(tmp_path):
    with Store(tmp_path / "s.sqlite"):
        pass
    with sqlite3.connect(tmp_path / "s.sqlite") as made:
        made.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="format 99"):
        Store(tmp_path / "s.sqlite")


def test_a_damaged_store_is_named(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as kept:
        for i in range(200):
            kept.put({"cell": i}, RESULTS)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises((ValueError, OSError), match=r"s\.sqlite"), Store(path) as kept:
        kept.rows()


def test_a_full_disk_keeps_what_was_there(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as kept:
        kept.put(SETTINGS, RESULTS)
        pages = kept._db.execute("PRAGMA page_count").fetchone()[0]
        kept._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OSError, match="full"):
            kept.put({"big": "x" * 100_000}, RESULTS)
    with Store(path) as kept:
        assert kept.get(SETTINGS) == RESULTS


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_exported_results_come_back_as_they_were(tmp_path, suffix):
    odd = {**SETTINGS, "config": "", "text": "0.5", "scale": 1.0, "flag": True, "none": None}
    with Store(tmp_path / "a.sqlite") as kept, Store(tmp_path / "b.sqlite") as other:
        kept.put(SETTINGS, RESULTS)
        kept.put(odd, {"ejd": 0.1 + 0.2, "note": 'a, "b"\nc'}, kind="ebm")
        assert exchange.write(kept, tmp_path / f"x{suffix}") == 2
        assert exchange.read(other, tmp_path / f"x{suffix}") == 2
        assert other.rows() == kept.rows()
        assert exchange.read(other, tmp_path / f"x{suffix}") == 0


def test_files_that_cannot_be_exchanged_are_refused(tmp_path):
    with Store(tmp_path / "a.sqlite") as kept:
        with pytest.raises(ValueError, match=r"\.csv or \.json"):
            exchange.write(kept, tmp_path / "x.txt")
        with pytest.raises(FileNotFoundError, match="no folder"):
            exchange.write(kept, tmp_path / "nowhere" / "x.csv")
        plain = {"kind": "run", "results": {}, "versions": {}, "hardware": "", "created": ""}
        rows = ([plain], [{**plain, "settings": 3}], [{**plain, "settings": {}, "kind": None}])
        for text in ('[{"settings"', '{"a": 1}', "[1]", *map(json.dumps, rows)):
            (tmp_path / "x.json").write_text(text)
            with pytest.raises(ValueError, match=r"x\.json does not hold exported results"):
                exchange.read(kept, tmp_path / "x.json")
        for text in ("a,b\n1,2\n", "kind,settings.a\nrun,1,2,3\n"):
            (tmp_path / "x.csv").write_text(text)
            with pytest.raises(ValueError, match=r"x\.csv does not hold exported results"):
                exchange.read(kept, tmp_path / "x.csv")
        assert kept.rows() == []
