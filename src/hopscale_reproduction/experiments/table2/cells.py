"""What is trained for Table 2; a cell is one model."""

import dataclasses
from typing import Any, ClassVar

from hopscale_reproduction.cells import SINGLE, TUNED
from hopscale_reproduction.checks import check, check_names
from hopscale_reproduction.revisions import with_revision

COLUMNS = {
    "LBP_b-1": ("barker", SINGLE),
    "ALBP_b": ("barker", TUNED),
    "LBP_s-1": ("sqrt", SINGLE),
    "ALBP_s": ("sqrt", TUNED),
}
REFERENCE = "ALBP_s"

# The kinds of a model's settings and results, for checking those read from a file.
SETTINGS = {
    **dict.fromkeys(("experiment", "data", "network", "precision", "balance", "variant"), "text"),
    **dict.fromkeys(
        ("channels", "iterations", "warmup", "buffer", "chains", "betas", "repeats", "steps"),
        "an integer",
    ),
    "seed": "an integer",
    **dict.fromkeys(("rate", "average", "resample"), "a number"),
}
# Settings that exist since the second revision.
LATER_SETTINGS: dict[str, str] = {
    "start": "text",
    **dict.fromkeys(("components", "settle"), "an integer"),
}
LIKELIHOOD: dict[str, str] = dict.fromkeys(("log_likelihood", "error", "effective"), "a number")


@dataclasses.dataclass(frozen=True)
class Profile:
    """The size of the experiment.

    Args:
        data: names of data sets.
        network, channels, precision, start: of the models.
        iterations, learning_rate, learning_rate_warmup, average, buffer: of the training.
        counts: the numbers of steps to try.
        reference: the number of steps of the reference.
        seeds: one model is trained for each.
        margin: how many nats below the reference still suffice.
        chains, betas, repeats, resample, components, settle: of the estimate of log Z from two
            sides (`hopscale.learn.measure_log_z`).
    """

    data: tuple[str, ...]
    network: str
    channels: int
    iterations: int
    learning_rate: float
    learning_rate_warmup: int
    average: float
    buffer: int
    precision: str
    counts: tuple[int, ...]
    reference: int
    seeds: tuple[int, ...]
    margin: float
    chains: int
    betas: int
    repeats: int
    resample: float
    start: str
    components: int
    settle: int


PROFILES = {
    "quick": Profile(
        data=("digits",),
        network="mlp",
        channels=64,
        iterations=2_000,
        learning_rate=1e-3,
        learning_rate_warmup=200,
        average=0.99,
        buffer=1_000,
        precision="default",
        counts=(1, 2, 3, 4, 5, 6, 8, 10),
        reference=10,
        seeds=(0, 1),
        margin=0.3,
        chains=100,
        betas=500,
        repeats=2,
        resample=0.0,
        start="he",  # the only one that an MLP has
        components=20,
        settle=500,
    ),
    # The protocol of Grathwohl et al. (2021), with the buffer of the authors' released code, and
    # with iterations cut from 50,000 to the number that a verdict needs.
    "paper": Profile(
        data=("static-mnist", "dynamic-mnist", "omniglot", "caltech"),
        network="resnet",
        channels=64,
        iterations=10_000,
        learning_rate=1e-4,
        learning_rate_warmup=10_000,
        average=0.999,
        buffer=1_000,
        precision="bfloat16",
        counts=(5, 15, 20, 30, 40, 60, 80, 90, 100),  # those of the paper's table
        reference=15,
        seeds=(0, 1, 2),
        margin=5.0,
        chains=200,
        betas=10_000,
        repeats=2,
        resample=0.0,
        start="uniform",
        components=100,
        settle=1_000,
    ),
}


@dataclasses.dataclass(frozen=True)
class TrainingCell:
    """One model to train: a sampler (column), its steps per iteration, a seed."""

    kind: ClassVar[str] = "ebm"

    profile: Profile
    data: str
    column: str
    steps: int
    seed: int

    def settings(self) -> dict[str, Any]:
        """Everything that determines the result."""
        shared = dataclasses.asdict(self.profile)
        for name in ("data", "counts", "reference", "seeds", "margin"):
            del shared[name]
        shared["rate"] = shared.pop("learning_rate")
        shared["warmup"] = shared.pop("learning_rate_warmup")
        balance, variant = COLUMNS[self.column]
        own = {"data": self.data, "steps": self.steps, "seed": self.seed}
        settings = {"experiment": "ebm", **shared, **own, "balance": balance, "variant": variant}
        return with_revision(settings, "table2")

    @staticmethod
    def check(settings: dict[str, Any], results: dict[str, Any]) -> None:
        """Raise a ValueError if they cannot be those of a model."""
        allowed = {**SETTINGS, **LATER_SETTINGS}
        check("settings", settings, allowed if "revision" in settings else SETTINGS)
        check_names("settings", settings, allowed)
        check("results", results, {"diverged": "true or false"})
        if not results["diverged"]:
            check("results", results, LIKELIHOOD)
            if "revision" in settings:
                check("results", results, {"measured": "true or false"})

    @property
    def is_first_reference(self) -> bool:
        """Whether it is the first model of its data set's reference."""
        wanted = (REFERENCE, self.profile.reference, self.profile.seeds[0])
        return (self.column, self.steps, self.seed) == wanted


def references(profile: Profile, data: str) -> list[TrainingCell]:
    """The models of a data set's reference."""
    return [
        TrainingCell(profile, data, REFERENCE, profile.reference, seed) for seed in profile.seeds
    ]
