"""Which sampler is best for which target: `hs.compare` on thirteen kinds of target, as a table.

python benchmarks/samplers.py [--seconds 5] [--only WORD] [--out docs/assets/samplers.md]
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale.results.run import describe
from hopscale.runs.choose import choose

RNG = np.random.default_rng(0)


def three_neighbours(n: int) -> hs.Pairwise:
    """A ring with a random matching across, couplings +-0.6."""
    i, j = np.arange(n), (np.arange(n) + 1) % n
    across = {tuple(sorted(p)): 0.6 for p in RNG.permutation(n).reshape(-1, 2).tolist()}
    pairs = {tuple(sorted((int(a), int(b)))): 0.6 for a, b in zip(i, j, strict=True)} | across
    return hs.Pairwise({pair: c * RNG.choice([-1.0, 1.0]) for pair, c in pairs.items()})


def random_graph(n: int, edges: int, coupling: float) -> hs.Pairwise:
    i, j = np.triu_indices(n, 1)
    some = RNG.choice(len(i), edges, replace=False)
    return hs.Pairwise((i[some], j[some], np.full(edges, coupling)))


def network(n: int, hidden: int) -> hs.LogDensity:
    first, last = RNG.normal(size=(hidden, n)) / np.sqrt(n), RNG.normal(size=hidden)
    return hs.LogDensity(lambda x: 2.0 * last @ jnp.tanh(first @ (2 * x - 1)), (n,))


def regression(rows: int, n: int) -> hs.LogDensity:
    """Which columns explain y; squares of bits are written as linear terms."""
    columns = RNG.normal(size=(rows, n)) / np.sqrt(rows)
    y = columns[:, :5].sum(axis=1) + 0.3 * RNG.normal(size=rows)
    gram, fit = columns.T @ columns, columns.T @ y
    off, own = gram - np.diag(np.diag(gram)), np.diag(gram)
    return hs.LogDensity(lambda x: 4 * (fit @ x - 0.5 * (x @ (off @ x) + own @ x)) - 2 * x.sum(), n)


TARGETS: dict[str, Callable[[], hs.Target]] = {
    "independent bits, 800": lambda: hs.Bernoulli(np.linspace(0.1, 0.9, 800)),
    "Ising lattice, 32 x 32, coupling 0.3": lambda: hs.Ising(np.zeros((32, 32)), 0.3),
    "Ising lattice near its critical point, 24 x 24": lambda: hs.Ising(np.zeros((24, 24)), 0.42),
    "spin glass, 1,000 sites of 3 neighbours": lambda: three_neighbours(1000),
    "cuts of a graph, 800 nodes of 48 neighbours": lambda: random_graph(800, 19176, -0.08),
    "all pairs coupled, 200 sites": lambda: hs.Pairwise(
        np.triu(RNG.normal(size=(200, 200)), 1) * 0.5 / np.sqrt(200)
    ),
    "Potts lattice, 32 x 32, 5 values": lambda: hs.Potts.lattice((32, 32), 5, 0.8),
    "restricted Boltzmann machine, 784 x 25": lambda: hs.RBM(
        0.1 * RNG.normal(size=(25, 784)), np.zeros(784), np.zeros(25)
    ),
    "the same, half of its pixels clamped": lambda: hs.clamp(
        hs.RBM(0.1 * RNG.normal(size=(25, 784)), np.zeros(784), np.zeros(25)),
        np.arange(392),
        np.arange(392) % 2,
    ),
    "factorial HMM, 200 x 5": lambda: hs.paper.fhmm(200, config="C2"),
    "a network's energy, 256 bits": lambda: network(256, 64),
    "columns of a regression, 100": lambda: regression(200, 100),
    "variable selection, 64 columns": lambda: hs.models.VariableSelection(
        *hs.data.diabetes(interactions=True)[:2]
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--chains", type=int, default=50)
    parser.add_argument("--only", default="", help="targets with this word in their names")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lines = ["| target | best | ESS a second | next | times | `hs.sample` takes |"]
    lines.append("|---|---|---|---|---|---|")
    for name, make in TARGETS.items():
        if asked.only not in name:
            continue
        target = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = hs.compare(target, asked.seconds, chains=asked.chains)
        print(f"\n{name}\n{found}", flush=True)
        lines.append(_row(name, target, found))
        if asked.out is not None:
            asked.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def _row(name: str, target: hs.Target, found: hs.Comparison) -> str:
    best, second = found.candidates[:2]
    times = f"{best.ess_per_second / second.ess_per_second:.2g}" if second.reliable else ""
    shown = [
        name,
        _kernel(best.kernel) if best.reliable else "none: chains do not agree yet",
        f"{best.ess_per_second:,.0f}" if best.reliable else "",
        _kernel(second.kernel) if second.reliable else "no other agrees yet",
        times,
        _kernel(choose(target).kernel),
    ]
    return f"| {' | '.join(shown)} |"


def _kernel(kernel: hs.Kernel) -> str:
    return f"`{describe(kernel, to_paste=True).removeprefix('hs.').removesuffix('()')}`"


if __name__ == "__main__":
    main()
