"""Writing files that are complete or not there at all: the library's, imported in one place."""

from hopscale.disk.files import replacing, write

__all__ = ["replacing", "write"]
