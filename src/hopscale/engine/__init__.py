"""What is compiled: the loop over steps, and the memory on the device that it writes to.

- `loop`: steps of all chains, any number of them: the only place where chains are stepped.
- `stepping`: the program of a run, the loop with what is recorded at each step.
- `pages`, `kept`: recorded numbers and states, on the device and what the host makes of them.
- `devices`, `compiling`: chains shared out among devices; how programs are compiled.
"""
