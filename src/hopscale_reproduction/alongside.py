"""A second process, so that a second core has work: first what is run one cell at a time.

Processes share a store, and each leaves alone what another is at. So this one needs no looking
after: what it does not come to, the first process runs.

Each has cores of its own. With as many threads as the machine has cores, both wait for one another
in the middle of every operation, and cells that take seconds take minutes.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
from rich.console import Console

from hopscale_reproduction.experiment import Experiment, Find
from hopscale_reproduction.experiments import named
from hopscale_reproduction.runner import Runner
from hopscale_reproduction.store import Store

PATIENCE = 30.0  # seconds to end in, once there is nothing left to do


def pays(experiments: Sequence[Experiment], profile: str, find: Find) -> bool:
    """Whether there is work for two: batches and procedures, and several cores that can be had."""
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        return False
    waiting = [e for e in experiments if any(find(c) is None for c in e.cells(profile, find))]
    return len({experiment.procedure is None for experiment in waiting}) == 2


@contextlib.contextmanager
def alongside(
    store: Path,
    experiments: Sequence[Experiment],
    profile: str,
    minutes: float | None,
    data_dir: Path | None,
) -> Iterator[subprocess.Popen]:
    """Run experiments in a second process, meanwhile: procedures, then batches from the end.

    It takes one core of this process's, which must not have used JAX yet: JAX counts cores when
    it is first used. On a GPU it does nothing.

    What it says goes to the standard error, unless that is a terminal with progress bars.
    """
    *mine, other = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, mine)
    names = [experiment.name for experiment in experiments]
    data = None if data_dir is None else str(data_dir)
    settings = json.dumps([[other], str(store), names, profile, minutes, data])
    process = subprocess.Popen(
        [sys.executable, "-m", "hopscale_reproduction.alongside", settings],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if sys.stderr.isatty() else None,
    )
    try:
        yield process
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        pass  # it is at something that nobody waits for
    finally:
        process.terminate()
        process.wait()
        os.sched_setaffinity(0, [*mine, other])


def main() -> None:
    cores, path, names, profile, minutes, data = json.loads(sys.argv[1])
    os.sched_setaffinity(0, cores)
    if jax.default_backend() != "cpu":
        return
    data_dir = None if data is None else Path(data)
    with Store(path) as store:
        runner = Runner(store, profile, minutes, Console(stderr=True), data_dir)
        wanted = named(names, profile)
        runner.run([experiment for experiment in wanted if experiment.procedure is not None])
        runner.run([experiment for experiment in reversed(wanted) if experiment.procedure is None])


if __name__ == "__main__":
    main()
