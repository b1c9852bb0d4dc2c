"""Sites that depend on each other.

- `graph`: weighted pairs, read from matrices, lists and objects of other libraries.
- `lattice`: neighbours on a grid.
- `colouring`: sites that can be drawn at once.
"""
