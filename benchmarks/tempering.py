"""Parallel tempering where the answer is known: exact numbers beside those of a run.

python benchmarks/tempering.py [case ...] [--chains 32] [--draws 4000] [--minutes M] [--plain]
python benchmarks/tempering.py --cost

Cases: ising, modes, frustrated, glass, bits (on a CPU); rbm (a GPU helps). With --minutes a run
continues, some draws at a time, and prints its results after each. --cost: the time of a run with
12 levels, in runs without tempering.
"""

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs

warnings.simplefilter("ignore", hs.ConvergenceWarning)

KEEP = 1_000  # draws between two states that are saved


def lattice_log_z(field: np.ndarray, down: np.ndarray, right: np.ndarray) -> float:
    """log Z of spins on an open lattice, site by site, with all states of a row's width."""
    rows, width = field.shape
    spins = 2.0 * (np.arange(2**width)[:, None] >> np.arange(width) & 1) - 1.0
    log_weight = np.full(2**width, -np.inf)
    log_weight[0] = 0.0  # before the first row there are no couplings
    for r in range(rows):
        for c in range(width):
            flipped = log_weight[np.arange(2**width) ^ (1 << c)]
            if r:
                # Sum over the site above, whose place this one takes.
                above = down[r - 1, c]
                log_weight = np.logaddexp(log_weight + above, flipped - above)
            else:
                log_weight = np.logaddexp(log_weight, flipped)
            log_weight = log_weight + field[r, c] * spins[:, c]
            if c:
                log_weight = log_weight + right[r, c - 1] * spins[:, c] * spins[:, c - 1]
    return float(np.logaddexp.reduce(log_weight))


def slope(function, at: float, step: float = 1e-4) -> float:
    return (function(at + step) - function(at - step)) / (2 * step)


def enumerated(target: hs.Target, function) -> tuple[float, float]:
    """log Z, and the mean of a function of x."""
    states = jnp.asarray(hs.check.states(target))
    log_prob = np.asarray(jax.vmap(target.log_prob)(states), np.float64)
    log_z = np.logaddexp.reduce(log_prob)
    return float(log_z), float(np.exp(log_prob - log_z) @ np.asarray(jax.vmap(function)(states)))


# Each case: the target, the kernel, what to record, and the truth by name.


def ising(size: int = 16, coupling: float = 0.5, h: float = 0.002):
    """Below the critical temperature (J > 0.4407): two modes, whose weights the field sets."""
    ones, bonds = np.ones((size, size)), np.ones((size - 1, size))

    def log_z(j: float, field: float) -> float:
        return lattice_log_z(field * ones, j * bonds, j * bonds.T)

    def magnetisation(state, info):
        return jnp.mean(2.0 * state.x - 1.0)

    def bond_sum(state, info):
        s = 2.0 * state.x - 1.0
        return jnp.sum(s[1:] * s[:-1]) + jnp.sum(s[:, 1:] * s[:, :-1])

    truth = {
        "log_z": log_z(coupling, h),
        "magnetisation": slope(lambda f: log_z(coupling, f), h) / size**2,
        "bond_sum": slope(lambda j: log_z(j, h), coupling),
    }
    target = hs.Ising(h * ones, coupling)
    return target, hs.Gibbs(), {"magnetisation": magnetisation, "bond_sum": bond_sum}, truth


def modes(sites: int = 32, sharp: float = 3.0):
    """A mixture of five products of independent bits, around states about n / 2 sites apart."""
    weights = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
    centres = jnp.asarray(np.random.default_rng(1).integers(0, 2, (5, sites)))
    log_weights = jnp.log(jnp.asarray(weights))

    def log_density(x):
        far = jnp.sum(jnp.abs(x[None] - centres), axis=1)
        return jax.nn.logsumexp(log_weights - sharp * far)

    def nearest(k):
        def function(state, info):
            far = jnp.sum(state.x[None] != centres, axis=1)
            return (jnp.argmin(far) == k).astype(jnp.float32)

        return function

    truth = {f"mode {k}": float(w) for k, w in enumerate(weights)}
    truth["log_z"] = sites * np.log1p(np.exp(-sharp))
    record = {f"mode {k}": nearest(k) for k in range(5)}
    return hs.LogDensity(log_density, (sites,)), hs.LBP(), record, truth


def frustrated(sites: int = 16):
    """A Boltzmann machine with strong couplings of both signs between all sites."""
    rng = np.random.default_rng(4)
    couplings = np.triu(rng.normal(size=(sites, sites)), 1)
    target = hs.Pairwise(couplings + couplings.T, 0.3 * rng.normal(size=sites))

    def first(x):
        return x[0] * x[1] * 1.0

    log_z, mean = enumerated(target, first)
    record = {"x0 x1": lambda state, info: first(state.x)}
    return target, hs.Gibbs(), record, {"log_z": log_z, "x0 x1": mean}


def glass(size: int = 6, beta: float = 2.0):
    """Spins with couplings of +1 or -1, at low temperature."""
    rng = np.random.default_rng(6)
    down, right = (
        rng.choice([-1.0, 1.0], (size - 1, size)),
        rng.choice([-1.0, 1.0], (size, size - 1)),
    )
    nothing = np.zeros((size, size))

    def log_z(b: float) -> float:
        return lattice_log_z(nothing, b * down, b * right)

    def energy(state, info):
        return -state.log_prob / beta

    target = hs.Ising(nothing, (beta * down, beta * right))
    truth = {"log_z": log_z(beta), "energy": -slope(log_z, beta)}
    return target, hs.Gibbs(), {"energy": energy}, truth


def bits(sites: int = 100, p: float = 0.98):
    """Independent bits, which a sweep draws exactly: the cost of a round trip by itself."""
    return hs.Bernoulli(np.full(sites, p)), hs.Gibbs(), {}, {"log_z": 0.0}


def rbm(hidden: int = 400):
    """The shipped RBM; log Z by annealed importance sampling from two sides is 363.24 ± 0.19."""
    return hs.paper.rbm(hidden), hs.LBP("sqrt"), {}, {"log_z": 363.24}


CASES = {f.__name__: f for f in (ising, modes, frustrated, glass, bits, rbm)}


def run_case(name: str, options: argparse.Namespace) -> None:
    target, kernel, record, truth = CASES[name]()
    temper = None if options.plain else hs.Tempering(options.levels, options.reference)
    began, cpu = time.perf_counter(), time.process_time()
    run = hs.sample(
        target,
        kernel,
        temper=temper,
        chains=options.chains,
        warmup=options.warmup,
        draws=options.draws,
        record=record,
        keep=min(options.keep, options.draws) if options.save else None,
        key=options.seed,
    )
    report(name, run, truth, options, time.process_time() - cpu)
    if name == "bits" and run.tempering is not None:
        cpu = time.process_time()
        longer = run.extend(options.draws, progress=False).tempering
        assert longer is not None
        more = longer.round_trips - run.tempering.round_trips
        print(f"  {more / (time.process_time() - cpu):,.0f} round trips a second of CPU")
    while time.perf_counter() < began + 60 * options.minutes:
        run = run.extend(options.draws, progress=False)
        report(name, run, truth, options, time.process_time() - cpu)


def report(name: str, run: hs.Run, truth: dict[str, float], options, cpu: float) -> None:
    print(f"\n{name}: {run.target.num_sites} sites, {run.num_draws:,} draws, R-hat {run.r_hat:.3f}")
    if (found := run.tempering) is not None:
        print(
            f"  levels {found.betas.size}  barrier {found.barrier:.2f}  rejected "
            f"{found.rejections.min():.2f} to {found.rejections.max():.2f}  round trips "
            f"{found.round_trips:,} ({found.round_trips / run.run_seconds:,.0f}/s)"
        )
        show("log_z", found.log_z, found.log_z_error, truth["log_z"])
    for statistic in run.statistics.values():
        if statistic.name in truth:
            show(statistic.name, statistic.mean, statistic.error, truth[statistic.name])
    print(f"  seconds {run.run_seconds:.1f} run + {run.compile_seconds:.1f} compile, CPU {cpu:.1f}")
    for sentence in run.warnings:
        print(f"  ! {sentence}", flush=True)
    if options.save and run.draws is not None:
        np.savez_compressed(options.save, draws=run.draws)


def cost(options: argparse.Namespace) -> None:
    """Print the time of a run with 12 levels, in runs without tempering, without compilation."""
    targets = {"Ising 50 x 50": hs.paper.ising(50, "C2"), "RBM, h = 400": hs.paper.rbm(400)}
    for name, target in targets.items():
        seconds = {}
        for levels in (1, 12):
            temper = hs.Tempering(levels=levels) if levels > 1 else None
            settings = {"chains": options.chains, "warmup": 64, "draws": 64, "progress": False}
            run = hs.sample(target, hs.LBP("sqrt"), temper=temper, key=0, **settings)
            times = []
            for _ in range(3):
                began = time.perf_counter()
                run = run.extend(options.draws, progress=False)
                times.append(time.perf_counter() - began)
            seconds[levels] = min(times) / options.draws
        print(
            f"{name}, {options.chains} chains, LBP: {1e3 * seconds[1]:.3f} ms a step, "
            f"{1e3 * seconds[12]:.3f} with 12 levels: {seconds[12] / seconds[1]:.2f} runs",
            flush=True,
        )


def show(name: str, found: float, error: float, truth: float) -> None:
    away = (found - truth) / error if error else np.nan
    print(f"  {name:<14} {found:12.5f} ± {error:<9.2g} exact {truth:12.5f}  ({away:+.1f} errors)")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "cases", nargs="*", default=["ising", "modes", "frustrated", "glass", "bits"]
    )
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--warmup", type=int, default=2_000)
    parser.add_argument("--draws", type=int, default=4_000)
    parser.add_argument("--levels", type=int)
    parser.add_argument("--reference", default="uniform")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="without tempering")
    parser.add_argument("--minutes", type=float, default=0.0, help="go on for that long")
    parser.add_argument("--cost", action="store_true", help="of levels, in runs")
    parser.add_argument("--keep", type=int, default=KEEP, help="draws between states saved")
    parser.add_argument("--save", help="an .npz file for states")
    options = parser.parse_args()
    if options.cost:
        return cost(options)
    for name in options.cases:
        run_case(name, options)
    return None


if __name__ == "__main__":
    main()
