"""Is 0.574 the best acceptance rate with more than two values? Jump distance against acceptance.

    python benchmarks/rate.py [--sites 8000] [--csv benchmarks/rate.csv] [--figure rate.png]

The target has independent sites of K values with random probabilities. Chains start at exact draws,
and R is on a grid. The expected jump distance is the mean of the acceptance probability times R.
The best rate is at the maximum of a cubic in the log of R, fitted to the points around it.
"""

import argparse
import csv
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale.targets.independent import Independent

VALUES = (2, 4, 8, 16)
GRID = np.geomspace(0.4, 6.0, 22)  # of R / N^(2/3)


def measure(values: int, sites: int, chains: int, steps: int, spread: float, seed: int = 0):
    """Acceptance and jump distance for each R, with standard errors over chains."""
    logits = spread * np.random.default_rng(seed).normal(size=(sites, values))
    target = Independent(jax.nn.log_softmax(jnp.asarray(logits, jnp.float32)))
    kernel, key = hs.LBP(), jax.random.key(seed)
    scales = np.repeat(np.unique(np.maximum(np.round(GRID * sites ** (2 / 3)), 1)), chains)

    @jax.jit
    def run(target, scales):
        start = jax.vmap(target.at)(jax.random.uniform(key, (scales.size, sites)))
        states = jax.vmap(lambda x: kernel.init(target, x))(start)

        def one(states, number):
            keys = jax.random.split(jax.random.fold_in(key, number), scales.size)
            states, info = jax.vmap(lambda k, s, r: kernel.step(k, target, s, r))(
                keys, states, scales
            )
            return states, (info.accept_prob, info.jump)

        return jax.lax.scan(one, states, jnp.arange(steps))[1]

    accept, jump = (np.asarray(a, float) for a in run(target, jnp.asarray(scales, jnp.float32)))
    by_scale = [a.mean(axis=0).reshape(-1, chains) for a in (accept, jump)]
    rate, distance = (a.mean(axis=1) for a in by_scale)
    error = by_scale[1].std(axis=1, ddof=1) / np.sqrt(chains)
    return np.unique(scales), rate, distance, error


def fitted(scale, rate, distance) -> tuple[float, float, float]:
    """The best rate, its distance, and that at 0.574, from a cubic in log R around the top."""
    near = (rate > 0.3) & (rate < 0.85)
    curve = np.polynomial.Polynomial.fit(np.log(scale[near]), distance[near], 3)
    first, last = np.log(scale[near][[0, -1]])
    fine = np.linspace(first, last, 1000)
    rates = np.interp(fine, np.log(scale), rate)
    top = int(np.argmax(curve(fine)))
    here = int(np.argmin(np.abs(rates - 0.574)))
    return float(rates[top]), float(curve(fine[top])), float(curve(fine[here]))


def draw(found: dict, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    axes.axvline(0.574, color="0.6", linewidth=1, linestyle="--")
    axes.annotate("0.574", (0.574, 0.03), xytext=(4, 0), textcoords="offset points", color="0.4")
    for values, (scale, rate, distance, _) in found.items():
        _, best, _ = fitted(scale, rate, distance)
        axes.plot(rate, distance / best, "o-", markersize=3.5, label=f"{values} values")
    axes.set(xlabel="acceptance rate", ylabel="jump distance, relative to the best")
    axes.set(xlim=(0, 1), ylim=(0, 1.06))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=8000)
    parser.add_argument("--chains", type=int, default=15, help="for each R")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--spread", type=float, default=1.5, help="of the random logits")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--figure", type=Path)
    asked = parser.parse_args()
    found, rows = {}, []
    for values in VALUES:
        found[values] = measure(values, asked.sites, asked.chains, asked.steps, asked.spread)
        scale, rate, distance, error = found[values]
        best, most, there = fitted(scale, rate, distance)
        print(
            f"{values} values: best at {best:.3f}; at 0.574, {there / most:.3f} of it", flush=True
        )
        points = zip(scale, rate, distance, error, strict=True)
        rows += [(values, asked.sites, *point) for point in points]
    if asked.csv:
        with asked.csv.open("w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(("values", "sites", "R", "acceptance", "distance", "error"))
            table.writerows([*row[:2], *(f"{v:.5g}" for v in row[2:])] for row in rows)
    if asked.figure:
        draw(found, asked.figure)


if __name__ == "__main__":
    main()
