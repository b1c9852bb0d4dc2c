"""What can be seen of a trained EBM: its training, its buffer, and where long chains lead."""

from pathlib import Path

import jax
import numpy as np

from hopscale.learn.curves import curves
from hopscale.learn.ebm import EBM, draw_base
from hopscale.learn.pictures import grid
from hopscale.learn.training import Trained
from hopscale.run import sample
from hopscale.samplers import LBP

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
        folder: to put them in.
        data: the name of the data set, for the title.
        trained: what `train_ebm` gave.
        long_run: steps of the chains of the last picture; 0: no such picture.
        seed: of these chains.
        prefix: of the files' names.

    Returns:
        The files: training curves, states of the replay buffer, ends of long chains.
    """
    made = {
        "curves": curves(trained.history, f"EBM on {data}"),
        "samples": grid(np.asarray(trained.samples)[:CHAINS], title="replay buffer"),
    }
    if long_run:
        ends = long_chains(trained.model, long_run, seed)
        made["long-run"] = grid(ends, title=f"after {long_run:,} steps")
    saved = []
    for name, figure in made.items():
        saved.append(folder / f"{prefix}{name}.png")
        figure.savefig(saved[-1])
    return saved


def long_chains(model: EBM, steps: int, seed: int) -> np.ndarray:
    """Where chains of adaptive LBP are, long after they began at draws of the base."""
    run = sample(
        model,
        LBP("sqrt"),
        chains=CHAINS,
        warmup=steps - steps // 2,
        draws=max(steps // 2, 1),
        key=seed,
        init=draw_base(jax.random.key(seed), model.base, CHAINS),
        progress=False,
    )
    if run.interrupted:
        raise KeyboardInterrupt  # the chains are not where the picture would say
    return run.last
