"""A training run as named arrays, and back: what a checkpoint holds, and which run it is of."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale.learn import checkpoint as checkpoints
from hopscale.learn import networks
from hopscale.learn.checkpoint import Checkpoint, CheckpointError
from hopscale.learn.ebm import EBM
from hopscale.learn.pcd import PCD, Learner
from hopscale.results import describe
from hopscale.targets import Bernoulli


def fingerprint(model: EBM, data, sampler, scale, settings: PCD, key) -> dict[str, Any]:
    """What a run must share with a checkpoint to go on from it."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(model.network, eqx.is_array))
    shapes = [f"{jax.tree_util.keystr(path)} {a.dtype}{list(a.shape)}" for path, a in leaves]
    return {
        **dataclasses.asdict(settings),
        "network": _digest("\n".join(shapes).encode()),
        "base": _digest(np.asarray(model.base.p).tobytes()),
        "data": _digest(np.ascontiguousarray(data).tobytes()),
        "sampler": describe(sampler),
        "scale": repr(scale),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _leaves(state: Learner) -> list[tuple[str, Any]]:
    arrays = eqx.filter(state._replace(buffer=None), eqx.is_array)
    return [
        (jax.tree_util.keystr(path), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(arrays)
    ]


def packed(state: Learner, base: Bernoulli, history: np.ndarray) -> dict[str, Any]:
    """Arrays by name; the buffer's bits eight to a byte."""
    buffer = np.asarray(state.buffer)
    return {
        **dict(_leaves(state)),
        "buffer": np.packbits(buffer.reshape(len(buffer), -1).astype(np.uint8), axis=1),
        "base": base.p,
        "history": history,
    }


def unpacked(found: Checkpoint, like: Learner) -> Learner:
    """The state that a checkpoint holds, in the form of a fresh one."""
    bits = np.unpackbits(found.arrays["buffer"], axis=1, count=like.buffer[0].size)
    buffer = jnp.asarray(bits.reshape(like.buffer.shape).astype(like.buffer.dtype))
    arrays, rest = eqx.partition(like._replace(buffer=None), eqx.is_array)
    read = [_matching(found, name, leaf) for name, leaf in _leaves(like)]
    arrays = jax.tree.unflatten(jax.tree.structure(arrays), read)
    return eqx.combine(arrays, rest)._replace(buffer=buffer)


def _matching(found: Checkpoint, name: str, like):
    array = found.arrays.get(name)
    if array is None or array.shape != like.shape or array.dtype != like.dtype:
        came = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
        raise CheckpointError(
            f"{found.path} is of another network: at {name} it has {came}, and "
            f"{like.dtype}{list(like.shape)} is needed."
        )
    return jnp.asarray(array)


def load_weights(found: Checkpoint, network, which: str = "average"):
    """A network of this form with the weights of a checkpoint: "average", or the last "network"."""
    arrays, rest = eqx.partition(network, eqx.is_array)
    leaves = jax.tree_util.tree_leaves_with_path(arrays)
    read = [_matching(found, f".{which}{jax.tree_util.keystr(p)}", leaf) for p, leaf in leaves]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), read), rest)


def load_model(place: str | Path, network=None, which: str = "average") -> EBM:
    """The model of a checkpoint, or of the newest good one in a directory.

    Args:
        place: the file or directory.
        network: a network of the form that was trained, whose weights are replaced. None for one
            that the command line made, which its checkpoints describe.
        which: "average" for the average of the weights, "network" for the last ones.
    """
    found = checkpoints.find(place)
    if network is None:
        network = described_network(found)
    if which not in ("average", "network"):
        raise ValueError(f"which must be 'average' or 'network'; got {which!r}.")
    return EBM(load_weights(found, network, which), found.arrays["base"])


def described_network(found: Checkpoint):
    """The network that a checkpoint's notes describe, with weights still to be replaced."""
    notes = found.about.get("notes", {})
    try:
        return networks.by_name(
            notes["network"], tuple(notes["shape"]), notes["channels"], 0, notes["precision"]
        )
    except KeyError as error:
        raise CheckpointError(
            f"{found.path} does not say what its network is (no {error} in its notes). Pass one "
            "of the same form: load_model(place, network)."
        ) from error
