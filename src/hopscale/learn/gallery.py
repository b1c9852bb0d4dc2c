"""Pictures of a trained EBM: its training curves, its buffer, and the ends of long chains."""

import warnings
from pathlib import Path

import jax
import numpy as np

from hopscale.kernels import LBP
from hopscale.learn.curves import curves
from hopscale.learn.ebm import EBM, draw_base
from hopscale.learn.pictures import grid
from hopscale.learn.trained import Trained
from hopscale.results.run import ConvergenceWarning
from hopscale.runs.run import sample

CHAINS = 100


def save(
    folder: Path,
    data: str,
    trained: Trained,
    long_run: int = 1_000,
    seed: int = 0,
    prefix: str = "",
) -> list[Path]:
    """Save pictures of a training run.

    Args:
        folder: where the files go.
        data: the name of the data set, for the title.
        trained: what `train_ebm` returned.
        long_run: steps of the chains in the last picture; 0 leaves this picture out.
        seed: for these chains.
        prefix: a prefix for the files' names.

    Returns:
        The files: training curves, states of the replay buffer, ends of long chains.
    """
    figures = {
        "curves": curves(trained.history, f"EBM on {data}", trained.crises),
        "samples": grid(np.asarray(trained.samples)[:CHAINS], title="replay buffer"),
    }
    if long_run:
        ends = long_chains(trained.model, long_run, seed)
        figures["long-run"] = grid(ends, title=f"after {long_run:,} steps")
    saved = []
    for name, figure in figures.items():
        saved.append(folder / f"{prefix}{name}.png")
        figure.savefig(saved[-1])
    return saved


def long_chains(model: EBM, steps: int, seed: int) -> np.ndarray:
    """States of chains of adaptive LBP, `steps` steps after they start at draws of the base."""
    return settled(model, draw_base(jax.random.key(seed), model.base, CHAINS), steps, seed)


def settled(model: EBM, x, steps: int, seed: int) -> np.ndarray:
    """States of chains of adaptive LBP after `steps` steps from states x, one chain each."""
    with warnings.catch_warnings():
        # Only the states are needed, not whether chains agree.
        warnings.simplefilter("ignore", ConvergenceWarning)
        run = sample(
            model,
            LBP("sqrt"),
            chains=len(x),
            warmup=steps // 2,
            draws=steps - steps // 2,
            key=seed,
            init=x,
            progress=False,
        )
    return run.last
