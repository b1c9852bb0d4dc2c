"""Which training of the paper's RBMs reproduces its tables.

    python benchmarks/rbm_training.py --data-dir DIR [--hidden 100 400 1000] [--minutes 5]
        [--only TEXT ...] [--steps 4000] [--part 0/2] [--out benchmarks/rbm_training.csv]

The paper gives the number of hidden units, and refers to other work for the rest. This leaves open
how images become bits, and how long and by which method the models are trained. Each row is a
model. It has the jump distances of the paper's samplers (100 chains, R = 1 and tuned by the paper's
rule), divided by the printed ones; `error` is the mean of |log ratio|. The row "shipped" has the
shipped models.
"""

import argparse
import csv
import dataclasses
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import hopscale as hs
from hopscale.data import DataSet
from hopscale.learn import RBMRecipe, train_rbm
from hopscale_reproduction import printed
from hopscale_reproduction.cells import SINGLE, TUNED, table_cell
from hopscale_reproduction.design import BEST_RATE, METHODS, SIZES

ROLES = (SINGLE, TUNED)
RUNS = tuple((sampler, balance, role) for sampler, balance in METHODS for role in ROLES)
NAMES = tuple("-".join(filter(None, run)) for run in RUNS)
COLUMNS = ("training", "hidden", "seconds", "error", *NAMES)


@dataclasses.dataclass(frozen=True)
class Training:
    """Bits, epochs and how the gradient is estimated."""

    bits: str = "static"
    epochs: int = 1
    cd: int = 100
    persistent: bool = False
    rate: float = 1e-3
    seed: int = 0

    def __str__(self) -> str:
        how = f"{'PCD' if self.persistent else 'CD'}-{self.cd}"
        seed = f", seed {self.seed}" * bool(self.seed)
        return f"{self.bits} bits, {self.epochs} epochs, {how}, rate {self.rate:g}{seed}"

    def run(self, hidden: int, data: DataSet) -> hs.RBM:
        recipe = RBMRecipe(hidden, self.cd, self.persistent, rate=self.rate, seed=self.seed)
        return train_rbm(data, recipe, epochs=self.epochs, progress=False).rbm


def trainings() -> Iterator[Training]:
    """The kinds of bits; other settings for each, mostly one changed at a time; other seeds."""
    for bits in ("static", "thresholded", "dynamic"):
        yield Training(bits)
    for bits in ("static", "thresholded", "dynamic"):
        yield Training(bits, persistent=True)
        for epochs in (2, 5, 10):
            yield Training(bits, epochs)
        yield Training(bits, cd=10)
        yield Training(bits, rate=3e-3)
        yield Training(bits, rate=1e-2)
        yield Training(bits, rate=3e-4)
        yield Training(bits, 10, persistent=True)
    yield Training("static", seed=1)
    yield Training("thresholded", seed=1)


def data_sets(folder: Path) -> dict[str, DataSet]:
    names = ("static", "dynamic", "thresholded")
    return {name: hs.data.load(f"{name}-mnist", folder) for name in names}


def ratios(target: hs.Target, hidden: int, steps: int) -> list[float]:
    """Jump distances over the printed ones, in the order of `RUNS`."""
    config, found = f"C{SIZES['rbm'].index(hidden) + 1}", []
    for sampler, balance, role in RUNS:
        kernel = table_cell("rbm", hidden, config, sampler, balance).make_kernel()
        scale = hs.Fixed(1) if role == SINGLE else hs.Adaptive(BEST_RATE[sampler])
        run = hs.sample(
            target, kernel, chains=100, warmup=steps, draws=steps, scale=scale, progress=False
        )
        value = printed.value("rbm", hidden, config, sampler, balance, role, "ejd")
        found.append(float(np.mean(run.distance_by_chain)) / (value or np.nan))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--hidden", type=int, nargs="+", default=[400, 1000, 100])
    parser.add_argument("--minutes", type=float, default=60.0, help="begin nothing after that")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of names of trainings")
    parser.add_argument("--steps", type=int, default=10_000, help="of warm-up, and of draws")
    parser.add_argument("--part", default="0/1", help="1/2: the second of two halves")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", hs.ConvergenceWarning)
    part, parts = map(int, asked.part.split("/"))
    data, end = data_sets(asked.data_dir), time.monotonic() + 60 * asked.minutes
    out = asked.out.open("w") if asked.out else sys.stdout
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    models: list[Training | None] = [None, *trainings()]
    models = [m for m in models if any(one in str(m or "shipped") for one in asked.only)]
    for model, hidden in [(m, h) for m in models for h in asked.hidden][part::parts]:
        if time.monotonic() > end:
            break
        began = time.monotonic()
        target = hs.paper.rbm(hidden) if model is None else model.run(hidden, data[model.bits])
        seconds = time.monotonic() - began
        found = ratios(target, hidden, asked.steps)
        error = float(np.mean(np.abs(np.log(found))))
        numbers = (f"{x:.3f}" for x in (seconds, error, *found))
        table.writerow((str(model or "shipped"), hidden, *numbers))
        out.flush()


if __name__ == "__main__":
    main()
