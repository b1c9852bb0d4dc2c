"""Faults on purpose: kills, full disks, flipped bits, races. `make faults` runs 100 of each.

Each function below commits one fault in a folder of its own and raises AssertionError where a
promise of docs/reliability.md is broken. Writers are forks of a process that has started no
thread; runs are processes of their own.
"""

# ruff: noqa: PT017 (these are not tests of pytest)

import argparse
import contextlib
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hopscale.disk import files, storage
from hopscale_reproduction.cells import digest
from hopscale_reproduction.rows import Row
from hopscale_reproduction.store import Store

Random = np.random.Generator
KIND = "a test"


# -- Processes that write until they are stopped. ------------------------------------------------


class Writer:
    """A fork that calls `work(tell)`; `tell()` acknowledges what is done, and is counted."""

    def __init__(self, work: Callable[[Callable[[], None]], None]):
        self._read, write = os.pipe()
        self.process = os.fork()
        if not self.process:
            code = 1
            with contextlib.suppress(BaseException):
                work(lambda: os.write(write, b"."))  # type: ignore[arg-type, return-value]
                code = 0
            os._exit(code)
        os.close(write)

    def wait(self) -> None:
        """Until something is acknowledged."""
        self._first = os.read(self._read, 1)
        assert self._first, "the writer ended before it wrote anything"

    def kill(self) -> int:
        """End it at once; how much it had acknowledged."""
        os.kill(self.process, signal.SIGKILL)
        return self.join()[0]

    def join(self) -> tuple[int, int]:
        """How much it had acknowledged when it ended, and its exit status."""
        _, status = os.waitpid(self.process, 0)
        acknowledged = len(getattr(self, "_first", b""))
        while content := os.read(self._read, 65536):
            acknowledged += len(content)
        os.close(self._read)
        return acknowledged, status


def write_version(path: Path, version: int) -> None:
    storage.write(path, KIND, {"version": version}, {"x": np.full(30_000, version)})


def check_version(path: Path) -> int:
    """The version a file holds, all of it."""
    found = storage.read(path, KIND)
    assert np.all(found.arrays["x"] == found.about["version"])
    return found.about["version"]


def cell(number: int) -> Row:
    texts = {"kind": "run", "hardware": "none", "created": "now"}
    return Row(settings={"seed": number}, results={"ejd": number / 7}, versions={}, **texts)


def check_cells(path: Path, complete: bool = True) -> set[int]:
    """The cells of a store, none of which is other than what was written."""
    with Store(path) as store:
        rows = store.rows()
        assert not (complete and store.damaged), store.damaged
    for row in rows:
        assert row == cell(row["settings"]["seed"]), row
    return {row["settings"]["seed"] for row in rows}


# -- Faults. -------------------------------------------------------------------------------------


def kill_a_writer(folder: Path, random: Random) -> None:
    """The file is the last version that was acknowledged, or the next one, complete."""
    path = folder / "file"

    def work(tell):
        for version in itertools.count(1):
            write_version(path, version)
            tell()

    writer = Writer(work)
    writer.wait()
    time.sleep(random.uniform(0, 0.02))
    acknowledged = writer.kill()
    assert check_version(path) in (acknowledged, acknowledged + 1)
    write_version(path, 0)
    assert [entry.name for entry in folder.iterdir()] == ["file"], "parts were left"


def kill_a_store(folder: Path, random: Random) -> None:
    """Every cell that was acknowledged is there, and nothing else but the next one."""
    path = folder / "store.sqlite"

    def work(tell):
        with Store(path) as store:
            for number in itertools.count():
                store.claim([str(number)])
                store.add_all([cell(number)])
                tell()

    writer = Writer(work)
    writer.wait()
    time.sleep(random.uniform(0, 0.02))
    acknowledged = writer.kill()
    assert check_cells(path) in (set(range(acknowledged)), set(range(acknowledged + 1)))


def fill_the_disk(folder: Path, random: Random) -> None:
    """What does not fit is an error that names the file; what was there before stays."""
    path, store = folder / "file", folder / "store.sqlite"
    write_version(path, 1)
    with Store(store) as cells:
        cells.add_all([cell(0)])
    room = int(random.integers(0, 200_000))

    def work(tell):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            write_version(path, 2)
        except OSError as error:
            assert "file" in str(error)
            assert "intact" in str(error)
            tell()
        with contextlib.suppress(OSError), Store(store) as cells:
            cells.add_all([cell(number) for number in range(1, 2000)])

    failed, status = Writer(work).join()
    assert status == 0
    assert failed == 1
    assert check_version(path) == 1
    assert check_cells(store) in ({0}, set(range(2000)))
    assert {entry.name for entry in folder.iterdir()} <= {"file", "store.sqlite"}


def flip_a_bit_of_a_file(folder: Path, random: Random) -> None:
    """The file is refused, by a FileError that names it."""
    path = folder / "file"
    write_version(path, 1)
    content = bytearray(path.read_bytes())
    place = int(random.integers(len(content)))
    content[place] ^= 1 << int(random.integers(8))
    path.write_bytes(content)
    _check_refused(path)


def cut_a_file(folder: Path, random: Random) -> None:
    """The file is refused, by a FileError that names it."""
    path = folder / "file"
    write_version(path, 1)
    path.write_bytes(path.read_bytes()[: int(random.integers(path.stat().st_size))])
    _check_refused(path)


def _check_refused(path: Path) -> None:
    try:
        storage.read(path, KIND)
    except storage.FileError as error:
        assert str(path) in str(error)
        return
    raise AssertionError(f"{path} was read as if nothing were wrong")


def flip_a_bit_of_a_store(folder: Path, random: Random) -> None:
    """No cell is read as anything but what was written; a damaged one does not block others."""
    path = folder / "store.sqlite"
    with Store(path) as store:
        store.add_all([cell(number) for number in range(200)])
    content = bytearray(path.read_bytes())
    # Half of the time inside the text of a cell; else anywhere, the database's own pages too.
    inside = content.index(b'{"ejd"') if random.random() < 0.5 else 0
    place = int(random.integers(inside, inside + 8 if inside else len(content)))
    content[place] ^= 1 << int(random.integers(8))
    path.write_bytes(content)
    try:
        found = check_cells(path, complete=False)
    except (ValueError, OSError) as error:  # the database itself is damaged, and says so
        assert str(path) in str(error), error
        return
    assert not inside or len(found) == 199, "one bad cell blocked others, or none was noticed"


def race_for_a_file(folder: Path, random: Random) -> None:
    """Of two writers of one file the last one's stays; a reader never sees half of one."""
    path = folder / "file"
    write_version(path, 0)

    def work(first):
        def write(tell):
            for version in range(first, first + 20, 2):
                write_version(path, version)
                tell()

        return write

    writers = [Writer(work(1)), Writer(work(2))]
    seen = [check_version(path) for _ in range(int(random.integers(5, 30)))]
    assert [writer.join() for writer in writers] == [(10, 0), (10, 0)]
    assert set(seen) <= set(range(21))
    assert check_version(path) in (19, 20)


def race_for_cells(folder: Path, random: Random) -> None:
    """Two processes that share a store run each cell once."""
    path = folder / "store.sqlite"
    with Store(path):
        pass

    def work(tell):
        with Store(path) as store:
            for number in random.permutation(20).tolist():
                if store.claim([digest(cell(number)["settings"])]):
                    (folder / f"ran-{number}-{os.getpid()}").touch()
                    store.add_all([cell(number)])
                    tell()

    writers = [Writer(work), Writer(work)]
    done = [writer.join() for writer in writers]
    assert [status for _, status in done] == [0, 0]
    assert len(list(folder.glob("ran-*"))) == sum(ran for ran, _ in done) == 20
    assert check_cells(path) == set(range(20))


def race_for_a_lock(folder: Path, random: Random) -> None:
    """Two that train into one folder are never in it together; a kill lets go of it."""
    lock, inside = folder / "lock", folder / "inside"

    def work(tell):
        for _ in range(50):
            with contextlib.suppress(files.InUseError), files.exclusive(lock, "it"):
                descriptor = os.open(inside, os.O_CREAT | os.O_EXCL)  # fails if another is in
                os.close(descriptor)
                inside.unlink()
                tell()

    writers = [Writer(work), Writer(work)]
    done = [writer.join() for writer in writers]
    assert [status for _, status in done] == [0, 0]
    assert sum(entered for entered, _ in done) > 0

    def stay(tell):
        with files.exclusive(lock, "it"):
            tell()
            time.sleep(60)

    holder = Writer(stay)
    holder.wait()
    holder.kill()
    with files.exclusive(lock, "it"):
        pass
    assert not lock.exists()


RUN = """
import sys
import numpy as np
import hopscale as hs
from hopscale.runs import host
host.drive.__kwdefaults__["save_seconds"] = 0.05
print("ready", flush=True)
target = hs.Ising(np.linspace(-0.3, 0.3, 36).reshape(6, 6), 0.15)
run = hs.sample(target, chains=5, warmup=500, draws=6_000, chunk=64, progress=False,
                checkpoint=sys.argv[1])
print(run.last.tobytes().hex(), run.scale, run.acceptance)
"""
_whole_run: list[str] = []  # what the run gives that is not stopped


def kill_a_run(folder: Path, random: Random) -> None:
    """A run that is killed or told to stop goes on from its checkpoint, bit for bit."""
    if not _whole_run:
        _whole_run.append(_finish(folder / "whole"))
    path = folder / "run"
    process = _start(path)
    assert process.stdout is not None
    process.stdout.readline()
    began = time.monotonic()
    while not path.exists() and process.poll() is None and time.monotonic() < began + 120:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.5))
    process.send_signal(signal.SIGKILL if random.random() < 0.7 else signal.SIGTERM)
    process.communicate()
    assert _finish(path) == _whole_run[0]


def _start(path: Path) -> subprocess.Popen:
    command = [sys.executable, "-W", "ignore", "-c", RUN, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _finish(path: Path) -> str:
    done, errors = _start(path).communicate()
    assert len(done.splitlines()) == 2, errors[-2000:]
    return done.splitlines()[1]


FAULTS = {
    "kill a writer": kill_a_writer,
    "kill a store": kill_a_store,
    "fill the disk": fill_the_disk,
    "flip a bit of a file": flip_a_bit_of_a_file,
    "cut a file": cut_a_file,
    "flip a bit of a store": flip_a_bit_of_a_store,
    "race for a file": race_for_a_file,
    "race for cells": race_for_cells,
    "race for a lock": race_for_a_lock,
    "kill a run": kill_a_run,
}
SLOW = {"kill a run": 10}  # times fewer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="of each fault [100]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=FAULTS, default=list(FAULTS))
    options = parser.parse_args()
    broken: dict[str, list[str]] = {}
    for name in options.only:
        times, began = max(1, options.times // SLOW.get(name, 1)), time.monotonic()
        broken[name] = []
        for i in range(times):
            random = np.random.default_rng([options.seed, i])
            with tempfile.TemporaryDirectory() as folder:
                try:
                    FAULTS[name](Path(folder), random)
                except Exception as error:  # a fault that ends otherwise is a broken promise too
                    broken[name].append(f"{i}: {type(error).__name__}: {error}"[:300])
        seconds = time.monotonic() - began
        print(f"{name:24} {times:4} times, {len(broken[name])} broken, {seconds:.1f} s", flush=True)
    print(json.dumps(broken))
    return 1 if any(broken.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
