"""An RBM in training as a file: the model, and all it takes to go on bit for bit."""

import dataclasses
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hopscale.data import DataSet
from hopscale.learn import archive
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
        cd: k, steps of block Gibbs sampling an iteration.
        persistent: chains go on from iteration to iteration (PCD) instead of starting at data.
        batch: images an iteration, and chains.
        rate: Adam's learning rate.
        seed: of weights, order, bits and chains.
    """

    hidden: int = 400
    cd: int = 100
    persistent: bool = False
    batch: int = 100
    rate: float = 1e-3
    seed: int = 0

    def __post_init__(self):
        for name in ("hidden", "cd", "batch"):
            count(name, getattr(self, name), least=1)
        number("rate", self.rate, 0, float("inf"), "()")
        as_key(self.seed)


class Learner(NamedTuple):
    """What evolves: the model, its optimizer, the chains of PCD, and what is behind them."""

    rbm: RBM
    optimizer: Any
    chains: State
    epoch: int
    history: tuple[dict[str, float], ...]


def save(path: Path, recipe: RBMRecipe, data: DataSet, learner: Learner) -> None:
    """Write the file, whole or not at all."""
    rbm = learner.rbm
    arrays = {
        "weights": rbm.weights,
        "visible_bias": rbm.visible_bias,
        "hidden_bias": rbm.hidden_bias,
        "chains": learner.chains,
        **{f"optimizer_{i}": a for i, a in enumerate(jax.tree.leaves(learner.optimizer))},
    }
    about = {
        "kind": KIND,
        "recipe": dataclasses.asdict(recipe),
        "data": data.name,
        "data_sha256": data.digest,
        "epoch": learner.epoch,
        "history": learner.history,
        "command": command(recipe, data, learner.epoch),
        "versions": versions(),
    }
    archive.write(path, {name: np.asarray(a) for name, a in arrays.items()}, about)


def enter(path: Path, resume: bool, recipe: RBMRecipe, data: DataSet, fresh: Learner) -> Learner:
    """Where training begins: afresh, or where the file left it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}.")
    if not resume:
        if path.exists():
            raise FileExistsError(f"{path} exists: resume it, or give another file.")
        return fresh
    arrays, about = archive.read(path, KIND)
    _check_same_run(path, about, recipe, data)
    read = [
        _matching(path, arrays, f"optimizer_{i}", leaf)
        for i, leaf in enumerate(jax.tree.leaves(fresh.optimizer))
    ]
    return Learner(
        rbm=_rbm({n: _matching(path, arrays, n, getattr(fresh.rbm, n)) for n in PARAMETERS}),
        optimizer=jax.tree.unflatten(jax.tree.structure(fresh.optimizer), read),
        chains=_matching(path, arrays, "chains", fresh.chains),
        epoch=about["epoch"],
        history=tuple(about["history"]),
    )


def _check_same_run(path: Path, about: Mapping, recipe: RBMRecipe, data: DataSet) -> None:
    found = {**about["recipe"], "data": about["data"], "data_sha256": about["data_sha256"]}
    needed = {**dataclasses.asdict(recipe), "data": data.name, "data_sha256": data.digest}
    differ = [
        f"{n} {found.get(n)!r}, not {needed[n]!r}" for n in needed if found.get(n) != needed[n]
    ]
    if differ:
        raise ValueError(
            f"{path} is of another run: {'; '.join(differ)}. Resume with the settings it was made "
            "with, or give another file."
        )


def _matching(path: Path, arrays: Mapping[str, np.ndarray], name: str, like) -> jax.Array:
    array = arrays.get(name)
    if array is None or array.shape != like.shape or array.dtype != like.dtype:
        came = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
        raise ValueError(
            f"{path} cannot be resumed: at {name} it has {came}, and "
            f"{like.dtype}{list(like.shape)} is needed."
        )
    return jnp.asarray(array)


def load_rbm(path: str | Path, ratios: str = "gradient") -> RBM:
    """The model of a file that training wrote, as a target."""
    arrays, _ = archive.read(Path(path), KIND)
    missing = [name for name in PARAMETERS if name not in arrays]
    if missing:
        raise ValueError(f"{path} is damaged: it has no array {', '.join(missing)}. Train again.")
    return _rbm(arrays, ratios)


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
    """What the numbers depend on."""
    import optax

    import hopscale

    made = {m.__name__: m.__version__ for m in (hopscale, jax, np, optax)}
    return {**made, "python": platform.python_version()}
