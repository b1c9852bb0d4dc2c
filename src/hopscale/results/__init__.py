"""What a run returns, and when not to trust it.

- `run`: `Run`; `statistic`: one recorded number; `tempering`: what parallel tempering found.
- `advice`: the warnings.
- `tables`: how all of it prints.
"""
