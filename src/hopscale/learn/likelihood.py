"""The likelihood of data, given the normaliser of a model."""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from hopscale import tables
from hopscale.learn.log_weights import LogZ
from hopscale.target import State, Target
from hopscale.validate import bits, count, instance


class LogLikelihood(NamedTuple):
    """The mean log-likelihood of data, in nats a state.

    `error` is that of log Z alone; `spread` is the standard error of the mean over the data;
    `reliable` says whether log Z, and so the value, is a measurement at all.
    """

    value: float
    error: float
    spread: float
    reliable: bool

    def __str__(self) -> str:
        return tables.text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.html(self)

    def __rich__(self):
        doubt = "" if self.reliable else "  NOT MEASURED"
        rows = (
            ("mean", f"{self.value:.3f}{doubt}"),
            ("error of log Z", f"{self.error:.2g}"),
            ("error by the data", f"{self.spread:.2g}"),
        )
        return tables.table("log-likelihood, nats a state", rows)


def log_likelihood(target: Target, data, normalizer: LogZ, batch: int = 500) -> LogLikelihood:
    """The mean of log_prob(x) - log Z over the data.

    Args:
        target: the target whose log Z was estimated.
        data: states along the first axis: bits 0 and 1. Grey levels are refused: draw bits from
            them with `DataSet.binarized`.
        normalizer: what `log_z` returned.
        batch: the number of states evaluated together.
    """
    if not isinstance(target, Target) or target.num_states != 2:
        raise TypeError(f"target must be a hopscale target over bits; got {target!r:.80}.")
    instance("normalizer", normalizer, LogZ, "hs.learn.log_z(target)")
    count("batch", batch, minimum=1)
    x = bits("data", data)
    if x.shape[1:] != target.shape or len(x) == 0:
        raise ValueError(
            f"data must hold states of the target's shape {target.shape} along the first axis; "
            f"got {x.shape}."
        )
    values = np.asarray(_log_probs(target, x, batch), np.float64)
    return LogLikelihood(
        value=float(values.mean() - normalizer.value),
        error=normalizer.error,
        spread=float(values.std() / np.sqrt(len(values))),
        reliable=normalizer.reliable,
    )


@eqx.filter_jit
def _log_probs(target: Target, x: State, batch: int):
    return jax.lax.map(target.log_prob, x, batch_size=batch)
