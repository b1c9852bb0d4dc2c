"""The most probable state.

- `optimum`: `hs.optimize`, annealing with restarts.
- `anneal`: the loop, with a target raised to a growing power.
- `temperatures`: the temperatures at which to begin and end.
"""
