"""Train models of Table 2 side by side on one GPU, within a number of minutes.

Run: python benchmarks/table2_gpu.py --data DIR --out DIR --minutes 9 [--mps]
         --models LBP_b-1:90,LBP_s-1:40,ALBP_b:20,ALBP_s:15 [--from DIR] [--tiny]

Each model is a process (`table2_model.py` says how a model is written). `--processes` of them share
the GPU, and the others start as these end. `--mps` starts NVIDIA's multi-process service for that
time. A model resumes from `--from`/NAME.checkpoint if that exists, and trains until its iterations
or the time for training are over. Then its log-likelihood is estimated from two sides.

The folder --out is updated every few seconds. It has summary.json; results.sqlite, with the models
that completed their iterations; log.txt; NAME.checkpoint of at most `--checkpoints` models that are
not done, in the order in which they were started; and NAME.model of models that are trained. At the
end, curves.zip and pictures.zip are added. Models written to a file --more meanwhile are trained
too.
"""

import argparse
import contextlib
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
from table2_model import LAST_SECONDS, Worker, history_of, name_of, run_name, write_curve

TICK = 3.0
MODEL_SECONDS = 60.0  # no model is started with less time left
PASSED_ON = ("data", "minutes", "likelihood_minutes")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0, help="in all")
    parser.add_argument(
        "--likelihood-minutes", type=float, default=0.0,
        help="of these, for the likelihood of models that do not complete their iterations",
    )  # fmt: skip
    parser.add_argument("--models", default="LBP_b-1:90,LBP_s-1:40,ALBP_b:20,ALBP_s:15")
    parser.add_argument("--more", type=Path, help="a file with further models, read as it grows")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--checkpoints", type=int, default=4)
    parser.add_argument("--from", dest="start_from", type=Path)
    parser.add_argument("--mps", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a check that everything works")
    parser.add_argument("--worker", help="internal: train this model")
    parser.add_argument("--began", type=float, help="internal")
    return parser.parse_args()


@contextlib.contextmanager
def multi_process_service(wanted: bool):
    """NVIDIA's service, for the time of a block, if it is installed."""
    control = shutil.which("nvidia-cuda-mps-control") if wanted else None
    if control:
        subprocess.run([control, "-d"], check=False, timeout=20)
    yield
    if control:
        subprocess.run([control], input=b"quit\n", check=False, timeout=20)


class Parent:
    """Starts the workers, and collects their results."""

    def __init__(self, options):
        self.options, self.began = options, time.time()
        self.specs = options.models.split(",")
        self.processes: dict[str, subprocess.Popen] = {}
        self.copied: dict[str, Path] = {}

    def folder(self, spec: str) -> Path:
        return self.options.work / name_of(spec)

    def start(self, spec: str) -> subprocess.Popen:
        """Start the process of a model, with the checkpoint that it resumes from in its folder."""
        options = self.options
        self.folder(spec).mkdir(parents=True, exist_ok=True)
        self.take_up(spec)
        command = [sys.executable, __file__, "--worker", spec, "--began", str(self.began)]
        for name in PASSED_ON:
            value = getattr(options, name)
            if value is not None:
                command += [f"--{name.replace('_', '-')}", str(value)]
        command += ["--out", str(options.work), *(["--tiny"] if options.tiny else [])]
        return subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def take_up(self, spec: str) -> None:
        """Copy the checkpoint that a model resumes from into its folder, if there is one."""
        from hopscale.learn import checkpoint

        if self.options.start_from is None:
            return
        found = self.options.start_from / f"{run_name(spec)}.checkpoint"
        if found.exists():
            step = checkpoint.read(found).about["step"]
            folder = self.folder(spec) / "run"
            folder.mkdir(exist_ok=True)
            shutil.copy(found, folder / f"step-{step:09d}{checkpoint.SUFFIX}")
            print(f"{spec} goes on from {found} at iteration {step}", flush=True)

    def run(self) -> None:
        options = self.options
        options.out.mkdir(parents=True, exist_ok=True)
        options.work = Path(tempfile.mkdtemp())
        with multi_process_service(options.mps), (options.out / "log.txt").open("w") as self.log:
            self.train()
            self.stop()
            self.collect()
            self.record()
        print((options.out / "log.txt").read_text()[-4_000:])

    def train(self) -> None:
        """Keep `--processes` models in training until all are done or time is up."""
        waiting = list(self.specs)
        end = self.began + 60 * self.options.minutes - LAST_SECONDS
        while time.time() < end:
            waiting += self.more()
            running = [p for p in self.processes.values() if p.poll() is None]
            needed = 0 if self.options.tiny or not self.processes else MODEL_SECONDS
            if waiting and len(running) < self.options.processes and time.time() + needed < end:
                spec = waiting.pop(0)
                self.processes[spec] = self.start(spec)
                continue
            if not running and (not waiting or time.time() + needed >= end):
                return
            time.sleep(1.0 if self.options.tiny else TICK)
            self.collect()

    def more(self) -> list[str]:
        """Models that were added to the file --more since it was last read."""
        file = self.options.more
        if file is None or not file.exists():
            return []
        added = [spec for spec in file.read_text().split() if spec not in self.specs]
        self.specs += added
        return added

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
        """Copy current results to the output folder. A failure here must not end training."""
        try:
            self.copy_checkpoints()
            self.copy_models()
            self.summarise()
        except Exception as error:
            print(f"collecting: {error!r}", flush=True)

    def copy_checkpoints(self) -> None:
        """Copy the newest checkpoint of models that are not done, at most `--checkpoints`."""
        from hopscale.learn import checkpoint

        chosen = [spec for spec in self.processes if self.stage(spec) != "done"]
        chosen = chosen[: self.options.checkpoints]
        for spec in set(self.copied) - set(chosen):
            (self.options.out / f"{run_name(spec)}.checkpoint").unlink(missing_ok=True)
            del self.copied[spec]
        for spec in chosen:
            found = checkpoint.paths(self.folder(spec) / "run")
            if found and self.copied.get(spec) != found[-1]:
                self.copy(found[-1], f"{run_name(spec)}.checkpoint")
                self.copied[spec] = found[-1]
                self.tell(spec)

    def copy_models(self) -> None:
        for spec in self.processes:
            model = self.folder(spec) / "model.checkpoint"
            name = f"{name_of(spec)}.model"
            if model.exists() and not (self.options.out / name).exists():
                self.copy(model, name)

    def copy(self, path: Path, name: str) -> None:
        scratch = self.options.work / "copy.part"
        shutil.copy(path, scratch)
        shutil.move(scratch, self.options.out / name)

    def tell(self, spec: str) -> None:
        """Log a line on the last iterations of a model in training."""
        history = history_of(self.folder(spec))
        assert history is not None
        last = {name: f"{np.mean(values[-500:]):.4g}" for name, values in history.items()}
        seconds = time.time() - self.began
        self.log.write(f"{seconds:7.1f} {spec} {len(history['gap'])}: {json.dumps(last)}\n")
        self.log.flush()

    def abouts(self) -> dict[str, dict]:
        """What each model's process has reported."""
        files = {spec: self.folder(spec) / "about.json" for spec in self.specs}
        return {spec: json.loads(file.read_text()) for spec, file in files.items() if file.exists()}

    def stage(self, spec: str) -> str:
        return self.abouts().get(spec, {"stage": "starting"})["stage"]

    def summarise(self) -> None:
        from hopscale_reproduction.rows import new_row
        from hopscale_reproduction.store import Store

        abouts = list(self.abouts().values())
        (self.options.out / "summary.json").write_text(json.dumps(abouts, indent=1))
        with Store(self.options.out / "results.sqlite") as store:
            for about in abouts:
                if "results" in about and store.get(about["settings"]) is None:
                    results = {**about["results"], "seconds": about["seconds"]}
                    row = new_row(about["settings"], results, "ebm")
                    row["hardware"] = about["hardware"]
                    store.add_all([row])

    def record(self) -> None:
        """Write curves and pictures to two archives."""
        with zipfile.ZipFile(self.options.out / "pictures.zip", "w") as archive:
            for spec in self.specs:
                for picture in sorted(self.folder(spec).glob("*.png")):
                    archive.write(picture, f"{name_of(spec)}_{picture.name}")
        with zipfile.ZipFile(self.options.out / "curves.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for spec in self.specs:
                folder = self.folder(spec)
                try:
                    curve = write_curve(folder)
                except Exception as error:
                    print(f"no curve of {spec}: {error!r}", flush=True)
                    continue
                if curve is not None:
                    archive.write(curve, f"{name_of(spec)}_curve.csv")


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
