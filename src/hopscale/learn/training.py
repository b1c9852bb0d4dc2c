"""Training an energy-based model: the host's side, with checkpoints.

`host.drive` calls the compiled iterations in chunks, which do not affect results.
"""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hopscale.kernels.kernel import Kernel
from hopscale.learn import checkpoint as checkpoints
from hopscale.learn import packing, pcd
from hopscale.learn.arguments import kernel_and_tuner
from hopscale.learn.ebm import EBM, trainable
from hopscale.learn.pcd import Training
from hopscale.learn.settings import PCD
from hopscale.learn.trained import Trained
from hopscale.learn.trainer import Trainer
from hopscale.runs import host
from hopscale.runs.arguments import MOST_STEPS
from hopscale.runs.host import Interrupted
from hopscale.tune import Tuner
from hopscale.validate import as_key, count, fits, images, instance, number


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
    """Train the network of a model by persistent contrastive divergence.

    Args:
        model: the network with its initial weights, and the base.
        data: states along the first axis: bits, or grey levels (uint8), from which new bits are
            drawn each time. A uint8 array that holds only 0 and 1 is taken as bits.
        iterations: the number in all, including those before a resume.
        kernel: any kernel; `LBP("sqrt")` by default.
        scale: by default `Tuned()`, tuned at every step and carried from iteration to iteration.
            `Fixed(1)` gives the literature's single-site steps.
        settings: all other settings; see `PCD`.
        key: a seed or a JAX key. The same key gives the same weights, bit for bit on a CPU; on a
            GPU, if its convolutions are deterministic.
        directory: where checkpoints go; None writes none.
        resume: continue from the newest good checkpoint in the directory.
        every: iterations between two checkpoints. One more is written at the end.
        minutes: end after this time, including compilation, if the iterations have not ended
            before. At least one iteration is taken.
        notes: stored in the checkpoints, for reading them later. A run with other notes is another
            run.
        progress: show a progress bar where there is a terminal.
        chunk: iterations that the device takes between two checks by the host. None: about a
            second of them.
        any_steps: compile for any number of steps, for when models with different numbers are
            trained in turn. Otherwise a GPU gets a program for this number, a little faster.
        sampler: another name for `kernel`.

    Raises:
        ValueError, TypeError, MemoryError: for arguments that cannot work, before any iteration.
        DivergedError, CollapsedError: training failed; `.reason` says how, in the words of
            `hopscale.learn.health`, and the message names the last good checkpoint. A crisis that
            ends raises nothing; `Trained.crises` lists it.
        CheckpointError: the checkpoints are damaged or of another run.
        SlowTrainingWarning: a warning after a few seconds, if training will take more than half a
            day on this device.
        Interrupted: after Ctrl-C or SIGTERM, and after a last checkpoint: a KeyboardInterrupt with
            the result so far as `.partial`.
    """
    began = time.perf_counter()
    settings = PCD() if settings is None else settings
    data = _check(model, data, settings, iterations, every, minutes, chunk)
    _check_place(directory, resume, notes)
    kernel, scale = kernel_and_tuner(kernel, sampler, scale, model)
    key_buffer, key_run = jax.random.split(as_key(key))
    training = Training.of(key_run, model, data, kernel, scale, settings, any_steps)
    trainer = Trainer(training, settings, pcd.start(training, model, key_buffer), iterations)
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
            save_seconds=float("inf"),  # checkpoints are written by iterations
            tell=lambda _: trainer.forecast(minutes),
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
    """Raise for arguments that cannot work; return the data in the form used for training."""
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
