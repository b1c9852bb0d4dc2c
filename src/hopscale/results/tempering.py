"""Results of parallel tempering."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale import tables
from hopscale.record import Recorder
from hopscale.target import Target
from hopscale.tune.ladder import barriers

NAME = "tempering"  # of the recorder in a run
MOST_LEVELS = 128
FEWEST_LEVELS = 3


class TemperingResult(NamedTuple):
    r"""Results of parallel tempering, over all draws.

    Attributes:
        betas: inverse temperatures of the levels, from 0, the reference, to 1, the target.
        scales: of the kernel at each level; NaN at the reference, which is drawn exactly.
        rejections: how often each pair of neighbours rejects a swap, on average.
        barrier: the communication barrier, the sum of rejections. With L levels, all with the same
            rejection rate r, a chain makes a round trip in about $2 + 2 L r / (1 - r)$ steps. Twice
            the barrier plus one is a good number of levels.
        round_trips: how often a state of the reference reached the target and came back to the
            reference, over all chains.
        log_z: the log of the normalising constant, which is the sum of the target's density over
            all states, in nats: bridge estimates between neighbours (Bennett, 1976), added up.
        log_z_error: its standard error, by leaving out one chain at a time; NaN for one chain.
    """

    betas: np.ndarray
    scales: np.ndarray
    rejections: np.ndarray
    barrier: float
    round_trips: int
    log_z: float
    log_z_error: float

    def summary(self) -> dict[str, Any]:
        """The numbers, ready for JSON."""
        found = self._asdict()
        return {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in found.items()}

    @property
    def levels_needed(self) -> int:
        """How many levels this barrier asks for."""
        return levels_for(self.rejections)

    def __str__(self) -> str:
        return tables.text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.html(self)

    def __rich__(self):
        return tables.table("Parallel tempering", self._rows())

    def _rows(self):
        yield "levels", f"{len(self.betas)}, the barrier asks for {self.levels_needed}"
        yield "barrier", f"{self.barrier:.3g}"
        yield "swaps rejected", f"{self.rejections.min():.0%} to {self.rejections.max():.0%}"
        yield "round trips", f"{self.round_trips:,}"
        yield "log Z", f"{self.log_z:.4f} ± {self.log_z_error:.2g}"


class _Memory(NamedTuple):
    """Sums over draws, and the rounding errors of these sums."""

    total: Any  # (chains, 3, pairs): swap_prob, forward, backward
    lost: Any
    trips: Any  # (chains,)
    betas: Any
    scales: Any
    log_z: Any


class Swaps(Recorder):
    """Swaps, round trips and log Z of a tempered run.

    Attributes:
        levels: the number of levels.
    """

    levels: int = eqx.field(static=True)

    in_warmup: ClassVar[bool] = True

    def init(self, target: Target, chains: int) -> _Memory:
        pairs = self.levels - 1
        sums = jnp.zeros((chains, 3, pairs), target.dtype)
        return _Memory(
            total=sums,
            lost=jnp.zeros_like(sums),
            trips=jnp.zeros(chains, jnp.int32),
            betas=jnp.zeros(self.levels, target.dtype),
            scales=jnp.zeros(pairs, target.dtype),
            log_z=jnp.zeros(pairs, target.dtype),
        )

    def update(self, memory: _Memory, states: Any, info: Any) -> _Memory:
        seen = jnp.stack([info.swap_prob, info.forward, info.backward], axis=1)
        added = seen - memory.lost
        after = memory.total + added
        first = info.ladder.scales[:1]  # the same for all chains, unless each has its own
        return _Memory(
            total=after,
            lost=(after - memory.total) - added,
            trips=memory.trips + info.round_trips,
            betas=info.ladder.betas[0],  # the same for all chains
            scales=first[0] + jnp.mean(info.ladder.scales - first, axis=0),
            log_z=info.ladder.log_z[0],
        )

    def result(self, memory: _Memory, draws: int) -> TemperingResult:
        memory = jax.tree.map(lambda a: np.asarray(a, np.float64), memory)
        mean = memory.total / max(draws, 1)  # (chains, 3, pairs)
        rejections = 1.0 - mean[:, 0].mean(axis=0)
        log_z, error = _log_z(mean[:, 1], mean[:, 2], memory.log_z)
        return TemperingResult(
            betas=memory.betas,
            scales=np.concatenate([[np.nan], memory.scales]),
            rejections=rejections,
            barrier=float(rejections.sum()),
            round_trips=int(memory.trips.sum()),
            log_z=log_z,
            log_z_error=error,
        )


def _log_z(forward: np.ndarray, backward: np.ndarray, guess: np.ndarray) -> tuple[float, float]:
    """log Z from the means of each chain, and its error by the jackknife over chains."""

    def estimate(forward, backward):
        return np.sum(guess + np.log(forward) - np.log(backward), axis=-1)

    with np.errstate(divide="ignore", invalid="ignore"):
        value, chains = float(estimate(forward.mean(axis=0), backward.mean(axis=0))), len(forward)
        if chains < 2:
            return value, float("nan")
        others = [(a.sum(axis=0)[None] - a) / (chains - 1) for a in (forward, backward)]
        spread = estimate(*others)
        return value, float(np.sqrt((chains - 1) * np.var(spread)))


def levels_for(rejections: Any) -> int:
    """Twice the barrier plus one, for the most round trips per unit of work (Syed et al., 2022)."""
    barrier = float(jnp.sum(barriers(jnp.asarray(rejections))))
    return int(np.clip(np.ceil(2 * barrier) + 1, FEWEST_LEVELS, MOST_LEVELS))
