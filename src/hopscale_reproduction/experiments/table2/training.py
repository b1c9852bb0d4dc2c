"""Training one model of Table 2 and judging it on the validation data."""

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
LONG = 300.0  # seconds for a model: compiling is then a small part


class Training:
    """Trains a model by persistent contrastive divergence and estimates its likelihood.

    A model that is not finished leaves a checkpoint beside the store, and resumes from it.
    """

    def run(self, cell: TrainingCell, context: Context) -> Results:
        images = load(cell.data, context.data_dir)
        try:
            trained = train(cell, images, context)
        except learn.TrainingError as error:
            return failure(error)
        if cell.is_first_reference:
            _draw(cell, trained, context.folder / PICTURES)
        normalizer = measure(cell, images, trained)
        if len(normalizer.by_repeat) < cell.profile.repeats:
            raise KeyboardInterrupt
        score = learn.log_likelihood(trained.model, images.binarized(0, "valid"), normalizer)
        return {**course(trained), **likelihood(score, normalizer)}

    def stored(self, cell: TrainingCell, results: Results, context: Context) -> None:
        """Remove the checkpoints, and print the outcome of the model."""
        folder = checkpoints(cell, context.folder)
        if folder.is_dir():
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
        with contextlib.suppress(OSError):  # missing, or with other models' folders
            folder.parent.rmdir()
        context.say(_line(cell, results))
        if cell.is_first_reference and results["seconds"] > LONG:
            context.say(_forecast(cell, results["seconds"]))


def failure(error: learn.TrainingError) -> Results:
    """The results to store for a model that diverged or collapsed, with the reason."""
    # The rest of the message is about a checkpoint, which is removed now.
    why = str(error).partition(". ")[0]
    return {
        "diverged": True,
        "reason": error.reason,
        "iteration": error.iteration,
        "why": why,
        "crises": [list(crisis) for crisis in error.crises],
    }


def course(trained: learn.Trained) -> Results:
    """The results to store about training."""
    last = {name: float(np.mean(values[-500:])) for name, values in trained.history.items()}
    return {
        "diverged": False,
        "reason": "in crisis" if trained.in_crisis else "trained",
        "crises": [list(crisis) for crisis in trained.crises],
        "scale": trained.scale,
        "acceptance": last["acceptance"],
        "gap": last["gap"],
        "variety": last["variety"],
        "training_seconds": trained.seconds,
    }


def likelihood(score: learn.LogLikelihood, normalizer: learn.LogZ) -> Results:
    """The results to store about the estimate of the likelihood."""
    return {
        "log_likelihood": score.value,
        "error": score.error,
        "measured": score.reliable,
        "effective": normalizer.effective,
        "log_z": [normalizer.lower, normalizer.value, normalizer.upper],
    }


def measure(cell: TrainingCell, images: Any, trained: learn.Trained) -> learn.LogZ:
    """Estimate log Z from two sides."""
    profile = cell.profile
    return learn.measure_log_z(
        trained.model,
        images.binarized(0, "train"),
        trained.samples,
        components=profile.components,
        settle=profile.settle,
        chains=profile.chains,
        betas=profile.betas,
        repeats=profile.repeats,
        scale=Adaptive(),
        resample=profile.resample,
        key=cell.seed,
        progress=True,
    )


def train(cell: TrainingCell, images: Any, context: Context) -> learn.Trained:
    """Train to the end, from a checkpoint if an earlier run left one."""
    left = context.seconds_left()
    if left <= 0:
        raise OutOfTimeError
    trained = fit(cell, images, checkpoints(cell, context.folder), left, any_steps=True)
    if trained.iterations < cell.profile.iterations or context.seconds_left() <= 0:
        raise OutOfTimeError
    return trained


def fit(
    cell: TrainingCell,
    images: Any,
    folder: Path,
    seconds: float,
    any_steps: bool = False,
    **other: Any,
) -> learn.Trained:
    """Train as far as time allows, with checkpoints in a folder; `other` settings are of PCD."""
    profile = cell.profile
    network = networks.by_name(
        profile.network,
        images.shape,
        profile.channels,
        cell.seed,
        profile.precision,
        profile.start,
    )
    balance, variant = COLUMNS[cell.column]
    return learn.train_ebm(
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
            **other,
        ),
        key=cell.seed,
        directory=folder,
        resume=folder.is_dir() and bool(checkpoint.paths(folder)),
        minutes=None if math.isinf(seconds) else seconds / 60,
        any_steps=any_steps,
    )


def _draw(cell: TrainingCell, trained: Any, pictures: Path) -> None:
    """Pictures of the reference, for the report."""
    pictures.mkdir(parents=True, exist_ok=True)
    gallery.save(pictures, cell.data, trained, prefix=f"ebm-{cell.data}_")


def checkpoints(cell: TrainingCell, folder: Path) -> Path:
    """The folder of this cell's checkpoints: another cell's or version's cannot be resumed."""
    settings = cell.settings()
    names = ("data", "balance", "variant", "steps", "seed")
    name = "-".join([*(str(settings[name]) for name in names), digest(settings)[:8]])
    return folder / CHECKPOINTS / name


def _line(cell: TrainingCell, results: Results) -> str:
    outcome = f"diverged ({results.get('reason', '')})"
    if not results["diverged"]:
        outcome = f"{results['log_likelihood']:.2f} ± {results['error']:.2f} nats"
    return (
        f"{cell.data} {cell.column:8} {cell.steps:3d} steps, seed {cell.seed}: {outcome}, "
        f"{results['seconds']:.0f} s"
    )


def _forecast(cell: TrainingCell, seconds: float) -> str:
    """A sentence on how long a data set may take, estimated from a model of the reference."""
    profile = cell.profile
    steps = len(COLUMNS) * len(profile.seeds) * sum(profile.counts)
    most = seconds * steps / profile.reference / 60
    return f"a data set takes up to {most:.0f} minutes in one process, less if few steps do"
