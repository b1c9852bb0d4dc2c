"""What a run returns, and when not to trust it.

- `run`: `Run`; `statistic`: one recorded number; `tempering`: results of parallel tempering.
- `advice`: the warnings.
"""
