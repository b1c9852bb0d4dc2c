"""Sites that depend on each other.

- `graph`: weighted pairs, read from matrices, lists and files of other libraries.
- `lattice`: neighbours on a grid.
- `colouring`, `sweep`: sites that can be drawn at once, and drawing all of them in turn.
"""
