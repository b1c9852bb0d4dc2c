r"""Training restricted Boltzmann machines by contrastive divergence.

The gradient of the log-likelihood is that of the free energy at data against that at draws from
the model,

$$-\nabla F(x) + \mathbb E_{y \sim \pi} \nabla F(y),$$

with y taken after `cd` steps of block Gibbs sampling: from the data (CD-k), or from where the
last iteration left its chains (PCD).
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from hopscale.data import DataSet
from hopscale.learn import rbm_file as storage
from hopscale.learn.rbm_file import Learner, RBMRecipe
from hopscale.learn.training import DivergedError
from hopscale.progress import watch
from hopscale.target import State
from hopscale.targets import RBM
from hopscale.validate import as_key, count

WEIGHT_SCALE = 0.02
MARGIN = 0.01  # means of data are kept this far from 0 and 1, so that a bias is finite
HELD = 5_000  # images of each split behind the free-energy gap
CHUNK_SECONDS = 0.5

RECORDED = ("reconstruction", "contrast")
HISTORY: tuple[str, ...] = (*RECORDED, "free_energy_gap")


@dataclasses.dataclass(frozen=True)
class TrainedRBM:
    """What training leaves.

    Attributes:
        rbm: the model.
        history: by epoch: "reconstruction", the mean squared difference between an image and
            what one step up and down makes of it; "contrast", mean F(data) - mean F(chains);
            "free_energy_gap", mean F(valid) - mean F(train) at the end of the epoch.
        epochs: whole epochs in all, before a resume too.
        seconds: of this call.
        interrupted: whether Ctrl-C ended it; `rbm` is then as it was at that moment.
    """

    rbm: RBM
    history: dict[str, np.ndarray]
    epochs: int
    seconds: float
    interrupted: bool


def begin(recipe: RBMRecipe, data: DataSet) -> Learner:
    """An untrained RBM: small normal weights, and visible biases that give the data's means."""
    if len(data.train) < recipe.batch:
        raise ValueError(
            f"a batch of {recipe.batch} needs as many training images; {data.name} has "
            f"{len(data.train)}. Choose a smaller batch."
        )
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


def train_epoch(recipe: RBMRecipe, data: DataSet, learner: Learner, watched: Any = None) -> Learner:
    """One pass over the training images, in random order; grey levels become bits anew.

    Images left over after the last whole batch are left out of this epoch. Where `watched` says
    that it was asked to stop, the learner comes back in the middle of its epoch, not counted.

    Raises:
        DivergedError: when a number is no longer finite.
    """
    key = jax.random.fold_in(as_key(recipe.seed), 1 + learner.epoch)
    key_order, key_bits, key_walk = jax.random.split(key, 3)
    bits = jnp.asarray(data.binarized(key_bits))
    order = jax.random.permutation(key_order, len(bits))
    carry = (learner.rbm, learner.optimizer, learner.chains)
    record = jnp.zeros((len(bits) // recipe.batch, len(RECORDED)))
    # Another rate or seed is another argument, not another program.
    fixed = (recipe.cd, recipe.batch, recipe.persistent)
    rate = jnp.asarray(recipe.rate, learner.rbm.dtype)
    for span in _spans(len(record)):
        between = jnp.asarray(span)
        carry, record = _advance(fixed, rate, key_walk, bits, order, between, carry, record)
        seen = np.asarray(record)[slice(*span)]
        _check_finite(recipe, seen, learner.epoch + 1, span[0])
        if watched is not None:
            status = dict(zip(RECORDED, seen.mean(axis=0), strict=True))
            done = learner.epoch * len(record) + span[1]
            watched.show("train", done, lambda status=status: status)
            if watched.stopped and span[1] < len(record):
                return learner._replace(rbm=carry[0], optimizer=carry[1], chains=carry[2])
    means = np.asarray(record, np.float64).mean(axis=0)
    row = [*means.tolist(), free_energy_gap(carry[0], data)]
    _check_finite(recipe, np.array([row]), learner.epoch + 1, len(record) - 1)
    return Learner(
        rbm=carry[0],
        optimizer=carry[1],
        chains=carry[2],
        epoch=learner.epoch + 1,
        history=(*learner.history, dict(zip(HISTORY, row, strict=True))),
    )


def _spans(total: int) -> Iterator[tuple[int, int]]:
    """Chunks of iterations that take about half a second each."""
    first, chunk = 0, 1
    while first < total:
        began = time.perf_counter()
        last = min(first + chunk, total)
        yield first, last
        took = time.perf_counter() - began
        chunk = max(1, int((last - first) * min(CHUNK_SECONDS / took, 8)))
        first = last


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
        data: what to learn from.
        recipe: how; `RBMRecipe()` unless said.
        epochs: how many in all, those before a resume included.
        file: for the model and all it takes to go on, written after each epoch.
        resume: go on from the file: the same run as without a break, bit for bit.
        progress: show a progress bar where there is a terminal.

    Raises:
        DivergedError: when a number is no longer finite; the file keeps the last whole epoch.
        ValueError: arguments that cannot work, a file of another run, or a damaged one.
        FileExistsError: the file exists and `resume` was not asked for.
        InUseError: another process is training into the file.
    """
    recipe = RBMRecipe() if recipe is None else recipe
    count("epochs", epochs, least=1)
    place = None if file is None else Path(file)
    learner = begin(recipe, data)
    with contextlib.nullcontext() if place is None else storage.exclusive(place):
        if place is not None:
            learner = storage.enter(place, resume, recipe, data, learner)
        began = time.perf_counter()
        phases = {"train": epochs * (len(data.train) // recipe.batch)}
        with watch(progress, phases, "returning the model as it is") as watched:
            while learner.epoch < epochs and not watched.stopped:
                before = learner.epoch
                learner = train_epoch(recipe, data, learner, watched)
                if place is not None and learner.epoch > before:
                    storage.save(place, recipe, data, learner)
    return TrainedRBM(
        rbm=learner.rbm,
        history={name: np.array([row[name] for row in learner.history]) for name in HISTORY},
        epochs=learner.epoch,
        seconds=time.perf_counter() - began,
        interrupted=watched.stopped,
    )


def free_energy_gap(rbm: RBM, data: DataSet) -> float:
    """Mean free energy of validation images above that of training images: grows as it overfits.

    Of the first 5,000 of each at most.
    """
    train, valid = (
        _mean_free_energy(rbm, jnp.asarray(data.binarized(0, split)[:HELD]))
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
