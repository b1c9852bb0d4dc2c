"""Files that are there whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, beside the old one; on the disk, it takes the old one's place.

    A kill, a full disk or Ctrl-C at any moment leaves the old one as it was. Of two processes that
    write one file, the last one's stays.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
