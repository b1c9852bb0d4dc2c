"""The host's side of a run.

- `run`: `hs.sample` and `hs.sample_many`; `comparison`: `hs.compare`.
- `choose`, `levels`: the kernel and the number of tempering levels, if none were given.
- `arguments`, `plan`: settings, checked before anything is compiled.
- `host`, `notebook`: chunks of steps, progress, time limits, Ctrl-C.
- `sampling`: a run in progress; `saving`: runs as files.
"""
