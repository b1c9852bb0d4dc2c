"""Learning an energy-based model: the host's side, with checkpoints.

`host.drive` calls the compiled iterations for a chunk at a time. Chunks do not show in results.
"""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hopscale import files, host
from hopscale.arguments import MOST_STEPS
from hopscale.host import Interrupted
from hopscale.kernels.kernel import Kernel
from hopscale.learn import checkpoint as checkpoints
from hopscale.learn import packing, pcd
from hopscale.learn.arguments import kernel_and_tuner
from hopscale.learn.ebm import EBM, trainable
from hopscale.learn.health import RECORDED, DivergedError, Health, Trouble
from hopscale.learn.pcd import PCD, Training
from hopscale.learn.trained import Trained
from hopscale.storage import Stored
from hopscale.tune import Tuner
from hopscale.validate import as_key, count, fits, images, instance, number

ROWS = 4096  # iterations in one chunk, at most


def train_ebm(
    model: EBM,
    data,
    *,
    iterations: int = 10_000,
    kernel: Kernel | None = None,
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
    sampler: Kernel | None = None,
) -> Trained:
    """Learn the network of a model by persistent contrastive divergence.

    Args:
        model: the network with its first weights, and the base.
        data: states along the first axis: bits, or grey levels (uint8) drawn as bits each time
            they are used. An array of uint8 that holds only 0 and 1 holds bits.
        iterations: in all, those before a resume included.
        kernel: any; `LBP("sqrt")` unless said.
        scale: `Tuned()` unless said: tuned at every step and carried from iteration to
            iteration. `Fixed(1)` for the literature's single-site steps.
        settings: everything else, see `PCD`.
        key: a seed or a JAX key. The same key gives the same weights, bit for bit on a CPU; on a
            GPU, if its convolutions are deterministic.
        directory: where checkpoints go; None writes none.
        resume: go on from the newest good checkpoint in the directory.
        every: iterations between two checkpoints. One more is written at the end.
        minutes: end after that long, compiling included, if iterations have not ended it. At least
            one iteration is taken.
        notes: stored in the checkpoints, to read them by; a run with other notes is another run.
        progress: show a progress bar where there is a terminal.
        chunk: iterations between two looks at the run. None: about a second.
        any_steps: compile for any number of steps, where models with many are trained in turn.
            Otherwise a GPU gets a program for this number, and is a little faster.
        sampler: another name for `kernel`.

    Raises:
        ValueError, TypeError, MemoryError: for arguments that cannot work, before any iteration.
        DivergedError, CollapsedError: training came to nothing; `.reason` says how, in the words
            of `hopscale.learn.health`, and the message names the last good checkpoint. A crisis
            that ends raises nothing: `Trained.crises` tells of it.
        CheckpointError: the checkpoints are damaged or of another run.
        Interrupted: after Ctrl-C or SIGTERM, and after a last checkpoint: a KeyboardInterrupt with
            what training left, as `.partial`.
    """
    began = time.perf_counter()
    settings = PCD() if settings is None else settings
    data = _check(model, data, settings, iterations, every, minutes, chunk)
    _check_place(directory, resume, notes)
    kernel, scale = kernel_and_tuner(kernel, sampler, scale, model)
    key_buffer, key_run = jax.random.split(as_key(key))
    training = Training.of(key_run, model, data, kernel, scale, settings, any_steps)
    trainer = _Trainer(training, settings, pcd.start(training, model, key_buffer), iterations)
    if directory is not None:
        files.make_folder(directory)
    with contextlib.nullcontext() if directory is None else checkpoints.exclusive(Path(directory)):
        if directory is not None:
            fingerprint = packing.fingerprint(model, data, kernel, scale, settings, as_key(key))
            trainer.enter(Path(directory), resume, every, fingerprint, notes or {})
        trainer.compile()
        outcome = host.drive(
            trainer,
            seconds=1.0,
            chunk=chunk,
            first_chunk=1,
            progress=progress,
            minutes=None if minutes is None else minutes - (time.perf_counter() - began) / 60,
            save=None if directory is None else trainer.save,
            save_seconds=float("inf"),  # by iterations instead
        )
    trained = trainer.result(interrupted=outcome == "interrupted")
    if outcome == "interrupted":
        where = "" if directory is None else f"; {trained.checkpoint} has it, resume=True goes on"
        raise Interrupted(
            f"stopped after iteration {trained.iterations:,} of {iterations:,}; what it left is in "
            f".partial of this error{where}",
            trained,
        )
    return trained


def _check(model, data, settings, iterations, every, minutes, chunk) -> np.ndarray:
    """Raise for arguments that cannot work; the data, as they are learnt from."""
    instance("model", model, EBM, "hs.learn.EBM(network, base)")
    instance("settings", settings, PCD, "hs.learn.PCD(steps=40)")
    if not jax.tree.leaves(trainable(model.network)):
        raise TypeError(
            "the model's network has nothing to learn: no arrays of floats. A plain function holds "
            "its weights where training cannot see them; make it an Equinox module with the "
            "weights as fields, such as hs.learn.MLP(shape)."
        )
    data = images("data", data)
    if data.shape[1:] != model.shape:
        raise ValueError(
            f"data must hold states of the model's shape {model.shape}; got {data.shape[1:]}."
        )
    count("iterations", iterations, minimum=1)
    if iterations > MOST_STEPS:
        raise ValueError(f"there can be {MOST_STEPS:,} iterations at most; got {iterations:,}.")
    count("every", every, minimum=1)
    if chunk is not None:
        count("chunk", chunk, minimum=1)
    if minutes is not None:
        number("minutes", minutes, 0, float("inf"), "(]")
    needed = data.nbytes + settings.buffer * model.num_sites
    fits("data and replay buffer", needed, "Use a smaller buffer.")
    return data


def _check_place(directory, resume: bool, notes: Any) -> None:
    """Raise for checkpoints that could not be read or written."""
    if resume and directory is None:
        raise ValueError("resume goes on from checkpoints: give the directory that holds them.")
    if notes is not None and not isinstance(notes, dict):
        raise TypeError(f"notes must be a dictionary; got {notes!r:.80}.")
    try:
        json.dumps(notes)
    except (TypeError, ValueError) as error:
        raise TypeError(f"notes must be what JSON can say; {error}.") from error


class _Trainer:
    """Training as a `host.Job`: calls the compiled iterations and collects what they record."""

    def __init__(self, training: Training, settings: PCD, state: pcd.Learner, iterations: int):
        self.training, self.settings, self.state = training, settings, state
        self.iterations, self.every = iterations, iterations
        self.history: list[np.ndarray] = []
        self.done, self.first, self.seconds, self.compile_seconds = 0, 0, 0.0, 0.0
        self.fingerprint: dict[str, Any] = {}
        self.notes: dict[str, Any] = {}
        self.directory: Path | None = None
        self.checkpoint: Path | None = None
        self.saved: int | None = None
        self.good: Path | None = None  # the last checkpoint that is not of a crisis
        self.health = Health(settings.crisis, settings.limit, settings.patience)

    # -- Checkpoints. ----------------------------------------------------------------------------

    def enter(
        self, directory: Path, resume: bool, every: int, fingerprint: dict, notes: dict
    ) -> None:
        """Use a directory for checkpoints; go on from the newest if asked."""
        files.remove_leftovers(directory)
        self.directory, self.every = directory, every
        self.fingerprint, self.notes = fingerprint, notes
        if resume:
            self.restore(checkpoints.latest(directory, fingerprint, notes))
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
        self.health.read(self.history[0])
        self.good = None if self.health.in_crisis else found.path

    def save(self) -> None:
        """Write a checkpoint, unless the last one is of this step."""
        assert self.directory is not None
        if self.saved == self.done:
            return
        about = {"fingerprint": self.fingerprint, "notes": self.notes}
        arrays = packing.packed(self.state, self.training.base, self._history())
        self.checkpoint = checkpoints.write(self.directory, self.done, about, arrays, self.good)
        self.saved = self.done
        if not self.health.in_crisis:
            self.good = self.checkpoint

    # -- What `host.drive` calls. ----------------------------------------------------------------

    @property
    def phases(self) -> dict[str, int]:
        return {"training": self.iterations}

    @property
    def at(self) -> tuple[str, int]:
        return "training", self.done

    def room(self) -> int:
        """Iterations until the end, the next checkpoint, or the records are full."""
        left = max(self.iterations - self.done, 0)
        return min(left, self.every - self.done % self.every, ROWS)

    def advance(self, steps: int) -> None:
        """Take iterations, and collect what they recorded."""
        began = time.perf_counter()
        taken = self._call(steps)
        self.seconds += time.perf_counter() - began
        self.history.append(np.asarray(self.records)[:taken].copy())
        trouble = self.health.read(self.history[-1])
        if trouble is not None:
            raise self._error(trouble)
        self.done += taken
        if self.directory is not None and self.done % self.every == 0:
            self.save()

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

    # -- How. ------------------------------------------------------------------------------------

    def compile(self) -> None:
        """Compile, taking no iteration."""
        began = time.perf_counter()
        self.records = jnp.zeros((ROWS, len(RECORDED)), jnp.float32)
        self._call(0)
        self.compile_seconds = time.perf_counter() - began

    def _call(self, iterations: int) -> int:
        """How many were taken: fewer where numbers are not finite or beyond the limit."""
        fixed = (self.training, jnp.asarray(iterations, jnp.int32))
        self.state, self.records, taken, _ = pcd.advance(fixed, self.state, self.records)
        return int(taken)

    def _error(self, trouble: Trouble) -> Exception:
        """Says what came of training, and what to do."""
        error = trouble.error
        where = (
            "No good checkpoint was written."
            if self.good is None
            else f"The last good checkpoint is {self.good}."
        )
        what = "diverged" if error is DivergedError else "collapsed"
        return error(
            f"training {what} at iteration {trouble.iteration}, {trouble.reason}: {trouble.text}. "
            f"{where} Begin a new run with more steps, a smaller rate, a longer warm-up, a smaller "
            "buffer or a higher precision; the same one resumed would go the same way.",
            reason=trouble.reason,
            iteration=trouble.iteration,
            history=self._named_history(),
            crises=tuple(self.health.crises),
        )

    def _named_history(self) -> dict[str, np.ndarray]:
        return dict(zip(RECORDED, self._history().T, strict=True))

    def _history(self) -> np.ndarray:
        return np.concatenate([np.zeros((0, len(RECORDED)), np.float32), *self.history])

    def result(self, interrupted: bool) -> Trained:
        """Everything the user gets."""
        base, kernel = self.training.base, self.training.kernel
        model = EBM(self.state.average, base)
        has_scale = kernel.scale_range(model) is not None
        return Trained(
            model=model,
            last=EBM(self.state.network, base),
            samples=self.state.buffer,
            scale=float(np.mean(np.asarray(self.state.tuner.scale))) if has_scale else None,
            history=self._named_history(),
            crises=tuple(self.health.crises),
            iterations=self.done,
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            checkpoint=self.checkpoint,
            interrupted=interrupted,
        )
