"""The compiled loop over steps, and the device memory that it writes to.

- `loop`: any number of steps of all chains; the only place where chains are stepped.
- `stepping`: the program of a run: the loop, and what is recorded at each step.
- `pages`, `kept`: recorded numbers and kept states, on the device and on the host.
- `compiling`: how programs are compiled.
"""
