"""Figures of runs and states, by matplotlib, which is imported when one is drawn."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hopscale.results.run import Run

COLORS = ("#3b5bdb", "#e8590c")
CHAINS = 8  # the largest number of chains that are drawn
RANK_BINS = 10


def run(found: "Run"):
    """Plot a run in a few panels; also available as `run.plot()`.

    - the log-probability along the draws, for a few chains: traces should overlap and move freely;
    - ranks of the statistic whose chains agree least: each chain's bars should be level;
    - if a scale was tuned, the scale and the acceptance rate during warm-up: both should settle
      around the dashed lines, which are the scale of the draws and the kernel's best rate.

    Returns:
        A matplotlib figure.
    """
    plt = _pyplot()
    scales = found.kernel.scale_range(found.target)
    rows = 1 if scales is None else 2
    figure, axes = plt.subplots(
        rows, 2, figsize=(9, 2.75 * rows), squeeze=False, layout="constrained"
    )
    _trace(axes[0, 0], found.statistics["log_prob"])
    worst = max(found.statistics.values(), key=lambda s: np.nan_to_num(s.r_hat, nan=0.0))
    _ranks(axes[0, 1], worst)
    if scales is not None:
        scale = float(np.mean(np.asarray(found.scale)))
        _along_warmup(axes[1, 0], found, "scale", "scale R", scale)
        _along_warmup(axes[1, 1], found, "accept_prob", "acceptance", scales.rate)
    plt.close(figure)  # so that a notebook shows it only once
    return figure


def states(x: Any, columns: int = 10, labels: Any = None):
    """Draw states as pictures, black for the largest value.

    Args:
        x: states along the leading axes, as in `run.draws` and `run.last`. The last two axes are a
            picture's rows and columns; states of one axis are drawn below each other.
        columns: the number of pictures in a row.
        labels: a title for each picture.

    Returns:
        A matplotlib figure.
    """
    x = np.asarray(x)
    if x.ndim == 0:
        raise ValueError("states of at least one axis are needed; got a number.")
    plt = _pyplot()
    if x.ndim <= 2:
        rows = np.atleast_2d(x)
        size = (min(10, 2 + rows.shape[1] / 12), min(10, 1 + len(rows) / 8))
        figure, ax = plt.subplots(figsize=size, layout="constrained")
        ax.imshow(rows, cmap="Greys", aspect="auto", interpolation="nearest")
        ax.set(xlabel="site", ylabel="state")
        plt.close(figure)
        return figure
    pictures = x.reshape(-1, *x.shape[-2:])
    columns = min(columns, len(pictures))
    lines = -(-len(pictures) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(columns, 1.05 * lines), squeeze=False, layout="constrained"
    )
    for ax in axes.flat[len(pictures) :]:
        ax.axis("off")
    for i, (ax, picture) in enumerate(zip(axes.flat, pictures, strict=False)):
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set(color="lightgrey")
        ax.imshow(picture, cmap="Greys", vmin=0, vmax=max(1, x.max()), interpolation="nearest")
        if labels is not None:
            ax.set_title(str(labels[i]), fontsize=8)
    plt.close(figure)
    return figure


def _pyplot():
    import matplotlib.pyplot as plt

    return plt


def _trace(ax, statistic) -> None:
    draws = statistic.block * (1 + np.arange(statistic.trace.shape[1]))
    for chain in statistic.trace[:CHAINS]:
        ax.plot(draws, chain, lw=0.6, alpha=0.8)
    ax.set(title=f"{statistic.name}, {min(CHAINS, len(statistic.trace))} chains", xlabel="draw")


def _ranks(ax, statistic) -> None:
    """Histograms of the ranks of each chain's entries among all; level if chains agree."""
    trace = statistic.trace
    ranks = np.argsort(np.argsort(trace, axis=None, kind="stable")).reshape(trace.shape)
    edges = np.linspace(0, trace.size, RANK_BINS + 1)
    for chain in ranks[:CHAINS]:
        counts, _ = np.histogram(chain, edges)
        share = counts * RANK_BINS / max(trace.shape[1], 1)
        ax.stairs(share, edges / max(trace.size, 1), baseline=None, lw=0.9)
    ax.axhline(1.0, color="grey", ls="--", lw=0.8)
    ax.set(title=f"ranks of {statistic.name}, R-hat {statistic.r_hat:.3f}", ylim=(0, None))
    ax.set_xlabel("rank, as a share of all")


def _along_warmup(ax, found: "Run", name: str, title: str, level: float) -> None:
    values = found.warmup_history[name]
    steps = (1 + np.arange(len(values))) * found.warmup / max(len(values), 1)
    ax.plot(steps, values, color=COLORS[0], lw=0.8)
    ax.axhline(level, color="grey", ls="--", lw=0.8)
    ax.set(title=f"{title} during warm-up", xlabel="step")
