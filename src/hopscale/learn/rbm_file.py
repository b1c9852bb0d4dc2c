"""An RBM in training as a file: the model, and everything needed to resume bit for bit."""

import dataclasses
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from hopscale.data import DataSet
from hopscale.disk import files, storage
from hopscale.disk.identity import differences
from hopscale.disk.storage import FileError
from hopscale.target import State
from hopscale.targets import RBM
from hopscale.validate import as_key, count, number

KIND = "an RBM in training"
PARAMETERS = ("weights", "visible_bias", "hidden_bias")


@dataclasses.dataclass(frozen=True)
class RBMRecipe:
    """How to train an RBM.

    Attributes:
        hidden: hidden units.
        cd: k, steps of block Gibbs sampling per iteration.
        persistent: chains go on from iteration to iteration (PCD) instead of starting at data.
        batch: images, and chains, per iteration.
        rate: Adam's learning rate.
        seed: for weights, order, bits and chains.
    """

    hidden: int = 400
    cd: int = 100
    persistent: bool = False
    batch: int = 100
    rate: float = 1e-3
    seed: int = 0

    def __post_init__(self):
        for name in ("hidden", "cd", "batch"):
            count(name, getattr(self, name), minimum=1)
        number("rate", self.rate, 0, float("inf"), "()")
        if not isinstance(self.persistent, bool):
            raise TypeError(f"persistent must be True or False; got {self.persistent!r}.")
        as_key(self.seed)


class Learner(NamedTuple):
    """Everything that changes: the model, its optimizer, the chains of PCD, and the progress."""

    rbm: RBM
    optimizer: Any
    chains: State
    epoch: int
    history: tuple[dict[str, float], ...]


def save(path: Path, recipe: RBMRecipe, data: DataSet, learner: Learner) -> None:
    """Write the file, whole or not at all."""
    about = {
        "recipe": dataclasses.asdict(recipe),
        "data": data.name,
        "data_sha256": data.digest,
        "epoch": learner.epoch,
        "history": learner.history,
        "command": command(recipe, data, learner.epoch),
        "versions": versions(),
    }
    arrays: dict[str, np.ndarray] = {}
    for name, part in _named(learner).items():
        arrays |= storage.pack(part, name)
    storage.write(path, KIND, about, arrays)


def _named(learner: Learner) -> dict[str, Any]:
    """The parts of a learner under their names in a file."""
    parameters = {name: getattr(learner.rbm, name) for name in PARAMETERS}
    return {**parameters, "chains": learner.chains, "optimizer": learner.optimizer}


def exclusive(path: Path):
    """A context in which no other run can train into the file; `InUseError` says who does."""
    return files.exclusive(f"{path}.lock", str(path))


def enter(path: Path, resume: bool, recipe: RBMRecipe, data: DataSet, fresh: Learner) -> Learner:
    """The learner that training starts from: a fresh one, or the one in the file."""
    files.check_writable(path, overwrite=True)
    if path.exists() and not resume:
        raise FileExistsError(f"{path} exists: resume it, or give another file.")
    if not resume:
        return fresh
    found = storage.read(path, KIND)
    _check_same_run(path, found.about, recipe, data)
    back = {
        name: storage.unpack(found.arrays, part, name, source=path)
        for name, part in _named(fresh).items()
    }
    return Learner(
        rbm=_rbm(back),
        optimizer=back["optimizer"],
        chains=back["chains"],
        epoch=found.about["epoch"],
        history=tuple(found.about["history"]),
    )


def _check_same_run(path: Path, about: Mapping, recipe: RBMRecipe, data: DataSet) -> None:
    found = {**about["recipe"], "data": about["data"], "data_sha256": about["data_sha256"]}
    needed = {**dataclasses.asdict(recipe), "data": data.name, "data_sha256": data.digest}
    differ = differences(found, needed)
    if differ:
        raise FileError(
            f"{path} is of another run: {'; '.join(differ)}. Resume with the settings it was made "
            "with, or give another file."
        )


def load_rbm(path: str | Path, ratios: str = "gradient") -> RBM:
    """The model of a file that training wrote, as a target."""
    return _rbm(parameters(path)[0], ratios)


def parameters(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Weights and biases by name from a file that training wrote, and its description."""
    found = storage.read(path, KIND)
    missing = [name for name in PARAMETERS if name not in found.arrays]
    if missing:
        raise FileError(f"{path} is damaged: it has no array {', '.join(missing)}. Train again.")
    return {name: found.arrays[name] for name in PARAMETERS}, found.about


def _rbm(arrays: Mapping[str, Any], ratios: str = "gradient") -> RBM:
    return RBM(arrays["weights"], arrays["visible_bias"], arrays["hidden_bias"], ratios=ratios)


def command(recipe: RBMRecipe, data: DataSet, epochs: int) -> str:
    """The command that trains the same model."""
    return (
        f"hopscale train rbm --hidden {recipe.hidden} --data {data.name} --epochs {epochs} "
        f"--cd {recipe.cd} {'--pcd ' * recipe.persistent}--batch {recipe.batch} "
        f"--rate {recipe.rate:g} --seed {recipe.seed}"
    )


def versions() -> dict[str, str]:
    """The versions of the software that the numbers depend on."""
    import optax

    import hopscale

    versions = {m.__name__: m.__version__ for m in (hopscale, jax, np, optax)}
    return {**versions, "python": platform.python_version()}
