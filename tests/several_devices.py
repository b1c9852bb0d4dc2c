"""Runs on several devices beside those on one: a process of its own, for test_devices.py.

A CPU has as many devices as XLA is told when it starts. Prints a line for each case: its name, and
what came of it.
"""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale.engine import loop
from hopscale.record import Recorder
from hopscale.runs import host
from runs import TARGET, same
from test_invalid import with_value

COUNT = 4
SETTINGS: dict[str, Any] = {"chains": 12, "warmup": 40, "draws": 60, "key": 3, "progress": False}


class Together(Recorder):
    """A recorder of one's own that looks at all chains at once; its sums round."""

    def init(self, target, chains):
        return jnp.zeros((2,), target.dtype)

    def update(self, memory, states, info):
        weights = 1.0 / (1.0 + jnp.arange(len(states.x)))
        return memory + jnp.stack([weights @ states.log_prob, jnp.mean(info.accept_prob)])

    def result(self, memory, draws):
        return np.asarray(memory)


RECORD = {
    "means": hs.record.SiteMeans(),
    "pairs": hs.record.PairMoments(),
    "best": hs.record.BestState(),
    "histogram": hs.record.Histogram(lambda state, info: state.log_prob, np.linspace(-9, 9, 7)),
    "together": Together(),
    "ones": lambda state, info: jnp.sum(state.x),
}


def run(count: int, target: hs.Target = TARGET, kernel: Any = None, **more) -> hs.Run:
    kernel = hs.LBP() if kernel is None else kernel
    devices = jax.devices()[:count] if count > 1 else None
    return hs.sample(target, kernel, devices=devices, **{**SETTINGS, **more})


def compare(one: hs.Run, other: Callable[[], hs.Run]) -> str:
    try:
        same(one, other())
    except AssertionError as error:
        return " ".join(f"differs: {error}".split())[:120]
    return "same"


@contextmanager
def stopped_after(chunks: int) -> Iterator[None]:
    """Runs end after that many chunks, unfinished."""
    left = [chunks]

    def tell(steps: int) -> bool:
        left[0] -= 1
        return left[0] > 0

    with mock.patch.dict(host.drive.__kwdefaults__, tell=tell):  # type: ignore[attr-defined]
        yield


@contextmanager
def broken(name: str, twin: Callable) -> Iterator[None]:
    """The loop with one of its functions replaced."""
    jax.clear_caches()
    with mock.patch.object(loop, name, twin):
        yield
    jax.clear_caches()


def lengthened(one: hs.Run, folder: Path) -> Iterator[tuple[str, str]]:
    """Runs that go on, on other devices and from files."""
    longer = one.extend(30, progress=False)
    four = run(4)
    yield "extended", compare(longer, lambda: four.extend(30, progress=False))
    onto = {"progress": False, "devices": jax.devices()[:2]}
    yield "extended on fewer", compare(longer, lambda: four.extend(30, **onto))
    four.save(folder / "run")
    loaded = hs.load(folder / "run")
    yield "loaded and extended", compare(longer, lambda: loaded.extend(30, progress=False))
    where = loaded.extend(1, progress=False).resumable[2]["chains"].states.x.devices()
    yield "loaded runs are on the default device", str(where == {jax.devices()[0]})
    for chunks, first, then in ((1, 4, 1), (3, 1, 4)):  # in warm-up, and while drawing
        path = folder / f"checkpoint-{chunks}"
        with stopped_after(chunks):
            part = run(first, chunk=25, checkpoint=path)
        assert part.warmup + part.num_draws < 100
        finish = lambda path=path, then=then: run(then, checkpoint=path)  # noqa: E731
        yield f"checkpoint of {first} finished by {then}", compare(one, finish)


def cases(folder: Path) -> Iterator[tuple[str, str]]:
    one = run(1)
    for count in (2, 4):
        yield f"{count} devices", compare(one, lambda n=count: run(n))
    yield from lengthened(one, folder)
    recorded = {"record": RECORD, "keep": 7, "warmup": 0}
    yield "recorders and states", compare(run(1, **recorded), lambda: run(4, **recorded))
    sweeps: dict[str, Any] = {"kernel": hs.Gibbs()}  # whose kernel takes few chains another way
    yield "sweeps", compare(run(1, **sweeps), lambda: run(4, **sweeps))
    levels: dict[str, Any] = {"kernel": hs.RWM(), "temper": hs.Tempering(levels=3)}
    levels["scale"] = hs.Adaptive(per_chain=True)
    yield "tempering, a scale a chain", compare(run(1, **levels), lambda: run(4, **levels))
    nan = {"target": with_value(jnp.nan), "kernel": hs.RWM(), "init": np.zeros(6, int)}
    yield "invalid states", compare(run(1, **nan), lambda: run(4, **nan))
    with broken("chain_numbers", lambda own, axis: jnp.arange(own, dtype=jnp.int32)):
        yield "numbers that begin again", compare(one, lambda: run(4))
    with broken("all_chains", lambda tree, axis: tree):
        yield "a tuner that sees its device alone", compare(one, lambda: run(4))


if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", hs.ConvergenceWarning)
    with tempfile.TemporaryDirectory() as folder:
        for name, verdict in cases(Path(folder)):
            print(f"{name}: {verdict}", flush=True)
