"""Files are replaced whole or not at all, and nothing else is."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

from hopscale.disk import files

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(b"old")
    return path


def test_a_file_is_replaced(old):
    old.chmod(0o640)
    files.write(old, b"new")
    assert old.read_bytes() == b"new"
    assert old.stat().st_mode & 0o777 == 0o640
    assert names(old.parent) == ["a.npz"]


def test_a_folder_made_for_nothing_is_removed(tmp_path):
    new = tmp_path / "a" / "b"

    def fail(*kept):
        with files.folder_for(new) as folder:
            for name in kept:
                (folder / name).touch()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert names(tmp_path) == []
    with pytest.raises(KeyError):
        fail("kept")
    assert names(new) == ["kept"]
    (new / "kept").unlink()
    with pytest.raises(KeyError):
        fail()
    assert new.is_dir()  # as it was before


def test_the_lock_of_a_file_in_no_folder_names_the_file(tmp_path):
    path = tmp_path / "none" / "model.npz"
    said = rf"cannot write {path}: there is no folder {path.parent}\. Make it"
    with pytest.raises(FileNotFoundError, match=said), files.exclusive(f"{path}.lock", str(path)):
        pass


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_fails_leaves_the_old_one(old, error):
    def half():
        with files.replacing(old) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        half()
    assert old.read_bytes() == b"old"
    assert names(old.parent) == ["a.npz"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_names_the_file(old, code, monkeypatch):
    def full(_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*/a\.npz: .*held before is intact") as raised:
        files.write(old, b"new")
    assert raised.value.errno == code
    assert old.read_bytes() == b"old"
    with pytest.raises(OSError, match=r"cannot write .*/b\.npz: .*nothing was left"):
        files.write(old.with_name("b.npz"), b"new")
    assert names(old.parent) == ["a.npz"]


def test_a_really_full_disk_names_the_file(old):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(OSError, match=r"a\.npz: File too large; .* intact"):
            files.write(old, bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert old.read_bytes() == b"old"
    assert names(old.parent) == ["a.npz"]


def test_what_took_long_is_set_aside_when_the_disk_is_full(old, tmp_path, monkeypatch):
    aside = tmp_path / "aside"
    aside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))

    def put(file):
        if "aside" not in file.name:
            file.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        file.write(b"new")

    with pytest.raises(OSError, match=r"a\.npz: No space .* intact\. It was written to (.*)a\.npz"):
        files.write_or_set_aside(old, put)
    (written,) = aside.glob("*/*")
    assert (old.read_bytes(), written.read_bytes(), written.name) == (b"old", b"new", "a.npz")
    written.unlink()
    written.parent.rmdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # as full as the other
    with pytest.raises(OSError, match=r"intact\.$"):
        files.write_or_set_aside(old, put)
    assert names(tmp_path) == ["a.npz", "aside"]


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no such device")
def test_a_device_stays_a_device(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/dev/full")
    for path in (Path("/dev/full"), link):
        with pytest.raises(OSError, match="it is a device"):
            files.write(path, b"new")
        with pytest.raises(OSError, match="it is a device"):
            files.check_writable(path, overwrite=True)
    assert Path("/dev/full").is_char_device()


def test_pipes_and_folders_are_not_replaced(tmp_path):
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    with pytest.raises(OSError, match="it is a pipe"):
        files.write(pipe, b"new")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        files.write(folder, b"new")
    assert pipe.is_fifo()
    assert names(tmp_path) == ["folder", "pipe"]


def test_links_are_followed(tmp_path, old):
    place = tmp_path / "elsewhere"
    place.mkdir()
    link = place / "link"
    link.symlink_to(old)
    files.write(link, b"new")
    assert link.is_symlink()
    assert old.read_bytes() == b"new"
    old.unlink()
    files.write(link, b"newer")  # through a link to nothing
    assert link.is_symlink()
    assert old.read_bytes() == b"newer"
    assert names(place) == ["link"]


KILLED = """
    import os, signal, sys
    from hopscale.disk import files
    with files.replacing(sys.argv[1]) as file:
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_goes_at_the_next_write(old):
    command = [sys.executable, "-c", textwrap.dedent(KILLED)]
    for path in (old, old.with_name("other.npz")):
        assert subprocess.run([*command, str(path)], check=False).returncode == -signal.SIGKILL
    left = names(old.parent)
    assert len(left) == 3
    assert old.read_bytes() == b"old"
    files.write(old, b"new")
    # The other file's are none of this one's business.
    assert [name for name in left if "other" in name] == names(old.parent)[1:]
    assert old.read_bytes() == b"new"
    files.remove_leftovers(old.parent)
    assert names(old.parent) == ["a.npz"]


def test_parts_of_living_writers_stay(old):
    host = files._host()
    living = f"a.npz.{host}.{os.getppid()}-{files._began(os.getppid())}.0.part"
    reused = f"a.npz.{host}.{os.getppid()}-1.0.part"
    elsewhere = f"a.npz.not{host}.1-1.0.part"
    forgotten = f"a.npz.not{host}.2-1.0.part"
    foreign = "a.npz.part"
    for name in (living, reused, elsewhere, forgotten, foreign):
        old.with_name(name).touch()
    os.utime(old.with_name(forgotten), (0, 0))
    with files.replacing(old) as file:  # by a thread of this process
        own = set(names(old.parent)) - {"a.npz", living, elsewhere, foreign}
        assert len(own) == 1
        files.write(old, b"meanwhile")
        assert own < set(names(old.parent))
        file.write(b"new")
    assert old.read_bytes() == b"new"
    assert names(old.parent) == sorted(["a.npz", living, elsewhere, foreign])


def test_what_cannot_be_written_is_known_before(old, tmp_path, monkeypatch):
    files.check_writable(old, overwrite=True)
    files.check_writable(tmp_path / "new", overwrite=False)
    with pytest.raises(FileExistsError, match=r"a\.npz exists"):
        files.check_writable(old, overwrite=False)
    for path in (tmp_path / "none" / "a", old / "a"):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            files.check_writable(path, overwrite=False)
    assert names(tmp_path) == ["a.npz"]

    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(PermissionError, match=r"cannot write .*new: Permission denied"):
        files.check_writable(tmp_path / "new", overwrite=False)


# -- Locks. --------------------------------------------------------------------------------------


def test_one_holder_at_a_time(tmp_path):
    lock = tmp_path / "lock"
    with files.exclusive(lock, "the folder"):
        with (
            pytest.raises(files.InUseError, match=f"folder is in use by process {os.getpid()} "),
            files.exclusive(lock, "the folder"),
        ):
            pass
        assert lock.exists()  # who is refused takes nothing away
    assert names(tmp_path) == []
    with files.exclusive(lock, "the folder"):
        pass


def test_a_lock_needs_a_folder(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="there is no folder"),
        files.exclusive(tmp_path / "none" / "lock", "it"),
    ):
        pass


HOLDER = """
    import sys, time
    from hopscale.disk import files
    with files.exclusive(sys.argv[1], "it"):
        print("held", flush=True)
        time.sleep(60)
"""


def test_a_lock_is_free_when_its_holder_is_dead(tmp_path):
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(lock)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with (
        pytest.raises(files.InUseError, match=f"by process {process.pid} "),
        files.exclusive(lock, "it"),
    ):
        pass
    process.kill()
    process.communicate()
    assert lock.exists()
    with files.exclusive(lock, "it"):
        assert f"process {os.getpid()} " in lock.read_text()
    assert names(tmp_path) == []


def test_many_that_want_a_lock_never_hold_it_together(tmp_path):
    held, together = [], []

    def work():
        done = 0
        while done < 20:
            try:
                with files.exclusive(tmp_path / "lock", "it"):
                    held.append(1)
                    time.sleep(1e-4)
                    together.append(len(held))
                    held.pop()
                    done += 1
            except files.InUseError:
                time.sleep(1e-4)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [1] * 80
