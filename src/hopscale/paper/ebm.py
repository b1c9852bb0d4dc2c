r"""Table 2: how few Metropolis-Hastings steps an iteration suffice to train a deep EBM.

The paper trains until models are "in same good quality" and does not say how that was judged.
Here a number of steps suffices if, with every seed of the profile,

- training does not diverge (`hopscale.learn.DivergedError`), and
- the log-likelihood of the validation data, $\log \tilde\pi(x) - \log Z$ with log Z by annealed
  importance sampling, is at most `margin` nats an image below the reference.

The reference is the mean over seeds of adaptive LBP with g = sqrt(t) at the largest number of
steps of the profile: one for all samplers of a data set. The margin is 0.3 nats for 8 x 8 images
and 1 nat for 28 x 28, several times the spread between seeds; a cell is marked `~` where the error
of log Z leaves the verdict open, or log Z was not measured for want of effective chains
(`hopscale.learn.reliable`).

The least number is found by halving the list of numbers, which takes for granted that more steps
are no worse; the next number above it is run too, and where that fails the search goes on above.
"""

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from rich.console import Console
from rich.table import Table

from hopscale.paper import tables

COLUMNS = {
    "LBP_b-1": ("barker", "fixed-1"),
    "ALBP_b": ("barker", "adaptive"),
    "LBP_s-1": ("sqrt", "fixed-1"),
    "ALBP_s": ("sqrt", "adaptive"),
}
REFERENCE = "ALBP_s"
PICTURES = "pictures"  # a folder beside the store


class Keeper(Protocol):
    """Where results are kept by their settings: the paper's `Store`, or anything like it."""

    def get(self, settings: dict[str, Any]) -> dict[str, Any] | None: ...

    def put(self, settings: dict[str, Any], results: dict[str, Any], kind: str) -> None: ...


@dataclasses.dataclass(frozen=True)
class Profile:
    """How large an experiment is; `counts` are the numbers of steps to choose from."""

    data: tuple[str, ...]
    network: str
    channels: int
    iterations: int
    rate: float
    warmup: int
    average: float
    counts: tuple[int, ...]
    seeds: tuple[int, ...]
    margin: float
    chains: int
    betas: int
    repeats: int


PROFILES = {
    "quick": Profile(
        data=("digits",),
        network="mlp",
        channels=64,
        iterations=2_000,
        rate=1e-3,
        warmup=200,
        average=0.99,
        counts=(1, 2, 3, 4, 5, 6, 8, 10, 15, 20),
        seeds=(0, 1),
        margin=0.3,
        chains=100,
        betas=1_000,
        repeats=2,
    ),
    "full": Profile(
        data=("static-mnist", "dynamic-mnist", "omniglot", "caltech"),
        network="resnet",
        channels=64,
        iterations=20_000,
        rate=1e-4,
        warmup=2_000,
        average=0.999,
        counts=(5, 10, 15, 20, 30, 40, 60, 80, 90, 100),
        seeds=(0,),
        margin=1.0,
        chains=200,
        betas=5_000,
        repeats=3,
    ),
}


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


class Least(NamedTuple):
    """The least number of steps that suffices; None if none of the list does."""

    steps: int | None
    sure: bool


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

    def run(self) -> dict[str, dict[str, Least]]:
        """The least number of steps by data set and sampler."""
        found = {}
        for data in self.profile.data:
            began = time.perf_counter()
            level = self.reference(data)
            took = time.perf_counter() - began
            if took > 1:
                self.say(self._forecast(data, level, took))
            found[data] = {column: self.least(data, column) for column in COLUMNS}
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

    def reference(self, data: str) -> float:
        """The log-likelihood that counts as good."""
        most = self.profile.counts[-1]
        values = [self.result(data, REFERENCE, most, seed) for seed in self.profile.seeds]
        if any(value["diverged"] for value in values):
            raise ArithmeticError(
                f"on {data}, {REFERENCE} with {most} steps diverged: there is no reference. Take a "
                "smaller rate."
            )
        return float(np.mean([value["log_likelihood"] for value in values]))

    def suffices(self, data: str, column: str, steps: int) -> tuple[bool, bool]:
        """Whether so many steps are enough with every seed, and whether that is sure."""
        most = self.profile.counts[-1]
        least = self.reference(data) - self.profile.margin
        sure = all(self._measured(data, REFERENCE, most, seed) for seed in self.profile.seeds)
        for seed in self.profile.seeds:
            result = self.result(data, column, steps, seed)
            if result["diverged"]:
                return False, True
            above = result["log_likelihood"] - least
            sure = sure and self._measured(data, column, steps, seed)
            sure = sure and abs(above) > 2 * result["error"]
            if above < 0:
                return False, sure
        return True, sure

    def _measured(self, data: str, column: str, steps: int, seed: int) -> bool:
        """Whether enough chains carry the estimate of log Z."""
        from hopscale.learn import reliable

        effective = self.result(data, column, steps, seed)["effective"]
        return reliable(effective, self.profile.chains * self.profile.repeats)

    def least(self, data: str, column: str) -> Least:
        """Halve the list of numbers, then make sure of the next above."""
        counts = self.profile.counts
        enough = functools.cache(lambda place: self.suffices(data, column, counts[place]))
        low, high = -1, len(counts) - 1
        if not enough(high)[0]:
            return Least(None, enough(high)[1])
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle)[0] else (middle, high)
        while high < len(counts) - 1 and not enough(high + 1)[0]:
            high = next(place for place in range(high + 2, len(counts)) if enough(place)[0])
        sure = enough(high)[1] and (high == 0 or enough(high - 1)[1])
        return Least(counts[high], sure)

    def result(self, data: str, column: str, steps: int, seed: int) -> dict[str, Any]:
        """One model, trained and judged, or what is known of it."""
        settings = self.settings(data, column, steps, seed)
        known = self.store.get(settings)
        if known is None:
            began = time.perf_counter()
            known = {**self._train(settings), "seconds": time.perf_counter() - began}
            self.store.put(settings, known, kind="ebm")
            self.say(_line(settings, column, known))
        return known

    def settings(self, data: str, column: str, steps: int, seed: int) -> dict[str, Any]:
        """Everything that decides a result."""
        balance, variant = COLUMNS[column]
        shared = dataclasses.asdict(self.profile)
        for name in ("data", "counts", "seeds", "margin"):
            del shared[name]
        own = {"data": data, "balance": balance, "variant": variant, "steps": steps, "seed": seed}
        return {"experiment": "ebm", **shared, **own}

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

        most = self.settings(settings["data"], REFERENCE, self.profile.counts[-1], 0)
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
