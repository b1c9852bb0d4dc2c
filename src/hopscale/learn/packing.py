"""A training run as the named arrays of a checkpoint, and back; and what identifies a run."""

import dataclasses
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale.disk import storage
from hopscale.disk.identity import identity
from hopscale.disk.storage import FileError, Stored
from hopscale.learn import checkpoint as checkpoints
from hopscale.learn import networks
from hopscale.learn.checkpoint import CheckpointError
from hopscale.learn.ebm import EBM
from hopscale.learn.pcd import Learner
from hopscale.learn.settings import PCD
from hopscale.targets import Bernoulli
from hopscale.validate import choice


def fingerprint(model: EBM, data, sampler, scale, settings: PCD, key) -> dict[str, Any]:
    """What a run must share with a checkpoint to continue from it."""
    weights, rest = eqx.partition(model.network, eqx.is_array)
    shapes = [f"{name} {a.dtype}{list(a.shape)}" for name, a in storage.pack(weights).items()]
    return {
        **dataclasses.asdict(settings),
        "network": _digest("\n".join([*shapes, json.dumps(identity(rest))]).encode()),
        "base": _digest(np.asarray(model.base.p).tobytes()),
        "data": _digest(np.ascontiguousarray(data).tobytes()),
        "sampler": identity(sampler),
        "scale": identity(scale),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        **({"ratios": "exact"} if model.ratios == "exact" else {}),
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def packed(state: Learner, base: Bernoulli, history: np.ndarray) -> dict[str, Any]:
    """The state as arrays by name, with eight bits of the buffer to a byte."""
    buffer = np.asarray(state.buffer)
    return {
        **storage.pack(state._replace(buffer=None)),
        "buffer": np.packbits(buffer.reshape(len(buffer), -1).astype(np.uint8), axis=1),
        "base": np.asarray(base.p),
        "history": history,
    }


def unpacked(found: Stored, like: Learner) -> Learner:
    """The state that a checkpoint holds, with the structure of a fresh one."""
    buffer = jnp.asarray(load_samples(found, like.buffer.shape[1:]), like.buffer.dtype)
    return _unpacked(found, like._replace(buffer=None))._replace(buffer=buffer)


def load_samples(found: Stored, shape: tuple[int, ...]) -> np.ndarray:
    """The replay buffer of a checkpoint: states along the first axis."""
    bits = np.unpackbits(found.arrays["buffer"], axis=1, count=math.prod(shape))
    return bits.reshape(-1, *shape).astype(np.int8)


def load_weights(found: Stored, network, which: str = "average"):
    """A network of this form with the weights of a checkpoint: "average", or the last "network"."""
    return _unpacked(found, network, f".{which}")


def _unpacked(found: Stored, like: Any, prefix: str = "") -> Any:
    try:
        return storage.unpack(found.arrays, like, prefix, source=found.path)
    except FileError as error:
        raise CheckpointError(f"{error} It is of another network.") from error


def load_model(place: str | Path, network=None, which: str = "average") -> EBM:
    """The model of a checkpoint, or of the newest good one in a directory.

    Args:
        place: the file or directory.
        network: a network with the structure of the trained one, whose weights are replaced. None
            if the command line made it, whose checkpoints describe the network.
        which: "average" for the average of the weights, "network" for the last ones.
    """
    choice("which", which, ("average", "network"))
    found = checkpoints.find(place)
    if network is None:
        network = described_network(found)
    ratios = found.about["fingerprint"].get("ratios", "gradient")
    return EBM(load_weights(found, network, which), found.arrays["base"], ratios)


def described_network(found: Stored):
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
