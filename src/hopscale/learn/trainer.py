"""Training as a job of the host: calls the compiled iterations and collects what they record."""

import time
import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from hopscale.disk import files
from hopscale.disk.storage import Stored
from hopscale.learn import checkpoint as checkpoints
from hopscale.learn import packing, pcd
from hopscale.learn.ebm import EBM
from hopscale.learn.health import RECORDED, DivergedError, Health, Trouble
from hopscale.learn.pcd import Training
from hopscale.learn.settings import PCD
from hopscale.learn.trained import Trained

ROWS = 4096  # iterations in one chunk, at most
LONG_HOURS = 12.0  # of training to come, beyond which the user is warned
SPEED_SECONDS = 5.0  # of training, after which its speed is known


class SlowTrainingWarning(UserWarning):
    """Training will take very long on this device."""


class Trainer:
    """Training as a `host.Job`."""

    def __init__(self, training: Training, settings: PCD, state: pcd.Learner, iterations: int):
        self.training, self.settings, self.state = training, settings, state
        self.iterations, self.every = iterations, iterations
        self.history: list[np.ndarray] = []
        self.done, self.first, self.seconds, self.compile_seconds = 0, 0, 0.0, 0.0
        self.said = False  # how long training will take
        self.fingerprint: dict[str, Any] = {}
        self.notes: dict[str, Any] = {}
        self.directory: Path | None = None
        self.checkpoint: Path | None = None
        self.saved: int | None = None
        self.good: Path | None = None  # the last checkpoint written outside a crisis
        self.health = Health(settings.crisis, settings.limit, settings.patience)

    # -- Checkpoints. ----------------------------------------------------------------------------

    def enter(
        self, directory: Path, resume: bool, every: int, fingerprint: dict, notes: dict
    ) -> None:
        """Use a directory for checkpoints; continue from the newest if asked."""
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
        """Restore the state of a checkpoint."""
        self.state = packing.unpacked(found, self.state)
        self.history = [found.arrays["history"]]
        self.done = self.first = int(found.about["step"])
        self.checkpoint, self.saved = found.path, self.done
        self.health.read(self.history[0])
        self.good = found.path
        if self.health.in_crisis:
            begin = self.health.crises[-1].begin
            earlier = [p for p in checkpoints.paths(found.path.parent) if _step_of(p) < begin]
            self.good = earlier[-1] if earlier else None

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
        """Iterations until the end, the next checkpoint, or full records."""
        left = max(self.iterations - self.done, 0)
        return min(left, self.every - self.done % self.every, ROWS)

    def advance(self, steps: int) -> None:
        """Take iterations, and collect what they recorded."""
        began = time.perf_counter()
        taken = self._call(steps)
        self.seconds += time.perf_counter() - began
        rows = np.asarray(self.records)[:taken].copy()
        trouble = self.health.read(rows)
        self.history.append(rows if trouble is None else rows[: trouble.iteration - self.done])
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

    def forecast(self, minutes: float | None) -> bool:
        """Warn early if training will take very long; True, since training goes on."""
        taken = self.done - self.first
        if self.said or self.seconds < SPEED_SECONDS or not taken:
            return True
        self.said = True
        each = self.seconds / taken
        hours = each * (self.iterations - self.done) / 3600
        if hours > LONG_HOURS and minutes is None:
            warnings.warn(
                f"an iteration takes {each:.3g} s here, the {self.iterations:,} of this training "
                f"about {hours / 24:.2g} days. A GPU takes minutes to hours. A smaller network "
                "(cnn, fewer channels), fewer steps or fewer iterations cost less; `minutes` ends "
                "training in time, and `resume` goes on.",
                SlowTrainingWarning,
                stacklevel=4,
            )
        return True

    # -- Internals. ------------------------------------------------------------------------------

    def compile(self) -> None:
        """Compile without taking an iteration."""
        began = time.perf_counter()
        self.records = jnp.zeros((ROWS, len(RECORDED)), jnp.float32)
        self._call(0)
        self.compile_seconds = time.perf_counter() - began

    def _call(self, iterations: int) -> int:
        """Take iterations and count them: fewer if numbers are not finite or beyond the limit."""
        fixed = (self.training, jnp.asarray(iterations, jnp.int32))
        self.state, self.records, taken, _ = pcd.advance(fixed, self.state, self.records)
        return int(taken)

    def _error(self, trouble: Trouble) -> Exception:
        """The error that says why training failed, and what to do."""
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
        """The result for the user."""
        base, kernel = self.training.base, self.training.kernel
        ratios = self.training.ratios
        model = EBM(self.state.average, base, ratios)
        has_scale = kernel.scale_range(model) is not None
        settled = self.training.tuner.settled(self.state.tuner)
        return Trained(
            model=model,
            last=EBM(self.state.network, base, ratios),
            samples=self.state.buffer,
            scale=float(np.mean(np.asarray(settled.scale))) if has_scale else None,
            history=self._named_history(),
            crises=tuple(self.health.crises),
            iterations=self.done,
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            checkpoint=self.checkpoint,
            interrupted=interrupted,
        )


def _step_of(path: Path) -> int:
    """The iteration of a checkpoint, by its name."""
    return int(path.stem.rpartition("-")[2])
