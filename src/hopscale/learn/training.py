"""Learning an energy-based model: the host's side, with checkpoints.

Python calls the compiled iterations for a chunk at a time. In between it shows progress, writes
checkpoints, and sees whether it was asked to stop or its time is over. Chunks do not show in
results.
"""

import contextlib
import dataclasses
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hopscale.learn import checkpoint as checkpoints
from hopscale.learn import packing, pcd
from hopscale.learn.ebm import EBM, as_data
from hopscale.learn.pcd import PCD, RECORDED
from hopscale.progress import watch
from hopscale.sampler import Sampler
from hopscale.samplers import LBP
from hopscale.scale import Adaptive, Tuner
from hopscale.storage import Stored
from hopscale.target import State
from hopscale.validate import as_key, count

CHUNK_SECONDS = 1.0
ROWS = 4096  # iterations in one chunk, at most


class DivergedError(ArithmeticError):
    """Training produced numbers that are not finite, or energies beyond the limit."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """What training leaves.

    Attributes:
        model: with the average of the weights.
        last: with the weights of the last iteration.
        samples: the replay buffer, where the chains are.
        scale: the sampler's scale at the end.
        history: by iteration: "gap" (mean f(data) - mean f(samples)), "energy_data",
            "energy_samples", "acceptance", "scale", "gradient" (its norm).
        iterations: taken in all, before a resume too.
        seconds: of this call's iterations, without compiling.
        compile_seconds: of this call.
        checkpoint: the last one written, if a directory was given.
        interrupted: whether Ctrl-C ended it.
    """

    model: EBM
    last: EBM
    samples: State
    scale: float
    history: dict[str, np.ndarray]
    iterations: int
    seconds: float
    compile_seconds: float
    checkpoint: Path | None
    interrupted: bool


def train_ebm(
    model: EBM,
    data,
    *,
    iterations: int = 10_000,
    sampler: Sampler | None = None,
    scale: Tuner | None = None,
    settings: PCD | None = None,
    key: Any = 0,
    directory: str | Path | None = None,
    resume: bool = False,
    every: int = 1_000,
    minutes: float | None = None,
    notes: dict[str, Any] | None = None,
    progress: bool = True,
    chunk: int | None = None,
    any_steps: bool = False,
) -> Trained:
    """Learn the network of a model by persistent contrastive divergence.

    Args:
        model: the network with its first weights, and the base.
        data: states along the first axis: bits, or grey levels (uint8) drawn as bits anew each
            time they are used.
        iterations: in all, those before a resume included.
        sampler: any; `LBP("sqrt")` unless said.
        scale: `Adaptive()` unless said: tuned at every step and carried from iteration to
            iteration. `Fixed(1)` for the literature's single-site steps.
        settings: everything else, see `PCD`.
        key: a seed or a JAX key. The same key gives the same weights, bit for bit on a CPU; on a
            GPU, if its convolutions are deterministic.
        directory: where checkpoints go; None writes none.
        resume: go on from the newest good checkpoint in the directory.
        every: iterations between two checkpoints. One more is written at the end.
        minutes: end after that long, compiling included, if iterations have not ended it. At least
            one iteration is taken.
        notes: kept in the checkpoints, to read them by; a run with other notes is another run.
        progress: show a progress bar where there is a terminal.
        chunk: iterations between two looks at the run. None: about a second.
        any_steps: compile for any number of steps, where models with many are trained in turn.
            Otherwise a GPU gets a program that knows the number, and is a little faster.

    Raises:
        DivergedError: naming the last checkpoint, from before training diverged.
        CheckpointError: the checkpoints are damaged or of another run.
        InUseError: another process is training into the directory.
    """
    began = time.perf_counter()
    sampler = LBP("sqrt") if sampler is None else sampler
    scale = Adaptive() if scale is None else scale
    settings = PCD() if settings is None else settings
    data = _check(model, data, scale, iterations, every, minutes)
    trainer = _Trainer(model, data, sampler, scale, settings, as_key(key), notes or {}, any_steps)
    folder = None if directory is None else Path(directory)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with contextlib.nullcontext() if folder is None else checkpoints.exclusive(folder):
        if folder is not None:
            trainer.enter(folder, resume)
        trainer.compile()
        end = began + 60 * minutes if minutes else np.inf
        stopped = "the model as it is now" + (", in a checkpoint" if folder is not None else "")
        with watch(progress, {"training": iterations}, stopped) as watched:
            while trainer.done < iterations and not watched.stopped:
                if trainer.done > trainer.first and time.perf_counter() > end:
                    break
                # A chunk ends where a checkpoint is due.
                room = min(iterations - trainer.done, every - trainer.done % every)
                trainer.advance(min(room, chunk or trainer.chunk))
                if folder is not None and trainer.done % every == 0:
                    trainer.save()
                watched.show("training", trainer.done, trainer.status)
        if folder is not None:
            trainer.save()
        return trainer.result(interrupted=watched.stopped)


def _check(model, data, scale: Tuner, iterations, every, minutes) -> np.ndarray:
    """Raise for arguments that cannot work; the data, as they are learnt from."""
    if not isinstance(model, EBM):
        raise TypeError(f"model must be an EBM; got {type(model).__name__}.")
    data = as_data(data)
    if data.shape[1:] != model.shape:
        raise ValueError(
            f"data must hold states of the model's shape {model.shape}; got {data.shape[1:]}."
        )
    scale.check(model.num_sites)
    count("iterations", iterations, least=1)
    count("every", every, least=1)
    if minutes is not None and not minutes > 0:
        raise ValueError(f"minutes must be positive; got {minutes!r}.")
    return data


class _Trainer:
    """The host's side of training: calls the compiled iterations and keeps what they record."""

    def __init__(self, model, data, sampler, scale, settings, key, notes, any_steps):
        key_buffer, key_run = jax.random.split(key)
        self.program = pcd.program(key_run, data, model.base, sampler, scale, settings, any_steps)
        self.state = pcd.start(model.network, model.base, scale, settings, key_buffer)
        # Asked for where there are checkpoints only: not every function has an identity.
        self.identify = partial(packing.fingerprint, model, data, sampler, scale, settings, key)
        self.fingerprint: dict[str, Any] = {}
        self.notes, self.settings = notes, settings
        self.history: list[np.ndarray] = []
        self.done, self.first, self.seconds, self.chunk = 0, 0, 0.0, 1
        self.directory: Path | None = None
        self.checkpoint: Path | None = None
        self.saved: int | None = None

    def enter(self, directory: Path, resume: bool) -> None:
        """Use a directory for checkpoints; go on from the newest if asked."""
        self.directory, self.fingerprint = directory, self.identify()
        if resume:
            self.restore(checkpoints.latest(directory, self.fingerprint, self.notes))
        elif checkpoints.paths(directory):
            raise FileExistsError(
                f"{directory} holds checkpoints of a run: resume it, or give another directory."
            )

    def restore(self, found: Stored) -> None:
        """Take up the state of a checkpoint."""
        self.state = packing.unpacked(found, self.state)
        self.history = [found.arrays["history"]]
        self.done = self.first = int(found.about["step"])
        self.checkpoint, self.saved = found.path, self.done

    def save(self) -> None:
        """Write a checkpoint, unless the last one is of this step."""
        assert self.directory is not None
        if self.saved == self.done:
            return
        about = {"fingerprint": self.fingerprint, "notes": self.notes}
        arrays = packing.packed(self.state, self.program.base, self._history())
        self.checkpoint = checkpoints.write(self.directory, self.done, about, arrays)
        self.saved = self.done

    def compile(self) -> None:
        """Compile, taking no iteration."""
        began = time.perf_counter()
        self.records = jnp.zeros((ROWS, len(RECORDED)), jnp.float32)
        self._call(0)
        self.compile_seconds = time.perf_counter() - began

    def _call(self, iterations: int) -> tuple[int, bool]:
        fixed = (self.program, jnp.asarray(iterations, jnp.int32))
        self.state, self.records, taken, well = pcd.advance(fixed, self.state, self.records)
        return int(taken), bool(well)

    def advance(self, iterations: int) -> None:
        """Take iterations, at most as many as the records hold, and keep what they recorded."""
        iterations = min(iterations, ROWS)
        began = time.perf_counter()
        taken, well = self._call(iterations)
        took = time.perf_counter() - began
        self.history.append(np.asarray(self.records)[:taken].copy())
        if not well:
            self._diverged(self.done + taken)
        self.done += taken
        self.seconds += took
        self.chunk = max(1, int(iterations * min(CHUNK_SECONDS / max(took, 1e-9), 4.0)))

    def _diverged(self, iteration: int):
        last = dict(zip(RECORDED, self.history[-1][-1].tolist(), strict=True))
        where = (
            "No checkpoint was written."
            if self.checkpoint is None
            else (f"The last good checkpoint is {self.checkpoint}.")
        )
        raise DivergedError(
            f"training diverged at iteration {iteration}: the gap of the energies is "
            f"{last['gap']:.4g} (the limit is {self.settings.limit:g}), the norm of the gradient "
            f"{last['gradient']:.4g}. {where} Begin a new run with more steps, a smaller rate, or "
            "clipped gradients; the same one resumed would go the same way."
        )

    def status(self) -> dict[str, float]:
        """What the progress bar shows: the means of the last iterations."""
        means = np.mean(self.history[-1][-100:], axis=0)
        shown = dict(zip(RECORDED, means.tolist(), strict=True))
        speed = (self.done - self.first) / max(self.seconds, 1e-9)
        return {
            "gap": shown["gap"],
            "energy": shown["energy_data"],
            "acceptance": shown["acceptance"],
            "R": shown["scale"],
            "it/s": speed,
        }

    def _history(self) -> np.ndarray:
        return np.concatenate([np.zeros((0, len(RECORDED)), np.float32), *self.history])

    def result(self, interrupted: bool) -> Trained:
        """Everything the user gets."""
        base = self.program.base
        return Trained(
            model=EBM(self.state.average, base),
            last=EBM(self.state.network, base),
            samples=self.state.buffer,
            scale=float(np.mean(np.asarray(self.state.tuner.scale))),
            history=dict(zip(RECORDED, self._history().T, strict=True)),
            iterations=self.done,
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            checkpoint=self.checkpoint,
            interrupted=interrupted,
        )
