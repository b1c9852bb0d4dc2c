r"""Annealed importance sampling: the normaliser of a model.

Chains start from independent bits, whose normaliser is known, and walk along

$$\log \pi_k(x) = (1 - \beta_k) \log \pi_0(x) + \beta_k \log \tilde\pi(x),
  \qquad 0 = \beta_0 < \dots < \beta_K = 1.$$

The log-weight of a chain gains $(\beta_k - \beta_{k-1}) \log \tilde\pi(x) / \pi_0(x)$ where it is,
before the step that leaves $\pi_k$ invariant. The mean weight estimates Z without bias (Neal,
2001).

Where there are many modes, chains in poor ones stay there and few weights stand for all. So chains
are resampled along the path, in proportion to their weights, each with the mean weight after that:
a sequential Monte Carlo sampler (Del Moral, Doucet and Jasra, 2006), still without bias. Chains
that descend from the same draw of the base are a family and not independent, so errors and
effective numbers are those of the weights of families (Lee and Whiteley, 2018),

$$W_a = \sum_{i \text{ descends from } a} w_i.$$
"""

import contextlib
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from hopscale import files, host, storage
from hopscale.arguments import MOST_STEPS
from hopscale.host import Interrupted
from hopscale.identity import differences, identity
from hopscale.kernels.kernel import Kernel
from hopscale.learn import annealing as paths
from hopscale.learn.annealing import Annealing, Span, Walk
from hopscale.learn.arguments import kernel_and_tuner
from hopscale.learn.ebm import EBM
from hopscale.learn.log_weights import LogZ, families, log_mean
from hopscale.storage import FileError
from hopscale.target import Target
from hopscale.targets import Bernoulli, Tempered
from hopscale.tune import Tuner, fitted
from hopscale.validate import as_key, count, fits, instance, number

KIND = "repeats of an estimate of log Z"


def log_z(
    target: Target,
    base: Bernoulli | None = None,
    *,
    chains: int = 100,
    betas: Any = 1_000,
    repeats: int = 5,
    kernel: Kernel | None = None,
    scale: Tuner | None = None,
    resample: float = 0.5,
    key: Any = 0,
    keep: str | Path | None = None,
    progress: bool = False,
    sampler: Kernel | None = None,
) -> LogZ:
    """Estimate log Z of a target over bits.

    Args:
        target: with an unnormalised `log_prob`: an `EBM`, an `RBM`, any other.
        base: independent bits to start from; an `EBM`'s own base, else fair bits, unless said.
        chains: of each repeat.
        betas: how many steps from the base to the target, evenly spaced; or the betas, from 0
            to 1.
        repeats: independent estimates, one after the other.
        kernel: any that moves chains of `hs.Tempered`; `LBP("sqrt")` unless said.
        scale: one for all chains; `Adaptive()` unless said. It is tuned along the path by one more
            repeat, whose weights are not used: the others follow the same scales, so that no step
            depends on what its chain did before.
        resample: draw chains again, by weight, when fewer than this share of them are effective;
            0 is never, which is plain annealed importance sampling.
        key: a seed or a JAX key.
        keep: a file for finished repeats; if it holds some of the same estimate already, these are
            not computed again.
        progress: show a progress bar where there is a terminal.
        sampler: another name for `kernel`.

    Raises:
        ValueError, TypeError, MemoryError: for arguments that cannot work.
        Interrupted: after Ctrl-C or SIGTERM, a KeyboardInterrupt with the estimate of the finished
            repeats as `.partial`; None if there are none.
    """
    began = time.perf_counter()
    base = _base(target, base)
    count("chains", chains, least=2)
    count("repeats", repeats, least=1)
    number("resample", resample, 0, 1)
    _check_size(target, chains, betas, repeats)
    path = Tempered(base, target, 0.0)
    kernel, scale = kernel_and_tuner(kernel, sampler, scale, path)
    scales = kernel.scale_range(path)
    tuner = fitted(scale, scales)
    if tuner.init(scales, chains, target.dtype).scale.ndim:  # type: ignore[arg-type]
        raise ValueError(f"log_z takes one scale for all chains; got {scale!r}.")
    annealing = Annealing(
        target=path,
        kernel=kernel,
        tuner=tuner,
        betas=_betas(betas, target.dtype),
        resample=jnp.asarray(resample, target.dtype) if resample else None,
    )
    with contextlib.nullcontext() if keep is None else files.exclusive(f"{keep}.lock", str(keep)):
        job = _Estimation(annealing, chains, repeats, as_key(key), keep)
        outcome = host.drive(job, seconds=0.5, progress=progress)
    found = job.result(time.perf_counter() - began, float(resample))
    if outcome == "interrupted":
        done = len(job.finished) - 1
        what = "nothing is estimated yet" if found is None else "their estimate is in .partial"
        raise Interrupted(f"stopped after {max(done, 0)} of {repeats} repeats; {what}", found)
    assert found is not None
    return found


def _base(target: Any, base: Any) -> Bernoulli:
    if not isinstance(target, Target) or target.num_states != 2:
        raise TypeError(f"target must be a hopscale target over bits; got {target!r:.80}.")
    if base is None:
        base = target.base if isinstance(target, EBM) else Bernoulli(jnp.full(target.shape, 0.5))
    instance("base", base, Bernoulli, "hs.Bernoulli(p)")
    if base.shape != target.shape or base.dtype != target.dtype:
        raise ValueError(
            f"the base must have the target's shape {target.shape} and dtype {target.dtype}; "
            f"got {base.shape} and {base.dtype}."
        )
    return base


def _check_size(target: Target, chains: int, betas: Any, repeats: int) -> None:
    """Raise for a path that is too long, or for more chains than fit."""
    if isinstance(betas, int | np.integer):
        count("betas", betas, least=1)
        steps = int(betas)
    else:
        steps = np.size(betas)
    if steps > MOST_STEPS:
        raise ValueError(f"betas can be {MOST_STEPS:,} steps at most; got {steps:,}.")
    itemsize = np.dtype(target.dtype).itemsize
    # States and their log-ratios: of base, target and mixture, at x and at y, and as much again.
    by_site = 4 * target.state_dtype.itemsize + 9 * itemsize
    needed = steps * itemsize * (repeats + 4) + chains * target.num_sites * by_site
    fits(f"{steps:,} betas and {chains:,} chains", needed, "Use fewer.")


def _betas(betas: Any, dtype) -> Float[Array, " betas"]:
    if isinstance(betas, int | np.integer):
        return jnp.linspace(0.0, 1.0, int(betas) + 1, dtype=dtype)
    try:
        values = np.asarray(betas, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"betas must be a number of steps, or numbers that rise from 0 to 1; got {betas!r:.80}."
        ) from error
    if values.ndim != 1 or values.size < 2 or values[0] != 0 or values[-1] != 1:
        raise ValueError("betas must be a number of steps, or numbers that rise from 0 to 1.")
    if not np.all(np.diff(values) > 0):
        raise ValueError("betas must rise from 0 to 1, each above the one before.")
    return jnp.asarray(values, dtype)


class _Repeat(NamedTuple):
    """What a repeat leaves; the weights are those of families."""

    log_weights: np.ndarray
    scales: np.ndarray
    acceptance: np.ndarray
    samples: np.ndarray

    @staticmethod
    def of(walk: Walk) -> "_Repeat":
        weights = walk.weights
        return _Repeat(
            log_weights=families(np.asarray(weights.log_weights), np.asarray(weights.ancestors)),
            scales=np.asarray(weights.scales),
            acceptance=np.asarray(weights.acceptance) / len(weights.scales),
            samples=np.asarray(walk.chains.states.x),
        )


class _Estimation:
    """A pilot that tunes the scales, then the repeats, as a `host.Job`."""

    def __init__(self, annealing: Annealing, chains: int, repeats: int, key, file):
        self.annealing, self.chains, self.repeats, self.key = annealing, chains, repeats, key
        self.steps = len(annealing.betas) - 1  # of a repeat
        self.file = None if file is None else Path(file)
        self.fingerprint = {} if file is None else _fingerprint(annealing, chains, key)
        self.finished: list[_Repeat] = []  # the pilot first
        if self.file is not None:
            self.finished = _read(self.file, self.fingerprint)[: repeats + 1]
        self.walk: Walk | None = None
        self.done = 0  # steps of the present repeat

    @property
    def phases(self) -> dict[str, int]:
        return {"annealing": (self.repeats + 1) * self.steps}

    @property
    def at(self) -> tuple[str, int]:
        return "annealing", len(self.finished) * self.steps + self.done

    def room(self) -> int:
        """Steps until the end of the repeat."""
        return self.steps - self.done if len(self.finished) <= self.repeats else 0

    def advance(self, steps: int) -> None:
        key = jax.random.fold_in(self.key, len(self.finished))
        pilot = not self.finished
        if self.walk is None:
            dtype = self.annealing.target.dtype
            scales = np.ones(self.steps, dtype) if pilot else self.finished[0].scales
            self.walk = paths.start(self.annealing, key, self.chains, jnp.asarray(scales))
        span = Span(
            first=jnp.asarray(self.done, jnp.int32),
            steps=jnp.asarray(steps, jnp.int32),
            pilot=jnp.asarray(pilot),
        )
        walk = paths.anneal(self.annealing, key, span, self.walk)
        self.walk = jax.block_until_ready(walk)
        self.done += steps
        if self.done == self.steps:
            self._finish(walk)

    def _finish(self, walk: Walk) -> None:
        """Collect the repeat, and write all so far to the file."""
        self.finished.append(_Repeat.of(walk))
        self.walk, self.done = None, 0
        if self.file is not None:
            columns = {
                name: np.stack([getattr(repeat, name) for repeat in self.finished])
                for name in _Repeat._fields
            }
            storage.write(self.file, KIND, {"fingerprint": self.fingerprint}, columns)

    def status(self) -> dict[str, float]:
        return {}

    def result(self, seconds: float, resample: float) -> LogZ | None:
        """The estimate of the finished repeats."""
        repeats = self.finished[1:]
        if not repeats:
            return None
        log_weights = np.stack([repeat.log_weights for repeat in repeats])
        value, error, effective = log_mean(log_weights.reshape(-1))
        has_scale = self.annealing.kernel.scale_range(self.annealing.target) is not None
        return LogZ(
            value=value,
            error=error,
            effective=effective,
            by_repeat=np.array([log_mean(one)[0] for one in log_weights]),
            log_weights=log_weights,
            acceptance=float(np.mean([repeat.acceptance for repeat in repeats])),
            scale=float(repeats[0].scales.mean()) if has_scale else None,
            samples=np.concatenate([repeat.samples for repeat in repeats]),
            seconds=seconds,
            resample=resample,
        )


def _read(path: Path, fingerprint: dict[str, Any]) -> list[_Repeat]:
    """The repeats in a file, the pilot first; none if there is no file."""
    if not path.exists():
        files.check_writable(path, overwrite=False)
        return []
    found = storage.read(path, KIND)
    differ = differences(found.about["fingerprint"], fingerprint)
    if differ:
        raise FileError(
            f"{path} holds repeats of another estimate: {'; '.join(differ)}. Remove it to begin "
            "again."
        )
    columns = (found.arrays[name] for name in _Repeat._fields)
    return [_Repeat(*parts) for parts in zip(*columns, strict=True)]


def _fingerprint(annealing: Annealing, chains: int, key: Key[Array, ""]) -> dict[str, Any]:
    """All that decides a repeat."""
    parts = {**annealing._asdict(), "chains": chains, "key": key}
    return {name: identity(part) for name, part in parts.items()}
