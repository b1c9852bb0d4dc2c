r"""Annealed importance sampling: the normaliser of a model, and the likelihood of data.

Chains start from independent bits, whose normaliser is known, and walk along

$$\log \pi_k(x) = (1 - \beta_k) \log \pi_0(x) + \beta_k \log \tilde\pi(x),
  \qquad 0 = \beta_0 < \dots < \beta_K = 1.$$

The log-weight of a chain gains $(\beta_k - \beta_{k-1}) \log \tilde\pi(x) / \pi_0(x)$ where it is,
before the step that leaves $\pi_k$ invariant. The mean weight estimates Z without bias (Neal,
2001).

Where there are many modes, chains in poor ones stay there and few weights stand for all. So chains
may be drawn anew along the path, in proportion to their weights, each with the mean weight after
that: a sequential Monte Carlo sampler (Del Moral, Doucet and Jasra, 2006), still without bias.
Chains that descend from the same draw of the base are a family and not independent, so errors and
effective numbers are those of the weights of families (Lee and Whiteley, 2018),

$$W_a = \sum_{i \text{ descends from } a} w_i.$$
"""

import contextlib
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from hopscale import files, native, storage
from hopscale.identity import differences, identity
from hopscale.learn import annealing
from hopscale.learn.annealing import Carry, Program
from hopscale.learn.ebm import EBM
from hopscale.progress import watch
from hopscale.sampler import Sampler
from hopscale.samplers import LBP
from hopscale.scale import Adaptive, Tuner
from hopscale.storage import FileError
from hopscale.target import State, Target
from hopscale.targets import Bernoulli
from hopscale.validate import as_key, count

CHUNK_SECONDS = 0.5
RESAMPLES = 500
LEAST_EFFECTIVE = 10
LEAST_SHARE = 0.1
KEPT = "repeats of an estimate of log Z"


def reliable(effective: float, chains: int) -> bool:
    """Whether an estimate of log Z is a measurement: effective chains at least 10 and a tenth.

    With fewer, a few heavy weights stand for all, and heavier ones were probably missed: log Z
    comes out too low, likelihoods too high, and the standard error does not show it. More betas
    help, more chains hardly.

    With resampling it is families that count. The tenth holds for them too: the few families of
    each repeat add up to 10 over many repeats, and still miss the same modes.
    """
    return effective >= least_effective(chains)


def least_effective(chains: int) -> float:
    """How many effective chains, or families, a measurement takes."""
    return max(LEAST_EFFECTIVE, LEAST_SHARE * chains)


class LogZ(NamedTuple):
    """An estimate of log Z.

    Attributes:
        value: the log of the mean weight of all chains of all repeats.
        error: its standard error, by a bootstrap of families. It means nothing unless `reliable`:
            a few heavy chains hide how many are missing.
        effective: $(\\sum W)^2 / \\sum W^2$, the number of equal weights that would be as good.
        by_repeat: log of the mean weight of each repeat.
        log_weights: of each family, the chains that descend from the same draw of the base: -inf
            if it died out. Without resampling a family is a chain.
        acceptance: mean acceptance probability along the path.
        scale: mean scale along the path.
        samples: where the chains ended, at the model itself.
        seconds: all in all, compiling included.
        resample: as given.
    """

    value: float
    error: float
    effective: float
    by_repeat: np.ndarray
    log_weights: Float[np.ndarray, "repeats chains"]
    acceptance: float
    scale: float
    samples: np.ndarray
    seconds: float
    resample: float = 0.0

    @property
    def reliable(self) -> bool:
        """Whether `value` is a measurement, by the rule of `reliable`."""
        return reliable(self.effective, self.log_weights.size)


def log_z(
    target: Target,
    base: Bernoulli | None = None,
    *,
    chains: int = 100,
    betas: Any = 1_000,
    repeats: int = 5,
    sampler: Sampler | None = None,
    scale: Tuner | None = None,
    resample: float = 0.5,
    key: Any = 0,
    keep: Path | None = None,
    progress: bool = False,
) -> LogZ:
    """Estimate log Z of a target over bits.

    Args:
        target: with an unnormalised `log_prob`: an `EBM`, an `RBM`, any other.
        base: independent bits to start from; an `EBM`'s own base, else fair bits, unless said.
        chains: of each repeat.
        betas: how many steps from the base to the target, evenly spaced; or the betas, from 0
            to 1.
        repeats: independent estimates, one after the other.
        sampler: `LBP("sqrt")` unless said.
        scale: one for all chains; `Adaptive()` unless said. It is tuned along the path by one more
            repeat, whose weights are not used: the others follow the same scales, so that no step
            depends on what its chain did before.
        resample: draw chains anew when fewer than this share of them are effective; 0 is never,
            which is plain annealed importance sampling.
        key: a seed or a JAX key.
        keep: a file for the repeats that are done; if it holds some of the same estimate already,
            these are not made again.
        progress: show a progress bar where there is a terminal.
    """
    began = time.perf_counter()
    sampler = LBP("sqrt") if sampler is None else sampler
    scale = Adaptive() if scale is None else scale
    base = _base(target, base)
    path = _path(betas, target.dtype)
    count("chains", chains, least=2)
    count("repeats", repeats, least=1)
    share = _share(resample)
    scale.check(target.num_sites)
    tuner = jax.tree.map(jnp.asarray, scale.ready(sampler))
    if tuner.init(target.num_sites, chains, target.dtype).scale.ndim:
        raise ValueError(f"log_z takes one scale for all chains; got {scale!r}.")
    program = Program(target, base, sampler, tuner, path, native.in_use(), share)
    with contextlib.nullcontext() if keep is None else files.exclusive(f"{keep}.lock", str(keep)):
        return _estimate(program, chains, repeats, as_key(key), keep, progress, began)


def _estimate(program: Program, chains, repeats, key, keep, progress, began) -> LogZ:
    """A pilot that tunes the scales, then the repeats."""
    last = len(program.betas) - 1
    mark = {} if keep is None else _fingerprint(program, chains, key)
    done = [] if keep is None else _kept(keep, mark)[: repeats + 1]
    scales = jnp.ones(len(program.betas), program.target.dtype)
    stopped = "the estimate is that of the repeats that were done, if any"
    with watch(progress, {"annealing": (repeats + 1) * last}, stopped) as watched:
        for repeat in range(len(done), repeats + 1):
            pilot = jnp.asarray(repeat == 0)
            carry = annealing.start(program, jax.random.fold_in(key, repeat), chains)
            carry = carry._replace(scales=jnp.asarray(done[0].scales) if done else scales)
            step, chunk = 1, 8
            while step <= last and not watched.stopped:
                end, now = min(step + chunk, last + 1), time.perf_counter()
                span = (jnp.asarray(step), jnp.asarray(end), pilot)
                carry = jax.block_until_ready(annealing.anneal((program, span), carry))
                took = max(time.perf_counter() - now, 1e-9)
                chunk = max(1, int((end - step) * min(CHUNK_SECONDS / took, 8.0)))
                step = end
                watched.show("annealing", repeat * last + step - 1, lambda: {})
            if watched.stopped:
                break
            done.append(_Repeat.of(carry))
            if keep is not None:
                storage.write(keep, KEPT, {"fingerprint": mark}, _stacked(done))
    if len(done) < 2:
        raise KeyboardInterrupt
    return _summary(done[1:], program.resample, time.perf_counter() - began)


def _base(target: Any, base: Bernoulli | None) -> Bernoulli:
    if not isinstance(target, Target) or target.num_states != 2:
        raise TypeError(f"target must be a hopscale target over bits; got {target!r}.")
    if base is None:
        base = target.base if isinstance(target, EBM) else Bernoulli(jnp.full(target.shape, 0.5))
    if base.shape != target.shape or base.dtype != target.dtype:
        raise ValueError(
            f"the base must have the target's shape {target.shape} and dtype {target.dtype}; "
            f"got {base.shape} and {base.dtype}."
        )
    return base


def _path(betas: Any, dtype) -> Float[Array, " betas"]:
    if isinstance(betas, int | np.integer):
        count("betas", betas, least=1)
        return jnp.linspace(0.0, 1.0, int(betas) + 1, dtype=dtype)
    values = np.asarray(betas, np.float64)
    if values.ndim != 1 or values.size < 2 or values[0] != 0 or values[-1] != 1:
        raise ValueError("betas must be a number of steps, or numbers that rise from 0 to 1.")
    if not np.all(np.diff(values) > 0):
        raise ValueError("betas must rise from 0 to 1, each above the one before.")
    return jnp.asarray(values, dtype)


def _share(resample: Any) -> float:
    number = isinstance(resample, int | float | np.number) and not isinstance(resample, bool)
    if not number or not 0 <= resample <= 1:
        raise ValueError(f"resample must be a share of the chains, 0 to 1; got {resample!r}.")
    return float(resample)


class _Repeat(NamedTuple):
    """What a repeat leaves; the weights are those of families."""

    log_weights: np.ndarray
    scales: np.ndarray
    accepted: np.ndarray
    samples: np.ndarray

    @staticmethod
    def of(carry: Carry) -> "_Repeat":
        weights = families(np.asarray(carry.log_weights), np.asarray(carry.ancestors))
        return _Repeat(weights, *map(np.asarray, (carry.scales, carry.accepted, carry.chains.x)))


def families(log_weights: np.ndarray, ancestors: np.ndarray) -> np.ndarray:
    """The log of the summed weight of each family; -inf if it died out."""
    summed = np.full(len(log_weights), -np.inf)
    np.logaddexp.at(summed, ancestors, log_weights.astype(np.float64))
    return summed


def _stacked(repeats: list[_Repeat]) -> dict[str, np.ndarray]:
    return {name: np.stack([getattr(one, name) for one in repeats]) for name in _Repeat._fields}


def _kept(path: Path, mark: dict[str, Any]) -> list[_Repeat]:
    """The repeats in a file, the pilot first; none if there is no file."""
    if not path.exists():
        files.check_writable(path, overwrite=False)
        return []
    found = storage.read(path, KEPT)
    differ = differences(found.about["fingerprint"], mark)
    if differ:
        raise FileError(
            f"{path} holds repeats of another estimate: {'; '.join(differ)}. Remove it to begin "
            "again."
        )
    columns = (found.arrays[name] for name in _Repeat._fields)
    return [_Repeat(*parts) for parts in zip(*columns, strict=True)]


def _fingerprint(program: Program, chains: int, key: Key[Array, ""]) -> dict[str, Any]:
    """All that decides a repeat; which implementation makes it does not."""
    decides = {**program._asdict(), "chains": chains, "key": key}
    return {name: identity(part) for name, part in decides.items() if name != "implementation"}


def _summary(repeats: list[_Repeat], resample: float, seconds: float) -> LogZ:
    log_weights = np.stack([one.log_weights for one in repeats])
    scales = repeats[0].scales[1:]
    value, error, effective = log_mean(log_weights.reshape(-1))
    return LogZ(
        value=value,
        error=error,
        effective=effective,
        by_repeat=np.array([log_mean(one)[0] for one in log_weights]),
        log_weights=log_weights,
        acceptance=float(np.mean([one.accepted for one in repeats])) / len(scales),
        scale=float(scales.mean()),
        samples=np.concatenate([one.samples for one in repeats]),
        seconds=seconds,
        resample=resample,
    )


def log_mean(log_weights: np.ndarray) -> tuple[float, float, float]:
    """The log of the mean weight, its standard error by a bootstrap, and the effective number.

    Draws of the bootstrap without any weight, which only few families make likely, are left out.
    """
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    rows = np.random.default_rng(0).integers(0, weights.size, (RESAMPLES, weights.size))
    means = weights[rows].mean(axis=1)
    resampled = np.log(means[means > 0])
    effective = weights.sum() ** 2 / (weights**2).sum()
    return float(top + np.log(weights.mean())), float(resampled.std(ddof=1)), float(effective)


class LogLikelihood(NamedTuple):
    """The mean log-likelihood of data, in nats a state.

    `error` is that of log Z alone; `spread` is the standard error of the mean over the data;
    `reliable` says whether log Z, and so the value, is a measurement at all.
    """

    value: float
    error: float
    spread: float
    reliable: bool


def log_likelihood(target: Target, data, normalizer: LogZ, batch: int = 500) -> LogLikelihood:
    """The mean of log_prob(x) - log Z over the data."""
    x = jnp.asarray(np.asarray(data).astype(np.int8))
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
