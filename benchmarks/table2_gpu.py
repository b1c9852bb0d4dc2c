"""Models of Table 2 on one GPU, side by side, within a number of minutes.

Run: python benchmarks/table2_gpu.py --data DIR --out DIR --minutes 9
         --models LBP_b-1:90,LBP_s-1:40,ALBP_b:20,ALBP_s:15 [--from DIR] [--tiny]

Each model is a process, and `--processes` of them share the GPU by NVIDIA's MPS where it is
installed; the others follow as these end. A model is COLUMN:STEPS, and further settings of its
profile: ALBP_s:15:iterations=40000:buffer=10000. It trains until its iterations or the time for
training are over, goes on from `--from`/NAME.checkpoint if that exists, and then its
log-likelihood is estimated from two sides.

In --out, renewed every few seconds: summary.json, results.sqlite (models whose iterations were
completed), log.txt, and at most four NAME.checkpoint: of `--keep` and of models that are not
done; at the end record.zip with curves and pictures.
"""

import argparse
import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np

TICK = 10.0
LAST_SECONDS = 15.0  # for collecting what is there
LEAST_FOR_LIKELIHOOD = 60.0
LEAST_FOR_A_MODEL = 120.0
MOST_CHECKPOINTS = 4
POINTS = 1_000  # of a curve
# Settings that training does not depend on while it lasts.
HORIZON = ("iterations", "chains", "betas", "repeats", "resample", "components", "settle")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--data-set", default="static-mnist")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0, help="in all")
    parser.add_argument(
        "--likelihood-minutes", type=float, default=0.0,
        help="of these, for the likelihood of models that do not complete their iterations",
    )  # fmt: skip
    parser.add_argument("--models", default="LBP_b-1:90,LBP_s-1:40,ALBP_b:20,ALBP_s:15")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--keep", default="ALBP_s:15", help="the model whose checkpoint stays")
    parser.add_argument("--from", dest="start_from", type=Path)
    parser.add_argument("--tiny", action="store_true", help="a check that everything works")
    parser.add_argument("--worker", help="internal: train this model")
    parser.add_argument("--began", type=float, help="internal")
    return parser.parse_args()


# One model


def cell_of(spec: str, options):
    """The cell that a model's text describes."""
    from hopscale_reproduction.experiments.table2.cells import PROFILES, TrainingCell

    column, steps, *changes = spec.split(":")
    profile = PROFILES["paper"]
    if options.tiny:
        profile = dataclasses.replace(
            profile, network="cnn", channels=2, iterations=60, learning_rate_warmup=20, chains=8,
            betas=20, buffer=100, components=3, settle=10,
        )  # fmt: skip
    for change in changes:
        name, _, value = change.partition("=")
        kind = type(getattr(profile, name))
        profile = dataclasses.replace(profile, **{name: kind(value)})
    return TrainingCell(profile, options.data_set, column, int(steps), 0)


def name_of(spec: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in spec)


def run_name(spec: str) -> str:
    """The same for models that one run of training goes through."""
    parts = [part for part in spec.split(":") if part.partition("=")[0] not in HORIZON]
    return name_of(":".join(parts))


class Worker:
    """Trains and judges one model; what is known of it is in a file at any time."""

    def __init__(self, options):
        from hopscale_reproduction.rows import hardware

        self.options, self.spec = options, options.worker
        self.cell = cell_of(self.spec, options)
        self.work = options.out / name_of(self.spec)
        self.known = {"model": self.spec, "settings": self.cell.settings(), "stage": "starting"}
        self.known["hardware"] = hardware()

    def say(self, **more) -> None:
        self.known.update(more, seconds=round(time.time() - self.options.began, 1))
        scratch = self.work / "known.part"
        scratch.write_text(json.dumps(self.known))
        scratch.replace(self.work / "known.json")
        shown = {name: value for name, value in more.items() if name != "settings"}
        print(f"{self.known['seconds']:7.1f} {self.spec}: {json.dumps(shown)}", flush=True)

    def left(self) -> float:
        """Seconds until all must be done."""
        total = 60 * self.options.minutes - LAST_SECONDS
        return total - (time.time() - self.options.began)

    def run(self) -> None:
        from hopscale import learn
        from hopscale.data import load
        from hopscale_reproduction.experiments.table2 import training

        images = load(self.cell.data, self.options.data)
        self.say(stage="training")
        seconds = self.left() - LAST_SECONDS - 60 * self.options.likelihood_minutes
        try:
            trained = training.fit(self.cell, images, self.work / "run", max(seconds, 1.0))
        except learn.TrainingError as error:
            if error.history is not None:
                np.savez(self.work / "history.npz", **error.history)  # type: ignore[arg-type]
            self.say(stage="done", iterations=error.iteration, results=training.failure(error))
            return
        np.savez(self.work / "history.npz", **trained.history)  # type: ignore[arg-type]
        course = training.course(trained)
        self.say(stage="trained", iterations=trained.iterations, course=course)
        self.pictures(trained)
        if self.left() > LEAST_FOR_LIKELIHOOD / 2:
            self.ratios(trained)
        completed = trained.iterations >= self.cell.profile.iterations
        least = 0 if self.options.tiny else LEAST_FOR_LIKELIHOOD
        if (completed or self.options.likelihood_minutes) and self.left() > least:
            self.likelihood(images, trained, course)
            self.say(stage="done")

    def pictures(self, trained) -> None:
        from hopscale.learn import gallery

        title = f"{self.cell.data}, {self.spec}"
        gallery.save(self.work, title, trained, long_run=0)

    def ratios(self, trained) -> None:
        """How good the log-ratios are at states of the buffer, in each precision."""
        from ebm_start import ratio_errors, with_precision

        profile, found = self.cell.profile, {}
        again = {
            precision: with_precision(trained.last, profile.network, profile.channels, precision)
            for precision in ("highest", "default", "bfloat16")
        }
        for precision, model in again.items():
            states = trained.samples[:: max(1, len(trained.samples) // 8)][:8]
            found[precision] = ratio_errors(model, again["highest"], states)
        self.say(ratios=found)

    def likelihood(self, images, trained, course) -> None:
        from hopscale import learn
        from hopscale_reproduction.experiments.table2 import training

        normalizer = training.measure(self.cell, images, trained)
        scores = {
            split: learn.log_likelihood(trained.model, images.binarized(0, split), normalizer)
            for split in ("valid", "test")
        }
        self.say(
            log_z={
                "lower": normalizer.lower,
                "value": normalizer.value,
                "upper": normalizer.upper,
                "error": normalizer.error,
                "effective": normalizer.effective,
                "by_repeat": normalizer.by_repeat.tolist(),
                "acceptance": normalizer.acceptance,
                "seconds": normalizer.seconds,
            },
            log_likelihood={split: score.value for split, score in scores.items()},
            measured=normalizer.reliable,
        )
        if trained.iterations >= self.cell.profile.iterations:
            self.say(
                results={**course, **training.likelihood(scores["valid"], normalizer)},
            )
        from hopscale.learn.pictures import grid

        ends = normalizer.samples[:100]
        grid(ends, title="ends of annealed chains").savefig(self.work / "annealed.png")


# All of them


class MPS:
    """NVIDIA's multi-process service, for the time of a block, where there is one."""

    def __enter__(self):
        self.control = shutil.which("nvidia-cuda-mps-control")
        if self.control:
            subprocess.run([self.control, "-d"], check=False, timeout=20)
        print("MPS:", self.control or "none", flush=True)
        return self

    def __exit__(self, *_):
        if self.control:
            subprocess.run([self.control], input=b"quit\n", check=False, timeout=20)


class Parent:
    """Starts the workers, and collects what they leave."""

    def __init__(self, options):
        self.options, self.began = options, time.time()
        self.specs = options.models.split(",")
        self.processes: dict[str, subprocess.Popen] = {}
        self.copied: dict[str, Path] = {}

    def work(self, spec: str) -> Path:
        return self.options.work / name_of(spec)

    def start(self, spec: str) -> subprocess.Popen:
        """A process for a model, with the checkpoint that it goes on from where it wants it."""
        self.work(spec).mkdir(parents=True, exist_ok=True)
        self.take_up(spec)
        command = [sys.executable, __file__, "--worker", spec, "--began", str(self.began)]
        options = self.options
        for name in ("data", "data_set", "minutes", "likelihood_minutes"):
            value = getattr(options, name)
            if value is not None:
                command += [f"--{name.replace('_', '-')}", str(value)]
        command += ["--out", str(options.work), *(["--tiny"] if options.tiny else [])]
        return subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def take_up(self, spec: str) -> None:
        from hopscale.learn import checkpoint

        if self.options.start_from is None:
            return
        found = self.options.start_from / f"{run_name(spec)}.checkpoint"
        if found.exists():
            step = checkpoint.read(found).about["step"]
            folder = self.work(spec) / "run"
            folder.mkdir(exist_ok=True)
            shutil.copy(found, folder / f"step-{step:09d}{checkpoint.SUFFIX}")
            print(f"{spec} goes on from {found} at iteration {step}", flush=True)

    def run(self) -> None:
        options = self.options
        options.out.mkdir(parents=True, exist_ok=True)
        options.work = Path(tempfile.mkdtemp())
        with MPS(), (options.out / "log.txt").open("w") as self.log:
            self.train()
            self.stop()
            self.collect()
            self.record()
        print((options.out / "log.txt").read_text()[-4_000:])

    def train(self) -> None:
        """Keep as many models in training as there may be, until all are done or time is over."""
        waiting = list(self.specs)
        end = self.began + 60 * self.options.minutes - LAST_SECONDS
        while time.time() < end:
            running = [p for p in self.processes.values() if p.poll() is None]
            least = 0 if self.options.tiny or not self.processes else LEAST_FOR_A_MODEL
            if waiting and len(running) < self.options.processes and time.time() + least < end:
                spec = waiting.pop(0)
                self.processes[spec] = self.start(spec)
                continue
            if not running and (not waiting or time.time() + least >= end):
                return
            time.sleep(1.0 if self.options.tiny else TICK)
            self.collect()

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()

    def collect(self) -> None:
        """Bring what there is to where it is looked for. A failure here must not end training."""
        try:
            self.checkpoints()
            self.summary()
        except Exception as error:
            print(f"collecting: {error!r}", flush=True)

    def checkpoints(self) -> None:
        """Copy the newest of each model that is not done; few enough to be sent."""
        from hopscale.learn import checkpoint

        keep = [spec for spec in self.specs if run_name(spec) == run_name(self.options.keep)]
        open_ones = [
            spec for spec in self.processes if spec not in keep and self.stage(spec) != "done"
        ]
        chosen = [*keep, *open_ones][:MOST_CHECKPOINTS]
        for spec in set(self.copied) - set(chosen):
            (self.options.out / f"{run_name(spec)}.checkpoint").unlink(missing_ok=True)
            del self.copied[spec]
        for spec in chosen:
            found = checkpoint.paths(self.work(spec) / "run")
            if found and self.copied.get(spec) != found[-1]:
                scratch = self.options.work / "copy.part"
                shutil.copy(found[-1], scratch)
                shutil.move(scratch, self.options.out / f"{run_name(spec)}.checkpoint")
                self.copied[spec] = found[-1]

    def stage(self, spec: str) -> str:
        file = self.work(spec) / "known.json"
        return json.loads(file.read_text())["stage"] if file.exists() else "starting"

    def summary(self) -> None:
        from hopscale_reproduction.rows import new_row
        from hopscale_reproduction.store import Store

        known = []
        for spec in self.specs:
            file = self.work(spec) / "known.json"
            if file.exists():
                known.append(json.loads(file.read_text()))
        (self.options.out / "summary.json").write_text(json.dumps(known, indent=1))
        with Store(self.options.out / "results.sqlite") as store:
            for one in known:
                if "results" in one and store.get(one["settings"]) is None:
                    results = {**one["results"], "seconds": one["seconds"]}
                    row = new_row(one["settings"], results, "ebm")
                    row["hardware"] = one["hardware"]
                    store.add_all([row])

    def record(self) -> None:
        """Curves and pictures, together."""
        with zipfile.ZipFile(self.options.out / "record.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for spec in self.specs:
                folder = self.work(spec)
                for picture in sorted(folder.glob("*.png")):
                    archive.write(picture, f"{name_of(spec)}_{picture.name}")
                try:
                    curve = write_curve(folder)
                except Exception as error:
                    print(f"no curve of {spec}: {error!r}", flush=True)
                    continue
                if curve is not None:
                    archive.write(curve, f"{name_of(spec)}_curve.csv")


def write_curve(folder: Path) -> Path | None:
    """The record of training as means over stretches, from its end or the newest checkpoint."""
    from hopscale.learn import checkpoint
    from hopscale.learn.health import RECORDED

    if (folder / "history.npz").exists():
        history = dict(np.load(folder / "history.npz"))
    elif checkpoint.paths(folder / "run"):
        rows = checkpoint.latest(folder / "run").arrays["history"]
        history = dict(zip(RECORDED, rows.T, strict=True))
    else:
        return None
    length = len(history["gap"])
    size = max(1, length // POINTS)
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


def main() -> None:
    options = arguments()
    if options.worker:
        Worker(options).run()
    else:
        import jax

        jax.config.update("jax_platforms", "cpu")  # the GPU is for the workers
        Parent(options).run()


if __name__ == "__main__":
    main()
