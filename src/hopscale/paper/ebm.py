"""Table 2: training deep EBMs with ever fewer steps an iteration.

`least.py` says which number of steps suffices; here models are trained, judged and stored.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.table import Table

from hopscale.paper import tables
from hopscale.paper.least import COLUMNS, PROFILES, REFERENCE, Least, Profile, Search
from hopscale.paper.least import settings as settings_of

PICTURES = "pictures"  # a folder beside the store


class Keeper(Protocol):
    """Where results are kept by their settings: the paper's `Store`, or anything like it."""

    def get(self, settings: dict[str, Any]) -> dict[str, Any] | None: ...

    def put(self, settings: dict[str, Any], results: dict[str, Any], kind: str) -> None: ...


def run(profile: str, store: Keeper, data_dir: str | Path | None = None) -> None:
    """Run what is missing, a line for each model, and print the table.

    Args:
        profile: "quick" or "full".
        store: of results; checkpoints go to a folder beside its file.
        data_dir: of the data sets' files; "quick" needs none.
    """
    path = getattr(store, "path", None)
    folder = None if path is None else Path(path).parent / "ebm-checkpoints"
    lines = Console(stderr=True)
    experiment = Table2(
        store, profile, data_dir, folder, say=lambda line: lines.print(line, highlight=False)
    )
    made = table(experiment.run(), experiment.profile)
    if folder is not None and folder.is_dir():
        folder.rmdir()
    Console().print(made)


class Table2:
    """The experiment. Every run is looked up in the store first and kept there when done.

    Args:
        store: of results.
        profile: "quick" or "full", or a `Profile`.
        data_dir: of the data sets' files.
        folder: for the checkpoints of the run in progress, so that a killed one goes on.
        say: takes a line about each run.
    """

    def __init__(
        self,
        store: Keeper,
        profile: str | Profile = "quick",
        data_dir: str | Path | None = None,
        folder: Path | None = None,
        say: Callable[[str], None] = lambda line: None,
    ):
        if isinstance(profile, str):
            if profile not in PROFILES:
                raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}.")
            profile = PROFILES[profile]
        self.store, self.profile, self.say = store, profile, say
        self.data_dir, self.folder = data_dir, folder
        self.search = Search(profile, self.result)

    def run(self) -> dict[str, dict[str, Least]]:
        """The least number of steps by data set and sampler."""
        found = {}
        for data in self.profile.data:
            began = time.perf_counter()
            level = self.search.reference(data)
            took = time.perf_counter() - began
            if took > 1:
                self.say(self._forecast(data, level, took))
            found[data] = {column: self.search.least(data, column) for column in COLUMNS}
        return found

    def _forecast(self, data: str, level: float, took: float) -> str:
        """How long it will take, judged by the reference."""
        counts = self.profile.counts
        runs = 1 + int(np.ceil(np.log2(len(counts))))
        whole = took * len(COLUMNS) * (1 + runs * np.mean(counts) / counts[-1])
        return (
            f"{data}: reference {level:.2f} nats, {took:.0f} s; the rest takes up to "
            f"{whole / 60:.0f} minutes"
        )

    def result(self, data: str, column: str, steps: int, seed: int) -> dict[str, Any]:
        """One model, trained and judged, or what is known of it."""
        settings = settings_of(self.profile, data, column, steps, seed)
        known = self.store.get(settings)
        if known is None:
            began = time.perf_counter()
            known = {**self._train(settings), "seconds": time.perf_counter() - began}
            self.store.put(settings, known, kind="ebm")
            self.say(_line(settings, column, known))
        return known

    def _train(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Train a model with these settings, and judge it on the validation data."""
        from hopscale import learn
        from hopscale.data import load

        images = load(settings["data"], self.data_dir)
        try:
            trained = _trained(settings, images, self._checkpoints(settings))
        except learn.DivergedError as error:
            self._forget(settings)
            return {"diverged": True, "why": str(error)}
        if trained.interrupted:
            raise KeyboardInterrupt  # the checkpoints stay, for the next time
        self._show(settings, trained)
        sizes = {name: settings[name] for name in ("chains", "betas", "repeats")}
        normalizer = learn.log_z(trained.model, key=settings["seed"], **sizes)
        if len(normalizer.by_repeat) < settings["repeats"]:
            raise KeyboardInterrupt
        self._forget(settings)
        score = learn.log_likelihood(trained.model, images.binarized(0, "valid"), normalizer)
        return {
            "diverged": False,
            "log_likelihood": score.value,
            "error": score.error,
            "effective": normalizer.effective,
            "scale": trained.scale,
            "acceptance": float(np.mean(trained.history["acceptance"][-500:])),
            "training_seconds": trained.seconds,
        }

    def _show(self, settings: dict[str, Any], trained: Any) -> None:
        """Pictures of the reference, for the report."""
        from hopscale.learn import gallery

        most = settings_of(self.profile, settings["data"], REFERENCE, self.profile.counts[-1], 0)
        if self.folder is not None and settings == most:
            pictures = self.folder.parent / PICTURES
            pictures.mkdir(parents=True, exist_ok=True)
            gallery.save(pictures, settings["data"], trained, prefix=f"ebm-{settings['data']}_")

    def _checkpoints(self, settings: dict[str, Any]) -> Path | None:
        if self.folder is None:
            return None
        names = ("data", "balance", "variant", "steps", "seed")
        return self.folder / "-".join(str(settings[name]) for name in names)

    def _forget(self, settings: dict[str, Any]) -> None:
        """Remove the checkpoints of a run that is done."""
        folder = self._checkpoints(settings)
        if folder is not None and folder.is_dir():
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def _trained(settings: dict[str, Any], images, folder: Path | None):
    """Train, from a checkpoint if a run before this one left any."""
    from hopscale import learn
    from hopscale.learn import checkpoint, networks
    from hopscale.samplers import LBP
    from hopscale.scale import Adaptive, Fixed

    network = networks.by_name(
        settings["network"], images.shape, settings["channels"], settings["seed"]
    )
    begun = folder is not None and folder.is_dir() and bool(checkpoint.paths(folder))
    return learn.train_ebm(
        learn.EBM(network, learn.base_of(images.train)),
        images.train,
        iterations=settings["iterations"],
        sampler=LBP(settings["balance"]),
        scale=Adaptive() if settings["variant"] == "adaptive" else Fixed(1),
        settings=learn.PCD(
            steps=settings["steps"],
            rate=settings["rate"],
            warmup=settings["warmup"],
            average=settings["average"],
        ),
        key=settings["seed"],
        directory=folder,
        resume=begun,
        progress=False,
    )


def _line(settings: dict[str, Any], column: str, result: dict[str, Any]) -> str:
    what = "diverged"
    if not result["diverged"]:
        what = f"{result['log_likelihood']:.2f} ± {result['error']:.2f} nats"
    return (
        f"{settings['data']} {column:8} {settings['steps']:3d} steps, seed {settings['seed']}: "
        f"{what}, {result['seconds']:.0f} s"
    )


@functools.cache
def paper() -> dict[tuple[str, str], int]:
    """The printed table: steps by data set and column."""
    return {
        (data, column): tables.steps(data, *method)
        for data in PROFILES["full"].data
        for column, method in COLUMNS.items()
    }


def rows(found: dict[str, dict[str, Least]], profile: Profile) -> list[dict[str, str]]:
    """The table as rows of text: ours by data set, then the paper's."""
    made = []
    for data, columns in found.items():
        cells = {name: _shown(least, profile.counts) for name, least in columns.items()}
        made.append({"data": data, "source": "ours", **cells})
    for data in dict.fromkeys(data for data, _ in paper()):
        cells = {name: str(paper()[data, name]) for name in COLUMNS}
        made.append({"data": data, "source": "paper", **cells})
    order = {row["data"]: place for place, row in reversed(list(enumerate(made)))}
    return sorted(made, key=lambda row: (order[row["data"]], row["source"]))


def _shown(least: Least, counts: tuple[int, ...]) -> str:
    text = f"> {counts[-1]}" if least.steps is None else str(least.steps)
    return text if least.sure else f"~{text}"


def table(found: dict[str, dict[str, Least]], profile: Profile) -> Table:
    """The same, to be printed."""
    made = Table(title="Table 2: least number of steps an iteration")
    for name in ("data", "", *COLUMNS):
        made.add_column(name, justify="right" if name in COLUMNS else "left")
    for row in rows(found, profile):
        made.add_row(*row.values(), style=None if row["source"] == "ours" else "dim")
    made.caption = (
        f"within {profile.margin:g} nats of the reference; ~: open, log Z is not known well enough"
    )
    return made
