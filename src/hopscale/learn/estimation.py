"""The repeats of an estimate of log Z, one after the other; finished ones are kept in a file."""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hopscale.disk import files, storage
from hopscale.disk.identity import differences, identity
from hopscale.disk.storage import FileError
from hopscale.kernels import DMALA, Metropolis
from hopscale.learn import annealing as paths
from hopscale.learn.annealing import Annealing, Span, Walk
from hopscale.learn.ebm import draw_base
from hopscale.learn.log_weights import LogZ, families, log_mean, mean_bound, two_sides
from hopscale.learn.mixture import Mixture
from hopscale.target import State

KIND = "repeats of an estimate of log Z"
PILOTS = (1, 0)  # repeats of each way that tune the scales and are not used


class Repeat(NamedTuple):
    """The results of a repeat; the weights are those of families."""

    log_weights: np.ndarray
    scales: np.ndarray
    acceptance: np.ndarray
    samples: np.ndarray

    @staticmethod
    def of(walk: Walk) -> "Repeat":
        weights = walk.weights
        return Repeat(
            log_weights=families(np.asarray(weights.log_weights), np.asarray(weights.ancestors)),
            scales=np.asarray(weights.scales),
            acceptance=np.asarray(weights.acceptance) / len(weights.scales),
            samples=np.asarray(walk.chains.states.x),
        )


class Estimation:
    """A `host.Job`: a pilot that tunes the scales, then the repeats; then those of the way back.

    A file may hold more repeats than are asked for. These stay in it and are not used.

    Args:
        annealing: the path.
        chains: the number of chains of each repeat.
        repeats: the number of repeats each way.
        key: for everything random.
        file: for finished repeats; None for no file.
        samples: samples of the target, from which chains walk back; None for no way back.
    """

    def __init__(
        self,
        annealing: Annealing,
        chains: int,
        repeats: int,
        key: Key[Array, ""],
        file: str | Path | None,
        samples: np.ndarray | None,
    ):
        self.annealing, self.chains, self.repeats, self.key = annealing, chains, repeats, key
        self.samples, self.ways = samples, 1 if samples is None else 2
        self.steps = len(annealing.betas) - 1  # of a repeat
        self.file = None if file is None else Path(file)
        self.fingerprint: dict[str, Any] = {}
        self.finished: list[list[Repeat]] = [[] for _ in range(self.ways)]  # the pilot first
        if self.file is not None:
            self.fingerprint = _fingerprint(annealing, chains, key, samples)
            self.finished = _read(self.file, self.fingerprint, self.ways)
        self.walk: Walk | None = None
        self.done = 0  # steps of the present repeat

    # -- What `host.drive` calls. ----------------------------------------------------------------

    @property
    def phases(self) -> dict[str, int]:
        return {"annealing": sum(map(self._needed, range(self.ways))) * self.steps}

    @property
    def at(self) -> tuple[str, int]:
        full = sum(min(len(done), self._needed(way)) for way, done in enumerate(self.finished))
        return "annealing", full * self.steps + self.done

    def room(self) -> int:
        """Steps until the end of the repeat."""
        return 0 if self._way() is None else self.steps - self.done

    def advance(self, steps: int) -> None:
        way = self._way()
        assert way is not None
        finished, annealing = self.finished[way], self.annealing
        if way:
            annealing = annealing._replace(betas=annealing.betas[::-1])
        key = jax.random.fold_in(jax.random.fold_in(self.key, way), len(finished))
        key_begin, key_walk = jax.random.split(key)
        pilot = not finished and not way
        if self.walk is None:
            scales = self._scales(way, annealing.target.dtype)
            x = self._begin(way, len(finished), key_begin)
            self.walk = paths.start(annealing, key_walk, x, jnp.asarray(scales))
        span = Span(
            first=jnp.asarray(self.done, jnp.int32),
            steps=jnp.asarray(steps, jnp.int32),
            pilot=jnp.asarray(pilot),
        )
        walk = paths.anneal(annealing, key_walk, span, self.walk)
        self.walk = jax.block_until_ready(walk)
        self.done += steps
        if self.done == self.steps:
            finished.append(Repeat.of(walk))
            self.walk, self.done = None, 0
            self._write()

    def status(self) -> dict[str, float]:
        return {}

    # -- Internals. ------------------------------------------------------------------------------

    def _way(self) -> int | None:
        """0 on the way to the target, 1 on the way back, None when all repeats are done."""
        for way, finished in enumerate(self.finished):
            if len(finished) < self._needed(way):
                return way
        return None

    def _needed(self, way: int) -> int:
        return PILOTS[way] + self.repeats

    def _scales(self, way: int, dtype) -> np.ndarray:
        """The scales of each step: on the way to the target, those that the pilot found.

        The way back reverses the way there: it moves at each beta by the same scale. Otherwise its
        weights would not be those that Bennett's estimate takes.
        """
        if not self.finished[0]:
            return np.ones(self.steps, dtype)
        scales = self.finished[0][0].scales
        # Step k moves at beta k + 1 there, and at beta K - k - 1 back; at beta 0 by any scale.
        return np.append(scales[:-1][::-1], scales[0]) if way else scales

    def _begin(self, way: int, repeat: int, key: Key[Array, ""]) -> State:
        """The first states of a repeat's chains: draws of the base, or samples of the target.

        Each sample is taken once before any is taken again.
        """
        if way == 0:
            return _draw(self.annealing.target.base, key, self.chains)
        assert self.samples is not None
        order = jax.random.permutation(jax.random.fold_in(self.key, 1), len(self.samples))
        turn = (repeat * self.chains + np.arange(self.chains)) % len(self.samples)
        dtype = self.annealing.target.state_dtype
        return jnp.asarray(self.samples[np.asarray(order)[turn]], dtype)

    def _write(self) -> None:
        """Write all finished repeats to the file."""
        if self.file is None:
            return
        columns = {
            f"{name}_{way}": np.stack([getattr(repeat, name) for repeat in finished])
            for way, finished in enumerate(self.finished)
            for name in Repeat._fields
            if finished
        }
        storage.write(self.file, KIND, {"fingerprint": self.fingerprint}, columns)

    @property
    def _reversible(self) -> bool:
        """Whether a step is its own reverse: sweeps back would visit sites in the other order."""
        return isinstance(self.annealing.kernel, Metropolis | DMALA)

    # -- The estimate. ---------------------------------------------------------------------------

    @property
    def repeats_done(self) -> list[int]:
        """The number of finished repeats of each way."""
        return [len(self._used(way)) for way in range(self.ways)]

    def _used(self, way: int) -> list[Repeat]:
        return self.finished[way][PILOTS[way] : self._needed(way)]

    def result(self, seconds: float, resample: float) -> LogZ | None:
        """The estimate of the finished repeats."""
        forward, *backward = (self._used(way) for way in range(self.ways))
        if not forward:
            return None
        log_weights = np.stack([repeat.log_weights for repeat in forward])
        value, error, effective = log_mean(log_weights.reshape(-1))
        upper = upper_by_repeat = None
        if backward and backward[0]:
            back = np.stack([repeat.log_weights for repeat in backward[0]])
            assert self.samples is not None
            midpoint = bool(resample) or not self._reversible
            both = two_sides(log_weights, back, midpoint, len(self.samples))
            value, error, upper = both.value, both.error, both.upper
            upper_by_repeat = np.array([-log_mean(one)[0] for one in back])
            effective = min(effective, both.effective)
        has_scale = self.annealing.kernel.scale_range(self.annealing.target) is not None
        return LogZ(
            value=value,
            error=error,
            effective=effective,
            by_repeat=np.array([log_mean(one)[0] for one in log_weights]),
            log_weights=log_weights,
            acceptance=float(np.mean([repeat.acceptance for repeat in forward])),
            scale=float(forward[0].scales.mean()) if has_scale else None,
            samples=np.concatenate([repeat.samples for repeat in forward]),
            seconds=seconds,
            resample=resample,
            lower=mean_bound(log_weights),
            upper=upper,
            upper_by_repeat=upper_by_repeat,
        )


@eqx.filter_jit
def _draw(base, key: Key[Array, ""], number: int) -> State:
    return base.draw(key, number) if isinstance(base, Mixture) else draw_base(key, base, number)


def _read(path: Path, fingerprint: dict[str, Any], ways: int) -> list[list[Repeat]]:
    """The repeats in a file for each way, the pilot first; none if there is no file."""
    if not path.exists():
        files.check_writable(path, overwrite=False)
        return [[] for _ in range(ways)]
    found = storage.read(path, KIND)
    differ = differences(found.about["fingerprint"], fingerprint)
    if differ:
        raise FileError(
            f"{path} holds repeats of another estimate: {'; '.join(differ)}. Remove it to begin "
            "again."
        )

    def repeats(way: int) -> list[Repeat]:
        columns = [found.arrays.get(f"{name}_{way}", ()) for name in Repeat._fields]
        return [Repeat(*parts) for parts in zip(*columns, strict=True)]

    return [repeats(way) for way in range(ways)]


def _fingerprint(annealing: Annealing, chains: int, key, samples) -> dict[str, Any]:
    """Everything that determines a repeat."""
    parts = {**annealing._asdict(), "chains": chains, "key": key, "reverse_from": samples}
    return {name: identity(part) for name, part in parts.items()}
