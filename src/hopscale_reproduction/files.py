"""Writing files completely or not at all, by the library's functions, imported in one place."""

from hopscale.disk.files import check_writable, replacing, write

__all__ = ["check_writable", "replacing", "write"]
