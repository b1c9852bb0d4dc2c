"""Files that are complete or absent, and locks that allow one writer at a time."""

import contextlib
import errno
import itertools
import os
import platform
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not a POSIX system: nothing is locked
    fcntl = None

DAY = 24 * 3600.0
_numbers = itertools.count()
_open_parts: set[str] = set()  # names of partial files of this process, in all threads


class InUseError(OSError):
    """Another process, or another thread, is writing here."""


def write(path: str | Path, content: bytes) -> None:
    """Write a file, complete or not at all."""
    with replacing(path) as file:
        file.write(content)


def write_or_set_aside(path: str | Path, put: Callable[[IO[bytes]], Any]) -> None:
    """Write a result that took long to compute; if the disk fails, to the temporary folder.

    Args:
        path: the file; in the end it is complete, or as it was.
        put: writes the content to an open file.

    Raises:
        OSError: the file could not be written; the message says where the content is instead.
    """
    try:
        with replacing(path) as file:
            put(file)
    except OSError as error:
        if error.errno not in _DISK:
            raise
        folder = Path(tempfile.mkdtemp(prefix="hopscale-"))
        aside = folder / Path(path).name
        try:
            with replacing(aside) as file:
                put(file)
        except OSError:  # that disk is full as well
            folder.rmdir()
            raise error from None
        raise _with_number(
            OSError(f"{error} It was written to {aside} instead: move it from there."), error.errno
        ) from error


def remove_leftovers(folder: str | Path) -> None:
    """Remove the partial files that killed writers left in a folder."""
    _remove_leftovers(Path(folder), ".*")


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to, beside the old one, which it replaces once it is on the disk.

    A kill, a full disk or Ctrl-C at any moment leaves the old file as it was. If two processes
    write one file, the last to finish wins. A symbolic link stays, and the file it points to is
    replaced. Partial files that killed writers of the same file left behind are removed.

    Raises:
        OSError: the file cannot be written, or is not a regular file; nothing was changed.
    """
    target = _target(path)
    _remove_leftovers(target.parent, re.escape(target.name))
    part = target.with_name(f"{target.name}.{_host()}.{_process()}.{next(_numbers)}.part")
    _open_parts.add(part.name)
    try:
        with _create(part, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # the old one's permissions
                os.chmod(part, stat.S_IMODE(target.stat().st_mode))  # noqa: PTH101
        part.replace(target)
        _sync_folder(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _DISK:
            raise _failed(path, error, OSError) from error
        raise
    finally:
        _open_parts.discard(part.name)


def check_writable(path: str | Path, overwrite: bool) -> None:
    """Raise if a file could not be written, before the work that would fill it.

    Raises:
        FileExistsError: the file exists, and is not to be overwritten.
        FileNotFoundError: there is no folder to put it in.
        OSError: it is not a regular file, or none can be created there.
    """
    target = _target(path)
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{path} exists: give another file, or ask to overwrite it (--overwrite)."
        )
    _remove_leftovers(target.parent, re.escape(target.name))
    part = target.with_name(f"{target.name}.{_host()}.{_process()}.{next(_numbers)}.part")
    with _create(part, path):
        part.unlink()


def make_folder(path: str | Path) -> Path:
    """Make a folder, with its parents, if it does not exist.

    Raises:
        OSError: there is a file of that name, or it cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "there is a file of that name" if is_file else error.strerror
        raise type(error)(f"cannot make the folder {path}: {reason}. Give another one.") from error
    return folder


@contextlib.contextmanager
def folder_for(path: str | Path) -> Iterator[Path]:
    """Make a folder, with its parents; if an error leaves what was made empty, remove it again.

    Raises:
        OSError: there is a file of that name, or it cannot be made.
    """
    folder = Path(path)
    made = [place for place in (folder, *folder.parents) if not os.access(place, os.F_OK)]
    try:
        yield make_folder(folder)
    except BaseException:
        for place in made:
            with contextlib.suppress(OSError):  # it is not empty, or was not made
                place.rmdir()
        raise


@contextlib.contextmanager
def exclusive(path: str | Path, what: str) -> Iterator[None]:
    """Hold a lock file; others that ask for it meanwhile are refused.

    The system releases the lock when its holder ends, however that happens, so a file left by a
    killed process is reused. The file says who holds it.

    Args:
        path: the lock file, created here and removed at the end.
        what: what is locked, for messages.

    Raises:
        InUseError: it is held by another process or thread.
        FileNotFoundError: there is no folder to put it in.
    """
    if fcntl is None:
        yield
        return
    _check_folder(Path(os.path.realpath(path)).parent, what)
    path = _target(path)
    descriptor = _locked(path, what)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {_host()} since {time.ctime()}".encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # while locked, so that nobody else can own it
        os.close(descriptor)


def _locked(path: Path, what: str) -> int:
    """A descriptor of the lock file, locked."""
    assert fcntl is not None
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise InUseError(
                f"{what} is in use by {holder}: wait until it ends, or give another place."
            ) from None
        except OSError:  # a disk without locks
            return descriptor
        # The previous holder may have removed the file between opening and locking it here.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def _target(path: str | Path) -> Path:
    """The real path of a file; raise if it must not be replaced, or its folder is missing."""
    path = Path(path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"cannot write {path}: it is a folder. Give a file in it.")
        if not stat.S_ISREG(mode):
            raise OSError(
                f"cannot write {path}: it is {_kind(mode)}, and only a regular file is replaced."
            )
    target = Path(os.path.realpath(path))
    _check_folder(target.parent, path)
    return target


def _check_folder(folder: Path, what: str | Path) -> None:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"cannot write {what}: there is no folder {folder}. Make it, or give another place."
        )


def _kind(mode: int) -> str:
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "a device"
    return "a pipe" if stat.S_ISFIFO(mode) else "not a file"


def _create(part: Path, path: str | Path) -> IO[bytes]:
    try:
        return part.open("xb")
    except OSError as error:
        raise _failed(path, error, type(error)) from error


def _failed(path: str | Path, error: OSError, kind: type[OSError]) -> OSError:
    """The error for a file that could not be written, naming the file, not its partial file."""
    state = "what it held before is intact" if Path(path).exists() else "nothing was left there"
    message = f"cannot write {path}: {error.strerror or error}; {state}."
    return _with_number(kind(message), error.errno)


def _with_number(error: OSError, number: int | None) -> OSError:
    """An error with its own message and the system's error number."""
    error.errno = number
    return error


def _remove_leftovers(folder: Path, name: str) -> None:
    """Remove partial files whose name matches and whose writers are gone."""
    pattern = re.compile(name + r"\.([^.]*)\.(\d+)-(\d*)\.\d+\.part")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = pattern.fullmatch(entry.name)
            if match and entry.name not in _open_parts and not _writing(entry, *match.groups()):
                os.unlink(entry)  # noqa: PTH108


def _writing(entry: os.DirEntry, host: str, process: str, began: str) -> bool:
    """Whether the writer of a partial file may still be running."""
    if host != _host():  # on a shared disk: only its age tells
        return time.time() - entry.stat().st_mtime < DAY
    number = int(process)
    if number == os.getpid():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        return True
    return began == _began(number)  # else the number was given to another process


def _process() -> str:
    return f"{os.getpid()}-{_began(os.getpid())}"


def _began(process: int) -> str:
    """When a process began, in the system's own units; empty if the system does not say."""
    try:
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2]
        return after_name.split()[19]
    except (OSError, IndexError):
        return ""


def _host() -> str:
    return platform.node().split(".")[0]


def _sync_folder(folder: Path) -> None:
    """Flush the move itself to the disk, where folders can be synchronised."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
