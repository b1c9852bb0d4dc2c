"""Files that survive a full disk, a killed process and a second writer.

- `files`: files that are complete or absent.
- `storage`: the one file format.
- `identity`: whether a file belongs to a run.
"""
