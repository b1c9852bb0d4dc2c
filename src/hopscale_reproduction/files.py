"""Writing files that are complete or not there at all: the library's, imported in one place."""

from hopscale.whole import replacing, write

__all__ = ["replacing", "write"]
