"""Training one model of Table 2, and judging it on the validation data."""

import contextlib
import math
from pathlib import Path
from typing import Any

import numpy as np

from hopscale import learn
from hopscale.data import load
from hopscale.kernels import LBP
from hopscale.learn import checkpoint, gallery, networks
from hopscale.tune import Adaptive, Fixed
from hopscale_reproduction.cells import TUNED, digest
from hopscale_reproduction.experiment import Context, OutOfTimeError, Results
from hopscale_reproduction.experiments.table2.cells import COLUMNS, TrainingCell

CHECKPOINTS = "ebm-checkpoints"  # folders beside the store
PICTURES = "pictures"


class Training:
    """Trains a model by persistent contrastive divergence and estimates its likelihood.

    A model that is not finished leaves a checkpoint beside the store, and goes on from there.
    """

    def run(self, cell: TrainingCell, context: Context) -> Results:
        images = load(cell.data, context.data_dir)
        try:
            trained = _train(cell, images, context)
        except learn.DivergedError as error:
            # What the message says after that is of a checkpoint that is removed now.
            return {"diverged": True, "why": str(error).partition(". ")[0]}
        if cell.is_first_reference:
            _draw(cell, trained, context.folder / PICTURES)
        profile = cell.profile
        normalizer = learn.log_z(
            trained.model,
            chains=profile.chains,
            betas=profile.betas,
            repeats=profile.repeats,
            resample=profile.resample,
            key=cell.seed,
            progress=True,
        )
        if len(normalizer.by_repeat) < profile.repeats:
            raise KeyboardInterrupt
        score = learn.log_likelihood(trained.model, images.binarized(0, "valid"), normalizer)
        return {
            "diverged": False,
            "log_likelihood": score.value,
            "error": score.error,
            "effective": normalizer.effective,
            "log_z": normalizer.by_repeat.tolist(),
            "scale": trained.scale,
            "acceptance": float(np.mean(trained.history["acceptance"][-500:])),
            "training_seconds": trained.seconds,
        }

    def stored(self, cell: TrainingCell, results: Results, context: Context) -> None:
        """Remove the checkpoints, and say what came of the model."""
        folder = checkpoints(cell, context.folder)
        if folder.is_dir():
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
        with contextlib.suppress(OSError):  # there is none, or those of other models are in it
            folder.parent.rmdir()
        context.say(_line(cell, results))
        if cell.is_first_reference:
            context.say(_forecast(cell, results["seconds"]))


def _train(cell: TrainingCell, images: Any, context: Context) -> Any:
    """Train, from a checkpoint if an earlier run left any."""
    profile, left = cell.profile, context.seconds_left()
    if left <= 0:
        raise OutOfTimeError
    network = networks.by_name(
        profile.network, images.shape, profile.channels, cell.seed, profile.precision
    )
    balance, variant = COLUMNS[cell.column]
    folder = checkpoints(cell, context.folder)
    trained = learn.train_ebm(
        learn.EBM(network, learn.base_of(images.train)),
        images.train,
        iterations=profile.iterations,
        kernel=LBP(balance, lengths="paper"),
        scale=Adaptive() if variant == TUNED else Fixed(1),
        settings=learn.PCD(
            steps=cell.steps,
            rate=profile.learning_rate,
            warmup=profile.learning_rate_warmup,
            average=profile.average,
            buffer=profile.buffer,
        ),
        key=cell.seed,
        directory=folder,
        resume=folder.is_dir() and bool(checkpoint.paths(folder)),
        minutes=None if math.isinf(left) else left / 60,
        any_steps=True,
    )
    if trained.iterations < profile.iterations or context.seconds_left() <= 0:
        raise OutOfTimeError
    return trained


def _draw(cell: TrainingCell, trained: Any, pictures: Path) -> None:
    """Pictures of the reference, for the report."""
    pictures.mkdir(parents=True, exist_ok=True)
    gallery.save(pictures, cell.data, trained, prefix=f"ebm-{cell.data}_")


def checkpoints(cell: TrainingCell, folder: Path) -> Path:
    """Of this cell alone: those of others, of another version say, cannot be resumed."""
    settings = cell.settings()
    names = ("data", "balance", "variant", "steps", "seed")
    name = "-".join([*(str(settings[name]) for name in names), digest(settings)[:8]])
    return folder / CHECKPOINTS / name


def _line(cell: TrainingCell, results: Results) -> str:
    outcome = "diverged"
    if not results["diverged"]:
        outcome = f"{results['log_likelihood']:.2f} ± {results['error']:.2f} nats"
    return (
        f"{cell.data} {cell.column:8} {cell.steps:3d} steps, seed {cell.seed}: {outcome}, "
        f"{results['seconds']:.0f} s"
    )


def _forecast(cell: TrainingCell, seconds: float) -> str:
    """How long a data set may take, judged by a model of the reference."""
    profile = cell.profile
    steps = len(COLUMNS) * len(profile.seeds) * sum(profile.counts)
    most = seconds * steps / profile.reference / 60
    return f"a data set takes up to {most:.0f} minutes in one process, less if few steps do"
