"""Table 2: training deep EBMs with ever fewer steps an iteration.

`least.py` says which number of steps suffices and what is to be known; here models are trained,
judged and stored. Several processes may work on one store.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hopscale_reproduction import tables
from hopscale_reproduction.cells import digest
from hopscale_reproduction.least import (
    COLUMNS,
    PROFILES,
    REFERENCE,
    Least,
    Model,
    NoReferenceError,
    Profile,
    Search,
)
from hopscale_reproduction.least import settings as settings_of
from hopscale_reproduction.reproduce import Outcome
from hopscale_reproduction.store import Store

Found = Mapping[str, Mapping[str, Least | None]]  # by data set and sampler

CHECKPOINTS = "ebm-checkpoints"  # folders beside the store
PICTURES = "pictures"


def run(
    profile: str, store: Store, data_dir: str | Path | None = None, minutes: float | None = None
) -> Outcome:
    """Run what is missing, a line for each model, and print the table.

    Args:
        profile: "quick" or "full".
        store: of results; checkpoints and pictures go to folders beside its file.
        data_dir: of the data sets' files; "quick" needs none.
        minutes: stop after so long; an estimate of log Z that was begun is finished. None: no
            limit.

    Ctrl-C ends it in order: what was done is in the outcome, and the table.

    Raises:
        NoReferenceError: at the end, where a reference diverged.
    """
    lines, began = Console(stderr=True), time.monotonic()
    experiment = Table2(
        store, profile, data_dir, minutes, say=lambda line: lines.print(line, highlight=False)
    )
    complete, stopped = False, False
    try:
        complete = experiment.run()
    except KeyboardInterrupt:
        stopped = True
    Console().print(table(experiment.found(), experiment.profile))
    if complete and experiment.problems:
        raise NoReferenceError(" ".join(experiment.problems.values()))
    known, ran = len(store.rows("ebm")), experiment.ran
    return Outcome("ebm", known, ran, time.monotonic() - began, complete, stopped)


class _TimeIsUp(Exception):
    """A model is not finished; its checkpoint is kept."""


class Table2:
    """The experiment. Every model is looked up in the store first and kept there when done.

    Args:
        store: of results.
        profile: "quick" or "full", or a `Profile`.
        data_dir: of the data sets' files.
        minutes: stop after so long, with a checkpoint of the model in hand.
        say: takes a line about each model.
    """

    def __init__(
        self,
        store: Store,
        profile: str | Profile = "quick",
        data_dir: str | Path | None = None,
        minutes: float | None = None,
        say: Callable[[str], None] = lambda line: None,
    ):
        if isinstance(profile, str):
            if profile not in PROFILES:
                raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}.")
            profile = PROFILES[profile]
        self.store, self.profile, self.say, self.data_dir = store, profile, say, data_dir
        self.search = Search(profile, lambda model: store.get(settings_of(profile, model)))
        self.ran = 0
        self.problems: dict[str, str] = {}  # of data sets whose reference diverged
        self._end = np.inf if minutes is None else time.monotonic() + 60 * minutes

    def run(self) -> bool:
        """Train what is wanted until nothing is, or time is up; whether nothing is."""
        with self.store.renewing():
            while wanted := self._wanted():
                model = self._claimed(wanted)
                try:
                    if model is not None:
                        self.train(model)
                    elif self._left > 1:
                        time.sleep(1.0)  # other processes are at the rest
                    else:
                        return False
                except _TimeIsUp:
                    return False
        with contextlib.suppress(OSError):  # there is none, or older checkpoints are in it
            (self.store.path.parent / CHECKPOINTS).rmdir()
        return True

    def found(self) -> Found:
        """What is known of the least number of steps, by data set and sampler."""
        return {
            data: {column: self.search.least(data, column) for column in COLUMNS}
            for data in self.profile.data
        }

    def train(self, model: Model) -> None:
        """Train and judge one model, and store what came of it."""
        settings = settings_of(self.profile, model)
        began = time.monotonic()
        known = {**self._train(settings), "seconds": time.monotonic() - began}
        self.store.put(settings, known, kind="ebm")
        self._forget(settings)
        self.ran += 1
        self.say(_line(model, known))
        if model == self._reference(model.data):
            self.say(self._forecast(known["seconds"]))

    def _reference(self, data: str) -> Model:
        """The first model of the reference."""
        return Model(data, REFERENCE, self.profile.reference, self.profile.seeds[0])

    def _forecast(self, seconds: float) -> str:
        """How long a data set may take, judged by a model of the reference."""
        steps = len(COLUMNS) * len(self.profile.seeds) * sum(self.profile.counts)
        most = seconds * steps / self.profile.reference / 60
        return f"a data set takes up to {most:.0f} minutes in one process, less if few steps do"

    def _wanted(self) -> list[Model]:
        """Of all data sets; those without a reference are left."""
        wanted = []
        for data in self.profile.data:
            try:
                wanted += self.search.wanted(data)
            except NoReferenceError as error:
                self.problems[data] = str(error)
        return wanted

    def _claimed(self, wanted: list[Model]) -> Model | None:
        """The first that no other process is at."""
        for model in wanted:
            if self.store.claim([digest(settings_of(self.profile, model))]):
                return model
        return None

    @property
    def _left(self) -> float:
        """Seconds until time is up."""
        return self._end - time.monotonic()

    def _train(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Train a model with these settings, and judge it on the validation data."""
        from hopscale import learn
        from hopscale.data import load

        images = load(settings["data"], self.data_dir)
        try:
            trained = self._trained(settings, images)
        except learn.DivergedError as error:
            # What the message says after that is of a checkpoint that is removed now.
            return {"diverged": True, "why": str(error).partition(". ")[0]}
        self._show(settings, trained)
        sizes = {name: settings[name] for name in ("chains", "betas", "repeats", "resample")}
        normalizer = learn.log_z(trained.model, key=settings["seed"], progress=True, **sizes)
        if len(normalizer.by_repeat) < settings["repeats"]:
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

    def _trained(self, settings: dict[str, Any], images):
        """Train, from a checkpoint if a run before this one left any."""
        from hopscale import learn
        from hopscale.learn import checkpoint, networks
        from hopscale.samplers import LBP
        from hopscale.scale import Adaptive, Fixed

        left = self._left
        if left <= 0:
            raise _TimeIsUp
        made = (settings[name] for name in ("channels", "seed", "precision"))
        network = networks.by_name(settings["network"], images.shape, *made)
        names = ("steps", "rate", "warmup", "average", "buffer")
        folder = self._checkpoints(settings)
        trained = learn.train_ebm(
            learn.EBM(network, learn.base_of(images.train)),
            images.train,
            iterations=settings["iterations"],
            sampler=LBP(settings["balance"]),
            scale=Adaptive() if settings["variant"] == "adaptive" else Fixed(1),
            settings=learn.PCD(**{name: settings[name] for name in names}),
            key=settings["seed"],
            directory=folder,
            resume=folder.is_dir() and bool(checkpoint.paths(folder)),
            minutes=None if np.isinf(left) else left / 60,
            any_steps=True,
        )
        if trained.interrupted:
            raise KeyboardInterrupt  # the checkpoints stay, for the next time
        if trained.iterations < settings["iterations"] or self._left <= 0:
            raise _TimeIsUp
        return trained

    def _show(self, settings: dict[str, Any], trained: Any) -> None:
        """Pictures of the reference, for the report."""
        from hopscale.learn import gallery

        if settings == settings_of(self.profile, self._reference(settings["data"])):
            pictures = self.store.path.parent / PICTURES
            pictures.mkdir(parents=True, exist_ok=True)
            gallery.save(pictures, settings["data"], trained, prefix=f"ebm-{settings['data']}_")

    def _checkpoints(self, settings: dict[str, Any]) -> Path:
        """Of these settings alone: those of others, of another version say, cannot be resumed."""
        names = ("data", "balance", "variant", "steps", "seed")
        name = "-".join([*(str(settings[name]) for name in names), digest(settings)[:8]])
        return self.store.path.parent / CHECKPOINTS / name

    def _forget(self, settings: dict[str, Any]) -> None:
        """Remove the checkpoints of a run that is done."""
        folder = self._checkpoints(settings)
        if folder.is_dir():
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def _line(model: Model, result: dict[str, Any]) -> str:
    what = "diverged"
    if not result["diverged"]:
        what = f"{result['log_likelihood']:.2f} ± {result['error']:.2f} nats"
    return (
        f"{model.data} {model.column:8} {model.steps:3d} steps, seed {model.seed}: {what}, "
        f"{result['seconds']:.0f} s"
    )


@functools.cache
def paper() -> dict[tuple[str, str], int]:
    """The printed table: steps by data set and column."""
    return {
        (data, column): tables.steps(data, *method)
        for data in PROFILES["full"].data
        for column, method in COLUMNS.items()
    }


def rows(found: Found) -> list[dict[str, str]]:
    """The table as rows of text: ours by data set, then the paper's."""
    made = []
    for data, columns in found.items():
        cells = {
            name: "not run" if least is None else str(least) for name, least in columns.items()
        }
        made.append({"data": data, "source": "ours", **cells})
    for data in dict.fromkeys(data for data, _ in paper()):
        cells = {name: str(paper()[data, name]) for name in COLUMNS}
        made.append({"data": data, "source": "paper", **cells})
    order = {row["data"]: place for place, row in reversed(list(enumerate(made)))}
    return sorted(made, key=lambda row: (order[row["data"]], row["source"]))


def table(found: Found, profile: Profile) -> Table:
    """The same, to be printed."""
    made = Table(title="Table 2: least number of steps an iteration")
    for name in ("data", "", *COLUMNS):
        made.add_column(name, justify="right" if name in COLUMNS else "left")
    for row in rows(found):
        made.add_row(*row.values(), style=None if row["source"] == "ours" else "dim")
    made.caption = (
        f"within {profile.margin:g} nats of the reference; ~: open, log Z is not known well enough"
    )
    return made
