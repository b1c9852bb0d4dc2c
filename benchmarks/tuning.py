"""How fast tuners land, and how far from the best scale they end.

Run: python benchmarks/tuning.py [--device-sizes] [--minutes M] [--seeds 20] [--only NAMES]
     python benchmarks/tuning.py --figure docs/assets/tuning.png
     python benchmarks/tuning.py --table docs/tuning.md

The first appends to docs/tuning.csv (or --out), the others draw and write what is in it.

For each target and kernel the jump distance is measured once over a grid of fixed scales, from
chains in equilibrium. Then each tuner runs from random states, and the scale with which it would
draw after each step is read off that curve: `steps` is how many it takes until the jump distance is
within 5% of the largest, and stays there to the end; `efficiency` is the share of the largest jump
distance at the end. Lines are appended to the table as they come; what is in it is not run again.

--device-sizes: the paper's large sizes instead, minutes on a GPU, hours on a CPU.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale import loop
from hopscale.tune import fitted

WITHIN = 0.05
GRID = np.linspace(-1.1, 1.1, 23)  # of log R, about where the tuner ended
COLUMNS = (
    *("target", "size", "config", "sites", "kernel", "chains", "seeds"),
    *("best_scale", "best_rate", "best_jump", "tuner", "horizon"),
    *("steps", "steps_worst", "efficiency", "efficiency_worst"),
)


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


TARGETS = {
    "bernoulli": hs.paper.bernoulli,
    "ising": hs.paper.ising,
    "fhmm": hs.paper.fhmm,
    "rbm": lambda size, config: hs.paper.rbm(size),
    "potts": potts,
    "network": network,
}
SMALL = {"bernoulli": (100, 800), "ising": (20,), "fhmm": (200,)}
LARGE = {"bernoulli": (6400,), "ising": (50, 100), "fhmm": (1000, 4000)}
RBMS = {"C1": 100, "C2": 400, "C3": 1000}
KERNELS = ("LBP", "GWG", "RWM")


def cases() -> list[Case]:
    """What a CPU does in an hour."""
    found = [Case(n, size, "C2", kernel) for n in SMALL for size in SMALL[n] for kernel in KERNELS]
    found += [Case("rbm", 400, "C2", kernel) for kernel in KERNELS]
    found += [Case("potts", 200, "-", kernel) for kernel in KERNELS]
    found += [Case("network", 100, "-", kernel) for kernel in KERNELS]
    found += [Case("bernoulli", 100, "C2", kernel, n) for kernel in KERNELS for n in (4, 1000)]
    return found


def device_cases() -> list[Case]:
    """The paper's large sizes; all configurations for LBP, and the RBMs of other sizes."""
    sizes = [(name, size) for name in LARGE for size in LARGE[name]]
    found = [Case(name, size, "C2", "LBP") for name, size in sizes]
    found += [Case("bernoulli", 25_600, "C2", "LBP")]
    found += [Case(name, size, config, "LBP") for name, size in sizes for config in ("C1", "C3")]
    found += [Case(name, size, "C2", kernel) for kernel in ("GWG", "RWM") for name, size in sizes]
    return found + [Case("rbm", RBMS[c], c, kernel) for c in ("C1", "C3") for kernel in KERNELS]


@eqx.filter_jit
def scales_of(target, kernel, tuner, keys, chains: int, steps):
    """The scale with which a tuner would draw, after each step, for each key."""

    def one(key):
        key_init, key_run = jax.random.split(key)
        x = jax.random.randint(key_init, (chains, *target.shape), 0, target.num_states)
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


MOST_STEPS = 40_000


def trajectories(case: Case, tuner, seeds: int, steps: int) -> np.ndarray:
    target, kernel = case.make()
    tuner = fitted(tuner, kernel.scale_range(target))
    keys = jax.random.split(jax.random.key(17), seeds)
    found = scales_of(target, kernel, tuner, keys, case.chains, jnp.asarray(steps))
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
    """Steps after which the efficiency is within 5% of 1, and stays so; all of them if never."""
    off = efficiency < 1.0 - WITHIN
    return np.where(off.any(axis=1), off.shape[1] - np.argmax(off[:, ::-1], axis=1), 0)


def measure(case: Case, seeds: int) -> list[dict[str, Any]]:
    target, _ = case.make()
    new = trajectories(case, hs.Tuned(), seeds, 2_000)
    found = curve(case, float(np.median(new[:, -1])))
    best, rate, jump = found.best
    # The paper's rule grows by 0.43 a step at most, by less and less near its end.
    horizon = int(min(MOST_STEPS, max(2_000, 8 * best)))
    found_scales = [new, trajectories(case, hs.Adaptive(), seeds, horizon)]
    names = ["Tuned", "Adaptive"]
    if target.num_sites < 1_000:
        held = hs.Tuned(getattr(hs, case.kernel).rate)
        found_scales.append(trajectories(case, held, seeds, 2_000))
        names.append("Tuned at the rate")
    lines = []
    for name, scales in zip(names, found_scales, strict=True):
        efficiency = found.efficiency(scales)
        steps, end = settled_after(efficiency), efficiency[:, -1]
        values = [
            *(case.target, case.size, case.config, target.num_sites, case.kernel, case.chains),
            *(seeds, f"{best:.4g}", f"{rate:.3f}", f"{jump:.4g}", name, scales.shape[1]),
            *(f"{np.median(steps):.0f}", int(steps.max())),
            *(f"{np.median(end):.3f}", f"{end.min():.3f}"),
        ]
        lines.append(dict(zip(COLUMNS, values, strict=True)))
    return lines


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def append(path: Path, lines: list[dict[str, Any]]) -> None:
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(lines)


def key_of(line: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(line[name]) for name in ("target", "size", "config", "kernel", "chains"))


def figure(table: Path, picture: Path) -> None:
    """Steps of the paper's rule against steps of the new one, and one pair of trajectories."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    by_case: dict[tuple, dict[str, float]] = {}
    for line in read(table):
        by_case.setdefault(key_of(line), {})[line["tuner"]] = float(line["steps"])
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    case = Case("ising", 20, "C2", "LBP")
    for tuner, color in ((hs.Adaptive(), "tab:orange"), (hs.Tuned(), "tab:blue")):
        scales = trajectories(case, tuner, 3, 500)
        label = f"{type(tuner).__name__}()"
        left.plot(np.arange(1, 501), scales.T, color=color, lw=0.8, label=[label, None, None])
    left.set(xscale="log", yscale="log", xlabel="step of warm-up", ylabel="scale R")
    left.set_title("Ising, 400 sites, LBP, 100 chains, 3 seeds", fontsize=10)
    left.legend()
    for kernel, color in zip(KERNELS, ("tab:blue", "tab:green", "tab:red"), strict=True):
        pairs = [(v["Adaptive"], v["Tuned"]) for k, v in by_case.items() if k[3] == kernel]
        x, y = np.maximum(np.array(pairs).reshape(-1, 2).T, 1)
        right.scatter(x, y, color=color, s=22, label=kernel, alpha=0.8)
    ends = np.array([1, 1e5])
    for factor in (1, 20):
        right.plot(ends, ends / factor, color="0.6", lw=0.8, ls=":" if factor == 1 else "--")
    right.set(xscale="log", yscale="log", xlim=(1, 5e4), ylim=(1, 2e3))
    right.set(xlabel="steps of Adaptive()", ylabel="steps of Tuned()")
    right.set_title("until the jump is within 5% of the largest (dashed: 20x)", fontsize=10)
    right.legend()
    plt.savefig(picture, dpi=130)


def table(path: Path, page: Path) -> None:
    """Write the table into a page, between two comments."""
    by_case: dict[tuple, dict[str, dict[str, str]]] = {}
    for line in read(path):
        by_case.setdefault(key_of(line), {})[line["tuner"]] = line
    head = (
        "| target | sites | kernel | chains | seeds | best R | its rate | steps, `Adaptive` "
        "| steps, `Tuned` | times fewer | worst seed | efficiency |"
    )
    rows = [head, "|---|---" + "|---:" * 10 + "|"]
    for found in by_case.values():
        new, old = found["Tuned"], found["Adaptive"]
        times = max(float(old["steps"]), 1) / max(float(new["steps"]), 1)
        late = ">" if old["steps"] == old["horizon"] else ""
        name = f"{new['target']} {new['config']}".removesuffix(" -")
        cells = [
            *(name, f"{int(new['sites']):,}", new["kernel"], new["chains"], new["seeds"]),
            *(new["best_scale"], new["best_rate"], late + old["steps"], new["steps"]),
            *(f"{late}{times:.3g}", new["steps_worst"], new["efficiency"]),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    text = page.read_text()
    before, rest = text.split(BEGIN)
    page.write_text(before + BEGIN + "\n" + "\n".join(rows) + "\n" + END + rest.split(END)[1])


BEGIN, END = "<!-- table: benchmarks/tuning.py -->", "<!-- end of table -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device-sizes", action="store_true")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=1e6, help="after which none is begun")
    parser.add_argument("--only", default="", help="as in bernoulli-100-C2-LBP,ising-20")
    parser.add_argument("--out", type=Path, default=Path("docs/tuning.csv"))
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", hs.ConvergenceWarning)
    if given.figure:
        return figure(given.out, given.figure)
    if given.table:
        return table(given.out, given.table)
    done = {key_of(line) for line in read(given.out)}
    started = time.perf_counter()
    for case in device_cases() if given.device_sizes else cases():
        name = f"{case.target}-{case.size}-{case.config}-{case.kernel}-{case.chains}"
        if (
            not any(
                f"{name}-".startswith(f"{one}-" if one else "") for one in given.only.split(",")
            )
            or tuple(map(str, case)) in done
        ):
            continue
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
