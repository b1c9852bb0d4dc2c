"""Log Z of a trained model from two sides, starting from what training left."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from hopscale.disk import storage
from hopscale.disk.storage import FileError
from hopscale.learn.ais import log_z
from hopscale.learn.ebm import EBM
from hopscale.learn.estimation import KIND
from hopscale.learn.gallery import settled
from hopscale.learn.log_weights import LogZ
from hopscale.learn.mixture import Mixture
from hopscale.runs.host import Interrupted
from hopscale.validate import as_key, count

FITTED_STATES = 10_000  # the mixture is fitted to at most as many states of the data, at random


def measure_log_z(
    model: EBM,
    data,
    samples,
    *,
    components: int = 100,
    settle: int = 1_000,
    chains: int = 100,
    repeats: int = 5,
    key: Any = 0,
    **options: Any,
) -> LogZ:
    """Log Z of a trained model from two sides.

    Chains walk to the model from a mixture fitted to the data, and back from samples of the model.

    Args:
        model: an `EBM`.
        data: bits that the model was trained on, for the mixture, which is fitted to 10,000 of them
            at random if there are more. They decide how long the path is, not where it leads. None
            takes half of the samples; the others are for the way back.
        samples: states that are nearly the model's, such as the replay buffer (`Trained.samples`),
            at least as many as chains. `chains` x `repeats` of them are used, and first take
            `settle` steps of adaptive LBP.
        components: of the mixture; 0 for the model's own base of independent bits.
        settle: the number of steps; 0 for samples that are the model's already.
        chains, repeats, key: as for `log_z`.
        options: other options of `log_z`: betas, steps, resample, kernel, scale, keep, progress.
    """
    count("components", components, minimum=0)
    count("settle", settle, minimum=0)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))))
    samples = rng.permutation(np.asarray(samples))
    if data is None:
        data, samples = np.split(samples, [len(samples) // 2])
    x = samples[: chains * repeats]
    _check_kept(options.get("keep"), x.shape)
    base = model.base
    if components:
        data = np.asarray(data)
        fitted = rng.permutation(len(data))[:FITTED_STATES]
        base = Mixture.fit(data[fitted], components, key=key)
    if settle:
        try:
            x = settled(model, x, settle, key)
        except Interrupted as error:  # it carries these chains, and no estimate
            what = "stopped while the samples settled; nothing is estimated yet"
            raise Interrupted(what) from error
    return log_z(model, base, reverse_from=x, chains=chains, repeats=repeats, key=key, **options)


def _check_kept(keep: str | Path | None, needed: tuple[int, ...]) -> None:
    """Raise before samples settle if a file's repeats began at another number of them."""
    if keep is None or not Path(keep).exists():
        return
    kept = storage.read(keep, KIND).about["fingerprint"].get("reverse_from")
    if kept is not None and kept["name"] != f"int8{list(needed)}":
        raise FileError(
            f"{keep} holds repeats of another estimate, of another number of chains or of repeats "
            "(--chains, --repeats): these decide at which samples the chains that walk back start. "
            "Give the same numbers to go on with it, or remove it to begin again."
        )
