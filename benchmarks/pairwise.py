"""Sweeps of pairwise and Potts models: spin updates per second, and mean energies.

    python benchmarks/pairwise.py [--g1 G1.txt] [--reads 96] [--out benchmarks/pairwise-cpu.csv]

They are compared with dwave-samplers' simulated annealing if it is installed (pip install
dwave-samplers), on as many threads as there are cores; for a Potts model, with a checkerboard in
plain JAX. Both sides run in turn, and the best of three runs counts, because other programs can
only make a run slower.
"""

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale.annealing.anneal import Schedule, anneal, begin, nothing_yet
from hopscale.engine.loop import Program
from hopscale.graphs import lattice
from hopscale.targets.powered import Powered
from hopscale.tune import fitted

try:
    import dimod
    from dwave.samplers import SimulatedAnnealingSampler  # pyright: ignore[reportMissingImports]
except ImportError:
    dimod = None

IMPLEMENTATION = "auto"  # of our sweeps
COLUMNS = (
    *("problem", "sites", "pairs", "beta", "reads", "sweeps"),
    *("ours_per_second", "other_per_second", "ratio"),
    *("energy", "error", "other_energy", "other_error"),
)


def spin_glass(side: int, seed: int = 0) -> hs.Pairwise:
    """A square lattice with couplings +1 and -1."""
    i, j = lattice.bonds((side, side))
    return hs.Pairwise((i, j, np.random.default_rng(seed).choice([-1.0, 1.0], len(i))))


def regular(n: int, seed: int = 0) -> hs.Pairwise:
    """Three neighbours for every site, by three random matchings; couplings +1 and -1."""
    rng = np.random.default_rng(seed)
    pairs: dict[tuple[int, int], float] = {}
    for _ in range(3):
        found = None
        while found is None or pairs.keys() & found.keys():  # one try in two or three succeeds
            ends = np.sort(rng.permutation(n).reshape(-1, 2), axis=1)
            signs = rng.choice([-1.0, 1.0], len(ends))
            found = {(int(i), int(j)): float(s) for (i, j), s in zip(ends, signs, strict=True)}
        pairs |= found
    return hs.Pairwise(pairs, np.zeros(n))


def max_cut(path: Path | None, seed: int = 0) -> tuple[str, hs.Pairwise]:
    """G1 of the Gset, or a random graph with as many nodes and edges."""
    if path is not None:
        rows = np.loadtxt(path, skiprows=1)
        i, j, w = rows[:, 0].astype(int) - 1, rows[:, 1].astype(int) - 1, rows[:, 2]
        return "G1", hs.Pairwise((i, j, -w))
    i, j = np.triu_indices(800, 1)
    chosen = np.random.default_rng(seed).choice(len(i), 19176, replace=False)
    return "like G1", hs.Pairwise((i[chosen], j[chosen], -np.ones(19176)))


def ours(target: hs.Target, beta: float, reads: int, sweeps: int) -> Callable[[int], np.ndarray]:
    """Sweeps at one temperature from random states; returns the final energies."""
    inner = 10 if sweeps % 10 == 0 else 1
    kernel = hs.Gibbs(rule="metropolis", sweeps=inner, implementation=IMPLEMENTATION)
    powered = Powered(target, beta)
    schedule = Schedule(jnp.full(1, beta, target.dtype), jnp.int32(0), jnp.int32(2**30))

    def run(seed: int) -> np.ndarray:
        tuner = fitted(None, None)
        program = Program(key=jax.random.key(seed), target=powered, kernel=kernel, tuner=tuner)
        x = np.random.default_rng(seed).integers(0, target.num_states, (reads, *target.shape))
        chains = begin(program, jnp.asarray(x, target.state_dtype))
        steps = jnp.int32(sweeps // inner)
        chains, _ = anneal(program, chains, nothing_yet(target), schedule, jnp.int32(0), steps)
        return -np.asarray(chains.states.evaluation.cache.log_prob)

    return run


def dwave(target: hs.Pairwise, beta: float, reads: int, sweeps: int) -> Callable[[int], np.ndarray]:
    """The same by dwave-samplers, with its reads divided among threads."""
    assert dimod is not None
    model, threads = target.to_dimod(), os.cpu_count() or 1
    shares = [len(part) for part in np.array_split(np.arange(reads), threads)]

    def part(share: int, seed: int) -> np.ndarray:
        found = SimulatedAnnealingSampler().sample(
            model,
            num_reads=share,
            num_sweeps=sweeps,
            beta_range=[beta, beta],
            beta_schedule_type="linear",
            seed=seed,
        )
        return found.record.energy

    def run(seed: int) -> np.ndarray:
        with ThreadPoolExecutor(threads) as pool:
            seeds = [seed * threads + k for k in range(threads)]
            return np.concatenate(list(pool.map(part, shares, seeds)))

    return run


def timed(run: Callable[[int], np.ndarray], seed: int) -> tuple[float, np.ndarray]:
    began = time.perf_counter()
    energies = run(seed)
    return time.perf_counter() - began, energies


def measure(name: str, target: hs.Pairwise, beta: float, reads: int, sweeps: int) -> dict:
    """A row of the table."""
    mine = ours(target, beta, reads, sweeps)
    mine(0)  # compiles
    theirs = dwave(target, beta, reads, sweeps) if dimod is not None else None
    updates = target.num_sites * reads * sweeps
    seconds: list[list[float]] = [[], []]
    energies: list[list[np.ndarray]] = [[], []]
    for turn in range(3):
        for k, run in enumerate((mine, theirs)):
            if run is not None:
                took, found = timed(run, turn + 1)
                seconds[k].append(took)
                energies[k].append(found)
    row: dict = dict.fromkeys(COLUMNS, "")
    row |= {"problem": name, "sites": target.num_sites, "pairs": target.num_pairs}
    row |= {"beta": beta, "reads": reads, "sweeps": sweeps}
    for k, prefix in enumerate(("", "other_")):
        if seconds[k]:
            row["ours_per_second" if k == 0 else "other_per_second"] = updates / min(seconds[k])
            mean, error = _mean(np.concatenate(energies[k]) / target.num_sites)
            row |= {f"{prefix}energy": mean, f"{prefix}error": error}
    if seconds[1]:
        row["ratio"] = min(seconds[1]) / min(seconds[0])
    return row


def _mean(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def checkerboard(side: int, values: int, coupling: float, reads: int, sweeps: int):
    """A Potts model in plain JAX: sweeps that update the two halves of a lattice in turn."""
    odd = jnp.asarray(np.indices((side, side)).sum(axis=0) % 2)

    def half(x, key, parity):
        code = jax.nn.one_hot(x, values)
        padded = jnp.pad(code, ((0, 0), (1, 1), (1, 1), (0, 0)))
        pull = padded[:, 2:, 1:-1] + padded[:, :-2, 1:-1]
        pull = pull + padded[:, 1:-1, 2:] + padded[:, 1:-1, :-2]
        drawn = jax.random.categorical(key, coupling * pull)
        return jnp.where(odd[None] == parity, drawn.astype(x.dtype), x)

    @jax.jit
    def run(x, key):
        def sweep(t, x):
            keys = jax.random.split(jax.random.fold_in(key, t))
            return half(half(x, keys[0], 0), keys[1], 1)

        return jax.lax.fori_loop(0, sweeps, sweep, x)

    def energies(seed: int) -> np.ndarray:
        x = np.random.default_rng(seed).integers(0, values, (reads, side, side))
        x = np.asarray(run(jnp.asarray(x, jnp.int8), jax.random.key(seed)))
        same = (x[:, 1:] == x[:, :-1]).sum(axis=(1, 2)) + (x[..., 1:] == x[..., :-1]).sum(
            axis=(1, 2)
        )
        return -coupling * same

    return energies


def measure_potts(reads: int, sweeps: int, side: int = 64, values: int = 5) -> dict:
    coupling = 0.9
    target = hs.Potts.lattice((side, side), values, coupling)
    runs = (ours(target, 1.0, reads, sweeps), checkerboard(side, values, coupling, reads, sweeps))
    found = []
    for run in runs:
        run(0)
    for turn in range(3):
        found.append([timed(run, turn + 1) for run in runs])
    updates = target.num_sites * reads * sweeps
    row: dict = dict.fromkeys(COLUMNS, "")
    row |= {"problem": f"Potts, {values} values (other: JAX)", "sites": target.num_sites}
    row |= {"pairs": target.graph.num_pairs, "beta": 1.0, "reads": reads, "sweeps": sweeps}
    seconds = [min(turn[k][0] for turn in found) for k in (0, 1)]
    row |= {"ours_per_second": updates / seconds[0], "other_per_second": updates / seconds[1]}
    row["ratio"] = seconds[1] / seconds[0]
    for k, prefix in enumerate(("", "other_")):
        mean, error = _mean(np.concatenate([turn[k][1] for turn in found]) / target.num_sites)
        row |= {f"{prefix}energy": mean, f"{prefix}error": error}
    return row


def measure_large(sweeps: int, reads: int = 16) -> dict:
    """A million sites, without a comparison."""
    target = spin_glass(1000)
    run = ours(target, 0.6, reads, sweeps)
    run(0)
    took = min(timed(run, seed)[0] for seed in (1, 2))
    row: dict = dict.fromkeys(COLUMNS, "")
    row |= {"problem": "1000 x 1000, +-J", "sites": target.num_sites, "pairs": target.num_pairs}
    row |= {"beta": 0.6, "reads": reads, "sweeps": sweeps}
    return row | {"ours_per_second": target.num_sites * reads * sweeps / took}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--g1", type=Path, help="G1 of the Gset; else a random graph of its size")
    parser.add_argument("--reads", type=int, default=96)
    parser.add_argument("--sweeps", type=int, default=500)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--potts", action="store_true", help="the Potts model alone")
    parser.add_argument("--large", action="store_true", help="a million sites alone")
    parser.add_argument("--plain", action="store_true", help="sweeps in plain JAX, not by kernels")
    asked = parser.parse_args()
    if asked.plain:
        global IMPLEMENTATION
        IMPLEMENTATION = "reference"
    if asked.potts:
        _show(measure_potts(asked.reads, max(10, asked.sweeps // 5)))
        return
    if asked.large:
        _show(measure_large(asked.sweeps))
        return
    name, cut = max_cut(asked.g1)
    reads, sweeps = asked.reads, asked.sweeps
    device = jax.devices()[0]
    print(f"# {device.device_kind}, {os.cpu_count()} cores; JAX {jax.__version__}")
    rows = []
    problems: list[tuple[str, Callable[[], hs.Pairwise], float, int, int]] = [
        (name, lambda: cut, 0.1, reads, 2 * sweeps),
        ("64 x 64, +-J", lambda: spin_glass(64), 0.6, reads, sweeps),
        ("3-regular", lambda: regular(10_000), 0.6, reads, sweeps // 2),
    ]
    for name, make, beta, chains, length in problems:
        rows.append(measure(name, make(), beta, chains, length))
        _show(rows[-1])
    rows.append(measure_potts(reads, max(10, sweeps // 5)))
    _show(rows[-1])
    rows.append(measure_large(max(10, sweeps // 10)))
    _show(rows[-1])
    if asked.out is not None:
        with asked.out.open("w", newline="") as file:
            file.write(f"# {device.device_kind}, {os.cpu_count()} cores; JAX {jax.__version__}\n")
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


def _show(row: dict) -> None:
    shown = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()]
    print(", ".join(f"{n} {v}" for n, v in zip(row, shown, strict=True) if v))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
