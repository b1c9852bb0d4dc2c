"""The cost of a step of LBP with more than two values, compared with bits.

    python benchmarks/categories.py [--side 64] [--chains 10] [--out benchmarks/categories-cpu.csv]

All targets are square lattices of one size: an Ising model for bits, and Potts models for more
values, at the same number of sites per step. The comparison is between steps without the target's
own evaluation, which is timed alone. What remains is choosing sites, drawing values, scoring the
way back, and copying the accepted state. The numbers of values are timed in turn, and the best of
many short runs counts, because other programs can only make a run slower.
"""

import argparse
import csv
import os
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs

COLUMNS = ("values", "sites", "chains", "R", "step_ms", "evaluation_ms", "beyond_ms", "times_bits")


def lattice(side: int, values: int) -> hs.Target:
    if values == 2:
        return hs.Ising(np.zeros((side, side)), 0.2)
    return hs.Potts.lattice((side, side), values, 0.4)


def programs(target: hs.Target, chains: int, scale: float, steps: int):
    """Steps of LBP, and evaluations alone, as functions without arguments."""
    kernel, key = hs.LBP(), jax.random.key(0)
    x = np.random.default_rng(0).integers(0, target.num_states, (chains, *target.shape))
    states = jax.jit(jax.vmap(lambda x: kernel.init(target, x)))(jnp.asarray(x, jnp.int8))

    @jax.jit
    def step(target, states):
        def one(t, states):
            own = jax.vmap(lambda c: jax.random.fold_in(jax.random.fold_in(key, t), c))
            keys = own(jnp.arange(chains))
            return jax.vmap(lambda k, s: kernel.step(k, target, s, jnp.float32(scale))[0])(
                keys, states
            )

        return jax.lax.fori_loop(0, steps, one, states)

    @jax.jit
    def evaluate(target, x):
        def one(_, carry):
            x, _ = carry
            found = jax.vmap(target.evaluate)(x)
            never = found.log_prob > 1e30  # so that each evaluation waits for the one before
            return jnp.where(never.reshape(-1, *[1] * (x.ndim - 1)), 0, x), found

        return jax.lax.fori_loop(0, steps, one, (x, jax.vmap(target.evaluate)(x)))

    return (lambda: step(target, states)), (lambda: evaluate(target, states.x))


def measure(side: int, chains: int, clock, steps: int = 50, turns: int = 30) -> list[dict]:
    scale = round(1.5 * (side * side) ** (2 / 3) / 2)
    found = {k: programs(lattice(side, k), chains, scale, steps) for k in (2, 3, 5)}
    best = {k: [np.inf, np.inf] for k in found}
    for turn in range(turns + 1):
        for k, runs in found.items():
            for which, run in enumerate(runs):
                began = clock()
                jax.block_until_ready(run())
                if turn:  # the first compiles
                    best[k][which] = min(best[k][which], clock() - began)
    beyond = {k: (a - b) / steps * 1e3 for k, (a, b) in best.items()}
    rows = []
    for k, (step, evaluation) in best.items():
        numbers = (step / steps * 1e3, evaluation / steps * 1e3, beyond[k], beyond[k] / beyond[2])
        rows.append(dict(zip(COLUMNS, (k, side * side, chains, scale, *numbers), strict=True)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--chains", type=int, default=10)
    parser.add_argument(
        "--processor", action="store_true", help="seconds of processor time: others use the machine"
    )
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    print(f"# {jax.devices()[0].device_kind}, {os.cpu_count()} cores; JAX {jax.__version__}")
    clock = time.process_time if asked.processor else time.perf_counter
    rows = [
        {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in row.items()}
        for row in measure(asked.side, asked.chains, clock)
    ]
    for out in [sys.stdout] + ([asked.out.open("w")] if asked.out else []):
        table = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
