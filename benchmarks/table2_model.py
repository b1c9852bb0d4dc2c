"""Train and judge one model of Table 2 within a time limit; a process of `table2_gpu.py`.

A model is written as COLUMN:STEPS, followed by settings of its profile, a seed, a data set, or
settings of training that no profile has:
ALBP_s:15:iterations=40000:seed=1:data=omniglot:restart=0.001. With looks=4, the errors of its
log-ratios are measured four times during training. Its folder always has its state in about.json.
At the end it also has history.npz, pictures, and weights and samples in model.checkpoint.
"""

import csv
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

LAST_SECONDS = 15.0  # reserved for collecting results
LIKELIHOOD_SECONDS = 60.0  # no estimate is started with less time left
CURVE_POINTS = 1_000
# Settings that do not change the course of training.
HORIZON = ("iterations", "chains", "betas", "repeats", "resample", "components", "settle", "looks")
OTHER = ("restart", "penalty", "clip", "weight_decay")  # of `hopscale.learn.PCD`
TINY = {
    "network": "cnn", "channels": 2, "iterations": 60, "learning_rate_warmup": 20, "chains": 8,
    "betas": 20, "buffer": 100, "components": 3, "settle": 10,
}  # fmt: skip


def cell_of(spec: str, tiny: bool = False):
    """The cell that the text of a model describes."""
    from hopscale_reproduction.experiments.table2.cells import PROFILES, TrainingCell

    column, steps, *changes = spec.split(":")
    profile, data, seed = PROFILES["paper"], "static-mnist", 0
    if tiny:
        profile = dataclasses.replace(profile, **TINY)  # type: ignore[arg-type]
    for name, value in (change.split("=") for change in changes):
        if name == "seed":
            seed = int(value)
        elif name == "data":
            data = value
        elif name != "looks" and name not in OTHER:
            kind = type(getattr(profile, name))
            profile = dataclasses.replace(profile, **{name: kind(value)})
    return TrainingCell(profile, data, column, int(steps), seed)


def looks_of(spec: str) -> int:
    """How often the log-ratios of a model are measured."""
    return next((int(part[6:]) for part in spec.split(":") if part.startswith("looks=")), 0)


def other_of(spec: str) -> dict[str, Any]:
    """Settings of training that no profile has."""
    pairs = (part.split("=") for part in spec.split(":")[2:])
    return {name: float(value) for name, value in pairs if name in OTHER}


def name_of(spec: str) -> str:
    """The text of a model as a file name."""
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in spec)


def run_name(spec: str) -> str:
    """The file name of a run of training, shared by all models along it."""
    parts = [part for part in spec.split(":") if part.partition("=")[0] not in HORIZON]
    return name_of(":".join(parts))


class Worker:
    """Trains and judges one model."""

    def __init__(self, options):
        from hopscale_reproduction.rows import hardware

        self.options, self.spec = options, options.worker
        self.cell = cell_of(self.spec, options.tiny)
        self.folder = options.out / name_of(self.spec)
        self.about = {"model": self.spec, "settings": self.cell.settings(), "stage": "starting"}
        self.about["hardware"] = hardware()

    def say(self, **more) -> None:
        self.about.update(more, seconds=round(time.time() - self.options.began, 1))
        scratch = self.folder / "about.part"
        scratch.write_text(json.dumps(self.about))
        scratch.replace(self.folder / "about.json")
        print(f"{self.about['seconds']:7.1f} {self.spec}: {json.dumps(more)}", flush=True)

    def seconds_left(self) -> float:
        """Seconds until everything must be done."""
        total = 60 * self.options.minutes - LAST_SECONDS
        return total - (time.time() - self.options.began)

    def run(self) -> None:
        from hopscale import learn
        from hopscale.data import load
        from hopscale_reproduction.experiments.table2 import training

        images = load(self.cell.data, self.options.data)
        self.say(stage="training")
        try:
            trained = self.train(images)
        except learn.TrainingError as error:
            if error.history is not None:
                np.savez(self.folder / "history.npz", **error.history)  # type: ignore[arg-type]
            failed = training.failure(error)
            known = {} if other_of(self.spec) else {"results": failed}
            self.say(stage="done", iterations=error.iteration, failed=failed, **known)
            return
        np.savez(self.folder / "history.npz", **trained.history)  # type: ignore[arg-type]
        course = training.course(trained)
        self.say(stage="trained", iterations=trained.iterations, course=course)
        self.write_model(images.shape)
        self.draw(trained)
        completed = trained.iterations >= self.cell.profile.iterations
        needed = 0 if self.options.tiny else LIKELIHOOD_SECONDS
        if (completed or self.options.likelihood_minutes) and self.seconds_left() > needed:
            self.measure(images, trained, course)
            self.say(stage="done")

    def train(self, images):
        """Train as far as time allows, and measure the log-ratios a few times."""
        from hopscale_reproduction.experiments.table2 import training

        profile, looks = self.cell.profile, looks_of(self.spec)
        for look in range(1, max(looks, 1) + 1):
            iterations = profile.iterations * look // max(looks, 1)
            part = dataclasses.replace(profile, iterations=iterations)
            cell = dataclasses.replace(self.cell, profile=part)
            seconds = self.seconds_left() - LAST_SECONDS - 60 * self.options.likelihood_minutes
            trained = training.fit(
                cell, images, self.folder / "run", max(seconds, 1.0), **other_of(self.spec)
            )
            if looks:
                self.ratios(trained)
        return trained

    def write_model(self, shape: tuple[int, ...]) -> None:
        """Write averaged weights and samples, for `hopscale evaluate`; a third of a checkpoint."""
        from hopscale.disk import storage
        from hopscale.learn import checkpoint

        found = checkpoint.latest(self.folder / "run")
        arrays = {
            name: array
            for name, array in found.arrays.items()
            if name.startswith(".average") or name in ("buffer", "base")
        }
        profile = self.cell.profile
        notes = {
            "data": self.cell.data,
            "network": profile.network,
            "shape": list(shape),
            "channels": profile.channels,
            "precision": profile.precision,
        }
        about = {**found.about, "notes": notes}
        storage.write(self.folder / "model.checkpoint", checkpoint.KIND, about, arrays)

    def draw(self, trained) -> None:
        from hopscale.learn import gallery

        gallery.save(self.folder, f"{self.cell.data}, {self.spec}", trained, long_run=0)

    def ratios(self, trained) -> None:
        """Measure the errors of the log-ratios at states of the buffer, in each precision."""
        from ebm_start import ratio_errors, with_precision

        profile, found = self.cell.profile, {}
        again = {
            precision: with_precision(trained.last, profile.network, profile.channels, precision)
            for precision in ("highest", "default", "bfloat16")
        }
        for precision, model in again.items():
            states = trained.samples[:: max(1, len(trained.samples) // 8)][:8]
            found[precision] = ratio_errors(model, again["highest"], states)
        look = {"iteration": trained.iterations, "scale": trained.scale, "errors": found}
        self.say(ratios=[*self.about.get("ratios", []), look])

    def measure(self, images, trained, course) -> None:
        """Estimate the log-likelihood, and log Z from two sides."""
        from hopscale import learn
        from hopscale.learn.pictures import grid
        from hopscale_reproduction.experiments.table2 import training

        normalizer = training.measure(self.cell, images, trained)
        scores = {
            split: learn.log_likelihood(trained.model, images.binarized(0, split), normalizer)
            for split in ("valid", "test")
        }
        names = ("lower", "value", "upper", "error", "effective", "acceptance", "seconds")
        self.say(
            log_z={
                **{name: getattr(normalizer, name) for name in names},
                "by_repeat": normalizer.by_repeat.tolist(),
            },
            log_likelihood={split: score.value for split, score in scores.items()},
            measured=normalizer.reliable,
        )
        if trained.iterations >= self.cell.profile.iterations and not other_of(self.spec):
            self.say(results={**course, **training.likelihood(scores["valid"], normalizer)})
        ends = normalizer.samples[:100]
        grid(ends, title="ends of annealed chains").savefig(self.folder / "annealed.png")


def history_of(folder: Path) -> dict[str, np.ndarray] | None:
    """The history of training, from its end or from the newest checkpoint."""
    from hopscale.learn import checkpoint
    from hopscale.learn.health import RECORDED

    if (folder / "history.npz").exists():
        return dict(np.load(folder / "history.npz"))
    if not checkpoint.paths(folder / "run"):
        return None
    rows = checkpoint.latest(folder / "run").arrays["history"]
    return dict(zip(RECORDED, rows.T, strict=True))


def write_curve(folder: Path) -> Path | None:
    """Write the history of training as means over stretches."""
    from hopscale.learn.health import RECORDED

    history = history_of(folder)
    if history is None:
        return None
    length = len(history["gap"])
    size = max(1, length // CURVE_POINTS)
    path = folder / "curve.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["iteration", *RECORDED, "largest_gap"])
        for first in range(0, length, size):
            part = slice(first, first + size)
            means = [f"{np.mean(history[name][part]):.6g}" for name in RECORDED]
            largest = np.max(np.abs(history["gap"][part]))
            writer.writerow([min(first + size, length), *means, f"{largest:.6g}"])
    return path
