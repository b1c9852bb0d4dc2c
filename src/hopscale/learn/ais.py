r"""Annealed importance sampling: the normaliser of a model.

Chains start from independent bits, whose normaliser is known, and walk along

$$\log \pi_k(x) = (1 - \beta_k) \log \pi_0(x) + \beta_k \log \tilde\pi(x),
  \qquad 0 = \beta_0 < \dots < \beta_K = 1.$$

The log-weight of a chain at x gains $(\beta_k - \beta_{k-1}) \log \tilde\pi(x) / \pi_0(x)$ before
the step that leaves $\pi_k$ invariant. The mean weight estimates Z without bias (Neal, 2001).

If there are many modes, chains in poor ones stay there and a few weights dominate. So chains are
resampled along the path in proportion to their weights, and each gets the mean weight. This is a
sequential Monte Carlo sampler (Del Moral, Doucet and Jasra, 2006), still without bias. Chains that
descend from the same draw of the base form a family and are not independent. Errors and effective
numbers are therefore those of the weights of families (Lee and Whiteley, 2018),

$$W_a = \sum_{i \text{ descends from } a} w_i.$$

Other chains start at samples of the target and walk the path back to the base. Their log-weights
gain $(\beta_{k-1} - \beta_k) \log \tilde\pi(x) / \pi_0(x)$ at each step. Their mean weight
estimates 1 / Z, so that log Z lies between the two estimates, except by chance (Grosse, Ghahramani
and Adams, 2015).
"""

import contextlib
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hopscale.disk import files
from hopscale.kernels.kernel import Kernel
from hopscale.learn.annealing import Annealing
from hopscale.learn.arguments import kernel_and_tuner
from hopscale.learn.ebm import EBM
from hopscale.learn.estimation import Estimation
from hopscale.learn.log_weights import LogZ
from hopscale.learn.mixture import Mixture
from hopscale.runs import host
from hopscale.runs.arguments import MOST_STEPS
from hopscale.runs.host import Interrupted
from hopscale.target import Target
from hopscale.targets import Bernoulli, Tempered
from hopscale.tune import Tuner, fitted
from hopscale.validate import as_key, bits, count, fits, number


def log_z(
    target: Target,
    base: Bernoulli | Mixture | None = None,
    *,
    chains: int = 100,
    betas: Any = 1_000,
    steps: int = 1,
    repeats: int = 5,
    reverse_from: Any = None,
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
        target: any target over bits, with an unnormalised `log_prob`: an `EBM`, an `RBM`, or other.
        base: independent bits to start from, or a mixture of such, which is nearer to most targets:
            `hs.learn.Mixture.fit(samples)`. By default an `EBM`'s own base, otherwise fair bits.
        chains: the number of chains of each repeat.
        betas: the number of evenly spaced steps from the base to the target, or the betas
            themselves, from 0 to 1.
        steps: Metropolis-Hastings steps at each beta.
        repeats: the number of independent estimates, made one after the other.
        reverse_from: samples of the target along the first axis, at least as many as chains. As
            many chains walk back from these, which gives log Z from two sides. The upper side is
            only as good as these samples. If they are fewer than chains of all repeats, they are
            used again, and the error counts the chains that begin at one sample as one draw.
        kernel: any that moves chains of `hs.Tempered`; `LBP("sqrt")` by default.
        scale: a tuner with one scale for all chains; by default `Tuned` at the kernel's best rate.
            An extra repeat tunes it along the path, and its weights are not used. The others, and
            those back, follow the same scales, so that no step depends on what its chain did
            before.
        resample: draw chains again, by weight, when fewer than this share of them are effective.
            0 means never, which is plain annealed importance sampling.
        key: a seed or a JAX key.
        keep: a file for finished repeats. Repeats of the same estimate that it already holds are
            not computed again. If it holds more than are asked for, they stay in it unused.
        progress: show a progress bar where there is a terminal.
        sampler: another name for `kernel`.

    Raises:
        ValueError, TypeError, MemoryError: for arguments that cannot work.
        Interrupted: after Ctrl-C or SIGTERM, a KeyboardInterrupt with the estimate of the finished
            repeats as `.partial`; None if there are none.
    """
    began = time.perf_counter()
    base = _base(target, base)
    count("chains", chains, minimum=2)
    count("repeats", repeats, minimum=1)
    number("resample", resample, 0, 1)
    count("steps", steps, minimum=1)
    _check_size(target, chains, betas, steps, repeats)
    samples = None if reverse_from is None else _samples(reverse_from, target, chains)
    path = Tempered(base, target, 0.0)
    kernel, scale = kernel_and_tuner(kernel, sampler, scale, path, moving=True)
    scales = kernel.scale_range(path)
    tuner = fitted(scale, scales)
    if tuner.init(scales, chains, target.dtype).scale.ndim:  # type: ignore[arg-type]
        raise ValueError(f"log_z takes one scale for all chains; got {scale!r}.")
    annealing = Annealing(
        target=path,
        kernel=kernel,
        tuner=tuner,
        betas=_betas(betas, steps, target.dtype),
        resample=jnp.asarray(resample, target.dtype) if resample else None,
    )
    with contextlib.nullcontext() if keep is None else files.exclusive(f"{keep}.lock", str(keep)):
        job = Estimation(annealing, chains, repeats, as_key(key), keep, samples)
        outcome = host.drive(job, seconds=0.5, progress=progress)
    found = job.result(time.perf_counter() - began, float(resample))
    if outcome == "interrupted":
        what = "nothing is estimated yet" if found is None else "their estimate is in .partial"
        done = f"{job.repeats_done[0]} of {repeats} repeats"
        if samples is not None:
            done += f" to the target and {job.repeats_done[1]} of {repeats} back"
        raise Interrupted(f"stopped after {done}; {what}", found)
    assert found is not None
    return found


def _base(target: Any, base: Any) -> Bernoulli | Mixture:
    if not isinstance(target, Target) or target.num_states != 2:
        raise TypeError(f"target must be a hopscale target over bits; got {target!r:.80}.")
    if base is None:
        base = target.base if isinstance(target, EBM) else Bernoulli(jnp.full(target.shape, 0.5))
    if not isinstance(base, Bernoulli | Mixture):
        raise TypeError(
            "base must be such as hs.Bernoulli(p) or hs.learn.Mixture.fit(samples); got "
            f"{base!r:.80}."
        )
    if base.shape != target.shape or base.dtype != target.dtype:
        raise ValueError(
            f"the base must have the target's shape {target.shape} and dtype {target.dtype}; "
            f"got {base.shape} and {base.dtype}."
        )
    return base


def _samples(samples: Any, target: Target, chains: int) -> np.ndarray:
    x = bits("reverse_from", samples)
    if x.shape[1:] != target.shape or len(x) < chains:
        raise ValueError(
            f"reverse_from must hold at least as many states as there are chains, {chains}, of the "
            f"target's shape {target.shape}; got {x.shape}."
        )
    return np.asarray(x)


def _check_size(target: Target, chains: int, betas: Any, by_beta: int, repeats: int) -> None:
    """Raise for a path that is too long, or for more chains than fit."""
    if isinstance(betas, int | np.integer):
        count("betas", betas, minimum=1)
        steps = int(betas) * by_beta
    else:
        steps = np.size(betas) * by_beta
    if steps > MOST_STEPS:
        raise ValueError(f"betas can be {MOST_STEPS:,} steps at most; got {steps:,}.")
    itemsize = np.dtype(target.dtype).itemsize
    # States and their log-ratios: of base, target and mixture, at x and at y, and as much again.
    by_site = 4 * target.state_dtype.itemsize + 9 * itemsize
    needed = steps * itemsize * (repeats + 4) + chains * target.num_sites * by_site
    fits(f"{steps:,} betas and {chains:,} chains", needed, "Use fewer.")


def _betas(betas: Any, steps: int, dtype) -> Float[Array, " betas"]:
    """The beta of each step: every beta but the first is repeated for all steps at it."""
    if isinstance(betas, int | np.integer):
        values = np.linspace(0.0, 1.0, int(betas) + 1)
    else:
        values = _given_betas(betas)
    return jnp.asarray(np.concatenate([values[:1], np.repeat(values[1:], steps)]), dtype)


def _given_betas(betas: Any) -> np.ndarray:
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
    return values
