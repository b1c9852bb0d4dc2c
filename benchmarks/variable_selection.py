"""Variable selection: effective draws per second, ours and millipede's, on the same data.

    python benchmarks/variable_selection.py diabetes simulated large
    python benchmarks/variable_selection.py diabetes --millipede    # PyPI: millipede-regression

Both sample the posterior of a linear model with independent slabs of variance 1 / tau and prior
inclusion probability h. An effective draw is one independent draw's worth for the mean of a
column's inclusion (posterior probability given the other columns, as both can report it); `worst`
and `median` are over at most 64 columns with inclusion probabilities between 0.01 and 0.99. Only
drawing is timed, after warm-up and compilation.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from hopscale import data, diagnostics

TAU = 0.01


def diabetes():
    """Ten measurements, their products and squares: p = 64, n = 442."""
    return data.diabetes(interactions=True)[:2]


def simulated(n=300, p=1_000, seed=0):
    """Columns correlated in groups of five; ten have an effect, two of these in one group."""
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.normal(size=(n, p // 5)), 5, axis=1)
    x = np.sqrt(0.7) * common + np.sqrt(0.3) * rng.normal(size=(n, p))
    effect = np.zeros(p)
    effect[np.r_[0, 1, np.arange(1, 9) * 50]] = np.linspace(0.25, 0.8, 10)
    return x, x @ effect + rng.normal(size=n)


DATA = {
    "diabetes": diabetes,
    "simulated": simulated,
    "large": lambda: simulated(n=500, p=50_000),
}


def standardised(name):
    x, y = DATA[name]()
    x, y = x - x.mean(axis=0), y - y.mean()
    return x / x.std(axis=0), y / y.std()


class Clock:
    """Wall-clock seconds, and those of all processor cores: others may use the machine."""

    def __init__(self):
        self.began = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.began[0], time.process_time() - self.began[1]


def report(name, sampler, ess, mean, wall, cpu, **more) -> dict:
    """The line of one run: effective draws of the open columns, per second of drawing."""
    worst, median = float(ess.min()), float(np.median(ess))
    return {
        "data": name,
        "sampler": sampler,
        "columns": int(ess.size),
        "worst_a_cpu_second": round(worst / cpu, 2),
        "median_a_cpu_second": round(median / cpu, 2),
        "worst_a_second": round(worst / wall, 2),
        "median_a_second": round(median / wall, 2),
        "seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "expected_size": round(float(mean.sum()), 2),
        **more,
    }


def prior_inclusion(p: int) -> float:
    return 5.0 / p


def ours(name: str, chains: int, warmup: int, draws: int) -> tuple[dict, np.ndarray]:
    import jax

    import hopscale as hs

    x, y = standardised(name)
    model = hs.models.VariableSelection(
        x, y, hs.models.Slab(1.0 / TAU), inclusion=prior_inclusion(x.shape[1])
    )
    settings = {"chains": chains, "warmup": warmup, "progress": False}
    record = {"inclusion": hs.models.Inclusion()}
    short = hs.sample(model, draws=max(draws // 4, 50), record=record, **settings)
    mean = short.recorded["inclusion"].mean
    open_columns = np.flatnonzero((mean > 0.01) & (mean < 0.99))[:64]

    def watched(state, info):
        ratios = state.log_ratios[open_columns]
        return jax.nn.sigmoid(jax.numpy.where(state.x[open_columns] == 1, -ratios, ratios))

    run = hs.sample(model, draws=8, record={"watched": watched, **record}, **settings)
    clock = Clock()
    run = run.extend(draws, progress=False)
    wall, cpu = clock.read()
    names = [f"watched[{i}]" for i in range(len(open_columns))]
    traces = np.stack([run.statistics[n].trace for n in names], axis=2)[:, 8:]
    ess = np.array([diagnostics.mean_ess(traces[..., j]) for j in range(traces.shape[2])])
    mean = run.recorded["inclusion"].mean
    more = {
        "steps_a_second": round(draws / wall, 1),
        "chains": chains,
        "scale": round(float(np.mean(run.scale)), 2),
        "acceptance": round(run.acceptance, 3),
        "r_hat": round(run.r_hat, 4),
        "compile_seconds": round(run.compile_seconds, 1),
    }
    return report(name, "hopscale", ess, mean, wall, cpu, **more), mean


def theirs(name: str, warmup: int, draws: int) -> tuple[dict, np.ndarray]:
    """Millipede's weighted Gibbs sampler; its draws carry weights."""
    import torch  # pyright: ignore[reportMissingImports]
    from millipede import NormalLikelihoodSampler  # pyright: ignore[reportMissingImports]

    x, y = standardised(name)
    p = x.shape[1]
    sampler = NormalLikelihoodSampler(
        torch.tensor(x),
        torch.tensor(y),
        S=p * prior_inclusion(p),
        prior="isotropic",
        tau=TAU,
        include_intercept=False,
        nu0=0.0,
        lambda0=0.0,
        verbose_constructor=False,
    )
    torch.manual_seed(0)
    pips, weights, clock = [], [], Clock()
    for drawn, sample in sampler.mcmc_chain(T=draws, T_burnin=warmup, seed=0):
        if not drawn:
            clock = Clock()
            continue
        pips.append(sample.pip.cpu().numpy().copy())
        weights.append(float(sample.weight))
    wall, cpu = clock.read()
    pips, weights = np.array(pips), np.array(weights)
    weights = weights / weights.mean()
    mean = (weights[:, None] * pips).mean(axis=0)
    open_columns = np.flatnonzero((mean > 0.01) & (mean < 0.99))[:64]
    # The mean is a ratio; its error is that of weights x (pip - mean).
    terms = weights[:, None] * (pips[:, open_columns] - mean[open_columns])
    variance = (weights[:, None] * (pips[:, open_columns] - mean[open_columns]) ** 2).mean(axis=0)
    ess = np.array(
        [
            diagnostics.mean_ess(terms[None, :, j]) * variance[j] / terms[:, j].var()
            for j in range(terms.shape[1])
        ]
    )
    more = {"steps_a_second": round(draws / wall, 1)}
    return report(name, "millipede", ess, mean, wall, cpu, **more), mean


SETTINGS = {"diabetes": (16, 1000, 4000), "simulated": (8, 1000, 2000), "large": (4, 500, 1500)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", choices=list(DATA))
    parser.add_argument("--millipede", action="store_true", help="that sampler instead of ours")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--save", type=Path, help="a folder for inclusion probabilities")
    options = parser.parse_args()
    for name in options.data:
        chains, warmup, draws = SETTINGS[name]
        draws, warmup = options.draws or draws, options.warmup or warmup
        run = (
            theirs(name, warmup, draws) if options.millipede else ours(name, chains, warmup, draws)
        )
        line, mean = run
        print(json.dumps(line), flush=True)
        if options.save:
            np.save(options.save / f"{name}-{line['sampler']}.npy", mean)


if __name__ == "__main__":
    main()
