"""A short form of `make faults`: nothing is lost, nothing wrong is read."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("resource")

import faults

QUICK = [name for name in faults.FAULTS if name not in faults.SLOW]


@pytest.fixture(scope="module")
def broken():
    """The promises that were broken, by fault: in a process that may fork, because it has run
    nothing by JAX."""
    command = [sys.executable, faults.__file__, "--times", "2", "--seed", "1", "--only", *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", QUICK)
def test_no_promise_is_broken(broken, name):
    assert broken[name] == []


def test_a_broken_promise_is_seen(tmp_path):
    """A damaged file that is read, half of a file, a cell that is not what was written."""
    path, store = tmp_path / "file", tmp_path / "store.sqlite"
    faults.write_version(path, 1)
    with pytest.raises(AssertionError, match="as if nothing were wrong"):
        faults._check_refused(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(faults.storage.FileError):
        faults.check_version(path)
    wrong = faults.Row({**faults.cell(3), "results": {"ejd": 0.0}})
    with faults.Store(store) as cells:
        cells.add_all([wrong])
    with pytest.raises(AssertionError):
        faults.check_cells(store)
