r"""Training restricted Boltzmann machines by contrastive divergence.

The gradient of the log-likelihood contrasts the free energy at data with that at draws from the
model,

$$-\nabla F(x) + \mathbb E_{y \sim \pi} \nabla F(y),$$

where y is taken after `cd` steps of block Gibbs sampling, from the data (CD-k) or from where the
last iteration left its chains (PCD).
"""

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from hopscale import tables
from hopscale.data import DataSet
from hopscale.learn import rbm_file
from hopscale.learn.health import DivergedError
from hopscale.learn.rbm_file import Learner, RBMRecipe
from hopscale.runs import host
from hopscale.runs.host import Interrupted
from hopscale.target import State
from hopscale.targets import RBM
from hopscale.validate import as_key, count, fits, instance

WEIGHT_SCALE = 0.02
MARGIN = 0.01  # means of data are moved this far from 0 and 1, so that a bias is finite
GAP_IMAGES = 5_000  # images of each split in the free-energy gap, at most

RECORDED = ("reconstruction", "contrast")
HISTORY: tuple[str, ...] = (*RECORDED, "free_energy_gap")


@dataclasses.dataclass(frozen=True)
class TrainedRBM:
    """The result of training.

    Attributes:
        rbm: the model.
        history: by epoch: "reconstruction", the mean squared difference between an image and
            its reconstruction by one step up and down; "contrast", mean F(data) - mean F(chains);
            "free_energy_gap", mean F(valid) - mean F(train) at the end of the epoch.
        epochs: all finished epochs, including those before a resume.
        seconds: the time of this call.
        interrupted: whether Ctrl-C ended it; `rbm` is then as it was at that moment.
    """

    rbm: RBM
    history: dict[str, np.ndarray]
    epochs: int
    seconds: float
    interrupted: bool

    def __str__(self) -> str:
        return tables.text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.html(self)

    def __rich__(self):
        shape = " x ".join(map(str, self.rbm.shape))
        title = f"RBM ({shape} visible, {self.rbm.num_hidden} hidden)"
        return tables.table(title, self._rows(), "in the last finished epoch" * bool(self.epochs))

    def _rows(self):
        stopped = ", stopped by Ctrl-C in the next" if self.interrupted else ""
        yield "epochs", f"{self.epochs:,}{stopped}"
        if self.epochs:
            yield "reconstruction error", f"{self.history['reconstruction'][-1]:.4f}"
            yield "F(data) - F(chains)", f"{self.history['contrast'][-1]:.3f}"
            yield "F(valid) - F(train)", f"{self.history['free_energy_gap'][-1]:.3f}"
        yield "seconds", f"{self.seconds:.1f}"


def begin(recipe: RBMRecipe, data: DataSet) -> Learner:
    """An untrained RBM: small normal weights, and visible biases that give the data's means."""
    if len(data.train) < recipe.batch:
        raise ValueError(
            f"a batch of {recipe.batch} needs as many training images; {data.name} has "
            f"{len(data.train)}. Choose a smaller batch."
        )
    # Weights, their gradient, Adam's two moments, and as much again while a step is computed.
    needed = 8 * 4 * recipe.hidden * int(np.prod(data.shape))
    fits(f"{recipe.hidden:,} hidden units", needed, "Use fewer.")
    key_weights, key_chains = jax.random.split(jax.random.fold_in(as_key(recipe.seed), 0))
    level = 255 if data.grey else 1
    mean = np.clip(data.train.mean(axis=0, dtype=np.float64) / level, MARGIN, 1 - MARGIN)
    weights = WEIGHT_SCALE * jax.random.normal(key_weights, (recipe.hidden, mean.size), jnp.float32)
    rbm = RBM(weights, np.log(mean / (1 - mean)).astype(np.float32), jnp.zeros(recipe.hidden))
    chains = jax.random.bernoulli(key_chains, np.tile(mean, (recipe.batch, *[1] * mean.ndim)))
    return Learner(
        rbm=rbm,
        optimizer=optax.adam(recipe.rate).init(rbm),  # pyright: ignore[reportArgumentType]
        chains=chains.astype(jnp.int8),
        epoch=0,
        history=(),
    )


class RBMTraining:
    """Epochs as a `host.Job`, continuing a learner; `save` is called after each.

    An epoch is one pass over the training images in random order; grey levels become new bits in
    each. Images left over after the last full batch are not used in the epoch.
    """

    def __init__(self, recipe: RBMRecipe, data: DataSet, learner: Learner, epochs: int, save=None):
        self.recipe, self.data, self.learner, self.epochs = recipe, data, learner, epochs
        self.save = save
        self.iterations = len(data.train) // recipe.batch  # of an epoch
        self.done = 0  # iterations of the present epoch

    @property
    def phases(self) -> dict[str, int]:
        return {"training": self.epochs * self.iterations}

    @property
    def at(self) -> tuple[str, int]:
        return "training", self.learner.epoch * self.iterations + self.done

    def room(self) -> int:
        """Iterations until the end of the epoch."""
        return self.iterations - self.done if self.learner.epoch < self.epochs else 0

    def advance(self, steps: int) -> None:
        """Take iterations.

        Raises:
            DivergedError: when a number is no longer finite.
        """
        if self.done == 0:
            self._begin_epoch()
        recipe, learner, span = self.recipe, self.learner, (self.done, self.done + steps)
        # A different rate or seed is a different argument, not a different program.
        fixed = (recipe.cd, recipe.batch, recipe.persistent)
        rate = jnp.asarray(recipe.rate, learner.rbm.dtype)
        carry = (learner.rbm, learner.optimizer, learner.chains)
        (rbm, optimizer, chains), self.records = _advance(
            fixed, rate, *self.epoch_data, jnp.asarray(span), carry, self.records
        )
        self.recent = np.asarray(self.records)[slice(*span)]
        _check_finite(recipe, self.recent, learner.epoch + 1, self.done)
        self.learner = learner._replace(rbm=rbm, optimizer=optimizer, chains=chains)
        self.done += steps
        if self.done == self.iterations:
            self._end_epoch()

    def status(self) -> dict[str, float]:
        return dict(zip(RECORDED, self.recent.mean(axis=0).tolist(), strict=True))

    def _begin_epoch(self) -> None:
        key = jax.random.fold_in(as_key(self.recipe.seed), 1 + self.learner.epoch)
        key_order, key_bits, key_walk = jax.random.split(key, 3)
        bits = jnp.asarray(self.data.binarized(key_bits))
        self.epoch_data = (key_walk, bits, jax.random.permutation(key_order, len(bits)))
        self.records = jnp.zeros((self.iterations, len(RECORDED)))

    def _end_epoch(self) -> None:
        learner = self.learner
        means = np.asarray(self.records, np.float64).mean(axis=0)
        row = [*means.tolist(), free_energy_gap(learner.rbm, self.data)]
        _check_finite(self.recipe, np.array([row]), learner.epoch + 1, self.iterations - 1)
        self.learner = learner._replace(
            epoch=learner.epoch + 1,
            history=(*learner.history, dict(zip(HISTORY, row, strict=True))),
        )
        self.done = 0
        if self.save is not None:
            self.save(self.learner)


def train_rbm(
    data: DataSet,
    recipe: RBMRecipe | None = None,
    *,
    epochs: int = 1,
    file: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> TrainedRBM:
    """Train an RBM by contrastive divergence.

    Args:
        data: the images to learn from.
        recipe: how to train; `RBMRecipe()` by default.
        epochs: the number of epochs in all, including those before a resume.
        file: for the model and everything needed to resume, written after each epoch.
        resume: continue from the file; the run is the same as without a break, bit for bit.
        progress: show a progress bar where there is a terminal.

    Raises:
        DivergedError: when a number is no longer finite; the file has the last finished epoch.
        ValueError: arguments that cannot work, a file of another run, or a damaged one.
        FileExistsError: the file exists and `resume` was not asked for.
        Interrupted: after Ctrl-C or SIGTERM, a KeyboardInterrupt with the model as it is then in
            `.partial`; the file has the last finished epoch.
    """
    recipe = RBMRecipe() if recipe is None else recipe
    instance("data", data, DataSet, 'hs.data.load("digits")')
    instance("recipe", recipe, RBMRecipe, "hs.learn.RBMRecipe(hidden=400)")
    count("epochs", epochs, minimum=1)
    if resume and file is None:
        raise ValueError("resume goes on from a file: give the one that training wrote.")
    place = None if file is None else Path(file)
    learner, save = begin(recipe, data), None
    with contextlib.nullcontext() if place is None else rbm_file.exclusive(place):
        if place is not None:
            learner = rbm_file.enter(place, resume, recipe, data, learner)
            save = lambda learner: rbm_file.save(place, recipe, data, learner)  # noqa: E731
        began = time.perf_counter()
        job = RBMTraining(recipe, data, learner, epochs, save)
        outcome = host.drive(job, seconds=0.5, first_chunk=1, progress=progress)
    learner = job.learner
    trained = TrainedRBM(
        rbm=learner.rbm,
        history={name: np.array([row[name] for row in learner.history]) for name in HISTORY},
        epochs=learner.epoch,
        seconds=time.perf_counter() - began,
        interrupted=outcome == "interrupted",
    )
    if outcome == "interrupted":
        where = f"; {place} has it" if place is not None and learner.epoch else ""
        raise Interrupted(
            f"stopped after epoch {learner.epoch} of {epochs}{where}; the model as it is now is in "
            ".partial of this error",
            trained,
        )
    return trained


def free_energy_gap(rbm: RBM, data: DataSet) -> float:
    """Mean free energy of validation images minus that of training images; grows with overfitting.

    Takes the first 5,000 images of each at most.
    """
    train, valid = (
        _mean_free_energy(rbm, jnp.asarray(data.binarized(0, split)[:GAP_IMAGES]))
        for split in ("train", "valid")
    )
    return float(valid - train)


@jax.jit
def _mean_free_energy(rbm: RBM, x: State) -> Float[Array, ""]:
    return jnp.mean(rbm.free_energy(x))


@eqx.filter_jit
def _advance(
    fixed: tuple[int, int, bool],
    rate: Float[Array, ""],
    key: Key[Array, ""],
    bits: State,
    order: Int[Array, " n"],
    span: Int[Array, " 2"],
    carry: tuple[RBM, Any, State],
    record: Float[Array, "iterations 2"],
):
    """Iterations span[0] ... span[1] - 1 of an epoch, as one program."""
    steps, batch, persistent = fixed
    optimizer = optax.adam(rate)

    def iteration(i, state):
        (rbm, memory, chains), record = state
        x = bits[jax.lax.dynamic_slice(order, (i * batch,), (batch,))]
        start = chains if persistent else x
        y = rbm.gibbs(jax.random.fold_in(key, i), start, steps)

        def contrast(rbm):
            return jnp.mean(rbm.free_energy(x)) - jnp.mean(rbm.free_energy(y))

        value, slope = jax.value_and_grad(contrast)(rbm)
        change, memory = optimizer.update(slope, memory)
        error = jnp.mean((rbm.visible_prob(rbm.hidden_prob(x)) - x) ** 2)
        record = record.at[i].set(jnp.stack([error, value]))
        return (optax.apply_updates(rbm, change), memory, y), record

    return jax.lax.fori_loop(span[0], span[1], iteration, (carry, record))


def _check_finite(recipe: RBMRecipe, seen: np.ndarray, epoch: int, done: int) -> None:
    bad = np.flatnonzero(~np.isfinite(seen).all(axis=1))
    if bad.size:
        raise DivergedError(
            f"training diverged in epoch {epoch}, iteration {done + int(bad[0]) + 1}: the "
            f"reconstruction error or the free energy is not finite. The rate is {recipe.rate:g}; "
            "try a smaller one. What was saved before is untouched."
        )
