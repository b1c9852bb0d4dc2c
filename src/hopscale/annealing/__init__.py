"""The most probable state.

- `optimum`: `hs.optimize`, annealing with restarts.
- `anneal`: the loop, with a target to a growing power.
- `temperatures`: where to begin and end.
"""
