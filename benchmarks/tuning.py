"""How fast tuners converge, and how far from the best scale they end.

Run: python benchmarks/tuning.py [--minutes M] [--seeds 20] [--only NAMES] [--part 0/3]
         [--model CHECKPOINT] [--out docs/tuning.csv] [--done TABLES]
     python benchmarks/tuning.py --figure docs/assets/tuning.png
     python benchmarks/tuning.py --table docs/tuning.md

The first command appends to docs/tuning.csv (or --out). The others draw its content as a figure and
write it as a table.

For each target and kernel, the jump distance is measured once over a grid of fixed scales, from
chains in equilibrium. Then each tuner runs from random states. The curve gives the jump distance at
the scale with which it would draw after each step. `steps` is the number of steps until the jump
distance is within 5% of the largest and stays there to the end; `efficiency` is the final share of
the largest jump distance. Lines are appended to the table as they are measured, and cases in the
table are not run again.

The large sizes take seconds on a GPU, and an hour on a CPU. Runs that would take long have fewer
seeds, as the table shows.
--model: a checkpoint of `hopscale train ebm`, measured as "deep ebm".
"""

import argparse
import functools
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tuning_report import append, figure, key_of, read, table

import hopscale as hs
from hopscale.engine import loop
from hopscale.tune import fitted
from hopscale_reproduction.design import SIZES

WITHIN = 0.05
GRID = np.linspace(-1.1, 1.1, 23)  # of log R, around the value where the tuner ended
MOST_STEPS = 40_000
MOST_WORK = 4e11  # sites moved by one tuner in total: about a minute on a GPU


class Case(NamedTuple):
    target: str
    size: int
    config: str
    kernel: str
    chains: int = 100

    def make(self) -> tuple[hs.Target, Any]:
        return TARGETS[self.target](self.size, self.config), getattr(hs, self.kernel)()


def potts(size: int, config: str) -> hs.Target:
    """Four colours on a ring, each site with a preference of its own."""
    liking = jnp.asarray(np.random.default_rng(0).normal(size=(size, 4)) * 0.5)

    def log_density(one_hot):
        same = jnp.sum(one_hot * jnp.roll(one_hot, 1, axis=0))
        return jnp.sum(liking * one_hot) + 0.7 * same

    return hs.LogDensity(log_density, (size,), num_states=4)


def network(size: int, config: str) -> hs.Target:
    """A network with random weights, large enough for first-order ratios to mislead."""
    made = hs.learn.MLP((size,), channels=64, key=0)
    made = jax.tree.map(lambda w: 3.0 * w if eqx.is_inexact_array(w) and w.ndim > 1 else w, made)
    return hs.learn.EBM(made, hs.Bernoulli(jnp.full(size, 0.5)))


@functools.cache
def small_ebm(size: int, config: str) -> hs.Target:
    """A network trained on the embedded digits, with the settings of `hopscale train ebm`."""
    from hopscale.learn import recipes

    bits = hs.data.load("digits").train
    recipe = recipes.recipe_for(bits.shape[1:])
    network = hs.learn.MLP(bits.shape[1:], channels=recipe.channels, key=0)
    model = hs.learn.EBM(network, hs.learn.base_of(bits))
    settings: dict[str, Any] = {"iterations": recipe.iterations, "settings": recipe.settings}
    return hs.learn.train_ebm(model, bits, progress=False, **settings).model


def deep_ebm(size: int, config: str) -> hs.Target:
    """A residual network trained on images of 28 x 28, from a checkpoint."""
    network = hs.learn.ResNet(channels=64)
    return hs.learn.load_model(deep_ebm.checkpoint, network)  # type: ignore[attr-defined]


def first_states(case: Case) -> np.ndarray | None:
    """The first states, if not random: for a deep EBM, the samples that training left."""
    if case.target != "deep ebm":
        return None
    from hopscale.learn import checkpoint, packing

    return packing.load_samples(checkpoint.find(deep_ebm.checkpoint), (28, 28))  # type: ignore[attr-defined]


TARGETS = {
    "bernoulli": hs.paper.bernoulli,
    "ising": hs.paper.ising,
    "fhmm": hs.paper.fhmm,
    "rbm": lambda size, config: hs.paper.rbm(size),
    "potts": potts,
    "network": network,
    "ebm": small_ebm,
    "deep ebm": deep_ebm,
}
LEARNED = {"network": 100, "ebm": 64, "deep ebm": 784}
KERNELS = ("LBP", "GWG", "RWM")


def cases() -> list[Case]:
    """The paper's targets, the largest first; categories, learned ones, few and many chains."""
    found = [
        Case(model, SIZES[model][rank], config, kernel)
        for config in ("C2", "C1", "C3")
        for rank in (2, 1, 0)
        for kernel in KERNELS
        for model in ("fhmm", "ising", "bernoulli")
    ]
    found += [Case("rbm", size, "-", kernel) for size in SIZES["rbm"] for kernel in KERNELS]
    found += [Case("potts", size, "-", kernel) for size in (2500, 200) for kernel in KERNELS]
    found += [Case(name, LEARNED[name], "-", kernel) for name in LEARNED for kernel in KERNELS]
    for chains in (4, 1000):
        found += [Case("bernoulli", 100, "C2", kernel, chains) for kernel in KERNELS]
        found += [Case("ising", 50, "C2", kernel, chains) for kernel in KERNELS]
    return [*found, Case("bernoulli", 25_600, "C2", "LBP")]


@eqx.filter_jit
def scales_of(target, kernel, tuner, keys, chains: int, steps, states=None):
    """The scale with which a tuner would draw, after each step, for each key."""

    def one(key):
        key_init, key_run = jax.random.split(key)
        if states is None:
            x = jax.random.randint(key_init, (chains, *target.shape), 0, target.num_states)
        else:
            x = states[jax.random.randint(key_init, (chains,), 0, len(states))]
        program = loop.Program(key=key_run, target=target, kernel=kernel, tuner=tuner)

        def visit(row, active, chains, info, scales):
            here = jnp.where(active, row, len(scales) - 1)
            return scales.at[here].set(tuner.settled(chains.tuner).scale)

        return loop.scan(
            program,
            loop.start(program, x.astype(target.state_dtype)),
            jnp.zeros(MOST_STEPS + 1, target.dtype),
            steps=steps,
            visit=visit,
            whole_pages=jax.default_backend() != "cpu",
        )[1]

    return jax.lax.map(one, keys, batch_size=None if jax.default_backend() == "cpu" else len(keys))


def trajectories(case: Case, tuner, seeds: int, steps: int) -> np.ndarray:
    target, kernel = case.make()
    tuner = fitted(tuner, kernel.scale_range(target))
    keys = jax.random.split(jax.random.key(17), seeds)
    states = first_states(case)
    states = None if states is None else jnp.asarray(states)
    found = scales_of(target, kernel, tuner, keys, case.chains, jnp.asarray(steps), states)
    return np.asarray(found)[:, :steps]


class Curve(NamedTuple):
    """The jump distance against log R: a cubic through the logarithms, by least squares."""

    log_scales: np.ndarray
    fit: np.ndarray
    rates: np.ndarray

    def efficiency(self, scales: np.ndarray) -> np.ndarray:
        """The jump distance as a share of the largest; 0 off the grid."""
        x = np.log(scales)
        inside = (x >= self.log_scales[0] - 1e-3) & (x <= self.log_scales[-1] + 1e-3)
        return np.where(inside, np.exp(np.polyval(self.fit, x) - np.log(self.best[2])), 0.0)

    @property
    def best(self) -> tuple[float, float, float]:
        """Scale, acceptance rate and jump distance at the top."""
        fine = np.linspace(self.log_scales[0], self.log_scales[-1], 2001)
        values = np.polyval(self.fit, fine)
        at = fine[np.argmax(values)]
        rate = np.interp(at, self.log_scales, self.rates)
        return float(np.exp(at)), float(rate), float(np.exp(values.max()))


def curve(case: Case, around: float, each: int = 30, draws: int = 400) -> Curve:
    """Measure the jump distance at fixed scales, all side by side, in equilibrium."""
    target, kernel = case.make()
    scales = kernel.scale_range(target)
    grid = np.unique(np.clip(around * np.exp(GRID), scales.low, scales.tuned_high).round(4))
    by_chain = np.repeat(grid, each)
    settings: dict[str, Any] = {"chains": len(by_chain), "progress": False, "key": 5}
    if (states := first_states(case)) is not None:
        settings["init"] = states[
            np.random.default_rng(0).integers(len(states), size=len(by_chain))
        ]
    if not kernel.informed:  # a random walk would take too long from random states
        first = hs.sample(target, hs.LBP(), warmup=500, draws=1, **settings)
        settings["init"] = first.last
    run = hs.sample(target, kernel, warmup=500, draws=draws, scale=hs.Fixed(by_chain), **settings)
    jump = run.distance_by_chain.reshape(len(grid), each).mean(axis=1)
    rates = run.accept_prob_by_chain.reshape(len(grid), each).mean(axis=1)
    near = jump > 0.5 * jump.max()
    first, last = np.argmax(near), len(near) - np.argmax(near[::-1])
    x = np.log(grid[first:last])
    degree = min(3, len(x) - 1)
    return Curve(x, np.polyfit(x, np.log(jump[first:last]), degree), rates[first:last])


def settled_after(efficiency: np.ndarray) -> np.ndarray:
    """Steps after which the efficiency stays within 5% of 1; one more than all if it never does."""
    off = efficiency < 1.0 - WITHIN
    return np.where(off.any(axis=1), off.shape[1] + 1 - np.argmax(off[:, ::-1], axis=1), 1)


def fewer(seeds: int, case: Case, sites: int, steps: int) -> int:
    """The number of seeds: as many as asked for, unless that takes long."""
    return int(np.clip(MOST_WORK / (sites * steps * case.chains), min(seeds, 4), seeds))


def measure(case: Case, seeds: int) -> list[dict[str, Any]]:
    target, _ = case.make()
    sites = target.num_sites
    new = trajectories(case, hs.Tuned(), fewer(seeds, case, sites, 2_000), 2_000)
    found = curve(case, float(np.median(new[:, -1])))
    best, rate, jump = found.best
    # The paper's rule raises R by at most 0.43 per step, and by less and less near its end.
    horizon = int(min(MOST_STEPS, max(1_000, 6 * best)))
    old = trajectories(case, hs.Adaptive(), fewer(seeds, case, sites, horizon), horizon)
    found_scales = {"Tuned": new, "Adaptive": old}
    if sites < 1_000 and jax.default_backend() == "cpu":
        held = hs.Tuned(getattr(hs, case.kernel).rate)
        found_scales["Tuned at the rate"] = trajectories(case, held, seeds, 2_000)
    lines = []
    for name, scales in found_scales.items():
        efficiency = found.efficiency(scales)
        steps, end = settled_after(efficiency), efficiency[:, -1]
        lines.append(
            {
                **{"target": case.target, "size": case.size, "config": case.config},
                **{"sites": sites, "kernel": case.kernel, "chains": case.chains},
                **{"seeds": len(scales), "best_scale": f"{best:.4g}", "best_rate": f"{rate:.3f}"},
                **{"best_jump": f"{jump:.4g}", "tuner": name, "horizon": scales.shape[1]},
                **{"steps": f"{np.median(steps):.0f}", "steps_worst": int(steps.max())},
                **{"efficiency": f"{np.median(end):.3f}", "efficiency_worst": f"{end.min():.3f}"},
            }
        )
    return lines


def wanted(given: argparse.Namespace) -> list[tuple[str, Case]]:
    """The cases that are asked for and are not in the table yet."""
    done = {key_of(line) for path in [given.out, *given.done] for line in read(path)}
    part, parts = map(int, given.part.split("/"))
    found = []
    for case in cases():
        name = f"{case.target}-{case.size}-{case.config}-{case.kernel}-{case.chains}"
        named = any(f"{name}-".startswith(f"{one}-" if one else "") for one in given.only)
        absent = case.target == "deep ebm" and given.model is None
        if named and not absent and tuple(map(str, case)) not in done:
            found.append((name, case))
    return found[part::parts]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=1e6, help="after which none is begun")
    names = {"type": lambda text: text.split(","), "default": [""]}
    parser.add_argument("--only", **names, help="as in bernoulli-100-C2-LBP,ising-20")
    parser.add_argument("--part", default="0/1", help="2/3: the last of three parts")
    parser.add_argument("--model", type=Path, help="a checkpoint of a deep EBM")
    parser.add_argument("--out", type=Path, default=Path("docs/tuning.csv"))
    parser.add_argument("--done", type=Path, nargs="*", default=[], help="tables of other parts")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", hs.ConvergenceWarning)
    if given.figure:
        pair = {
            f"{type(tuner).__name__}()": trajectories(Case("ising", 20, "C2", "LBP"), tuner, 3, 500)
            for tuner in (hs.Adaptive(), hs.Tuned())
        }
        return figure(given.out, pair, given.figure)
    if given.table:
        return table(given.out, given.table)
    deep_ebm.checkpoint = given.model  # type: ignore[attr-defined]
    started = time.perf_counter()
    for name, case in wanted(given):
        began = time.perf_counter()
        if began > started + 60 * given.minutes:
            break
        lines = measure(case, given.seeds)
        append(given.out, lines)
        said = ", ".join(f"{x['tuner']} {x['steps']} ({x['efficiency']})" for x in lines)
        print(f"{name}: {said}; {time.perf_counter() - began:.0f} s", flush=True)
    return None


if __name__ == "__main__":
    main()
