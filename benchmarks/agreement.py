"""How close the library comes to the paper's printed numbers: jump distances, rates and a slope.

Run: python benchmarks/agreement.py
"""

import numpy as np

import hopscale as hs
from hopscale_reproduction import printed as tables

CONFIGS = ("C1", "C2", "C3")
LENGTH = {"chains": 100, "warmup": 4000, "draws": 4000, "progress": False}


def row(name: str, run: hs.Run, printed: float | None = None) -> None:
    beside = "" if printed is None else f"{printed:9.2f} {run.ejd / printed - 1:+8.2%}"
    print(f"{name:34} {run.scale:8.1f} {run.acceptance:8.4f} {run.ejd:9.3f} {beside}", flush=True)


def bernoulli() -> None:
    for config in CONFIGS:
        target = hs.paper.bernoulli(800, config, spacing="even")
        asked = ("bernoulli", 800, config)
        printed = tables.value(*asked, "lbp", "barker", "adaptive", "ejd")
        same = hs.sample(target, hs.LBP("barker", "same"), **LENGTH)
        row(f"Bernoulli 800 {config} ALBP same", same, printed)
        back = hs.sample(target, hs.LBP("barker", "reversed"), **LENGTH)
        row(f"Bernoulli 800 {config} ALBP reversed", back)
        print(f"{'':34} reversed over same: {back.ejd / same.ejd - 1:+.2%}")
        walk = hs.sample(target, hs.RWM(), scale=hs.Fixed(1), **LENGTH)
        row(
            f"Bernoulli 800 {config} RWM-1", walk, tables.value(*asked, "rwm", "", "fixed-1", "ejd")
        )
        walk = hs.sample(target, hs.RWM(), **LENGTH)
        row(
            f"Bernoulli 800 {config} ARWM", walk, tables.value(*asked, "rwm", "", "adaptive", "ejd")
        )
    target = hs.paper.bernoulli(800, "C2", spacing="even")
    for balance in ("barker", "sqrt"):
        run = hs.sample(target, hs.GWG(balance), **LENGTH)
        printed = tables.value("bernoulli", 800, "C2", "gwg", balance, "adaptive", "ejd")
        row(f"Bernoulli 800 C2 AGWG({balance}) once", run, printed)
    row("Bernoulli 800 C2 AGWG parity", hs.sample(target, hs.GWG(repeats="parity"), **LENGTH))


def ising() -> None:
    for balance in ("barker", "sqrt"):
        for config in CONFIGS:
            printed = tables.value("ising", 20, config, "lbp", balance, "adaptive", "ejd")
            ejds = []
            for seed in range(4):
                target = hs.paper.ising(20, config, seed)
                run = hs.sample(target, hs.LBP(balance, "same"), **LENGTH)
                row(f"Ising 20 {config} ALBP({balance}) same, seed {seed}", run, printed)
                ejds.append(run.ejd)
            mean = np.mean(ejds)
            assert printed is not None
            print(f"{'':34} mean over fields {mean:.2f}: {mean / printed - 1:+.2%}", flush=True)


def order() -> None:
    sizes, best = [100 * 2**k for k in range(9)], []
    for size in sizes:
        target = hs.paper.bernoulli(size, "C2", spacing="even")
        warmup = 2000 + int(8 * hs.theory.optimal_scale(target))
        run = hs.sample(
            target,
            chains=100,
            warmup=warmup,
            draws=500,
            progress=False,
            init=np.random.default_rng(size).random((100, size)) < np.asarray(target.p),
        )
        row(f"Bernoulli {size} C2 ALBP", run)
        best.append(run.scale)
    slope = np.polyfit(np.log(sizes), np.log(best), 1)[0]
    print(f"slope of the scale against N, log-log: {slope:.4f} (theory: {2 / 3:.4f})")


if __name__ == "__main__":
    print(f"{'':34} {'R':>8} {'accept':>8} {'EJD':>9} {'paper':>9}")
    bernoulli()
    ising()
    order()
