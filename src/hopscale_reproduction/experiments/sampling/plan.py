"""Sampling from Bernoulli, Ising, FHMM and RBM targets (Section 5.1, Appendix C).

For each sampler X: X-1 keeps R = 1; AX tunes R for the theory's best rate; GX takes the best of
all rates a_max - 0.02 k down to 0.03, where a_max is the rate at R = 1. Efficiency has a single
maximum along the rates. So every tenth rate is run, then every fifth around the best of those, and
then all around the best of these. The cells of a grid are also the points of the performance curves
(Figures 1 to 3 and the appendix's).
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hopscale_reproduction.cells import GRID, Cell, table_cell
from hopscale_reproduction.design import (
    BEST_RATE,
    CHAINS,
    CONFIGS,
    LENGTHS,
    MAIN,
    METHODS,
    RBM_LENGTH,
    SIZES,
    single_and_tuned,
)
from hopscale_reproduction.experiment import Find
from hopscale_reproduction.values import metric

LOWEST_RATE = 0.03
NEIGHBOURS = 2  # rates on either side of the best that must be done
# Warm-up and draws of grids whose chains are shorter than those of X-1 and AX. They are at the
# largest sizes, where jump distances are known to a thousandth after 20,000 draws and each of 50
# rates would take seconds of a GPU. For Bernoulli and the FHMM, 20,000 draws are also what the
# printed effective sample sizes imply. Elsewhere the random walk keeps its length, because its
# sample sizes depend on the length and it forgets its first state slowly.
GRID_LENGTHS = {
    **{
        (model, SIZES[model][-1], sampler): (10_000, 20_000)
        for model in ("bernoulli", "ising", "fhmm")
        for sampler in ("gwg", "lbp")
    },
    ("fhmm", 4000, "rwm"): (20_000, 20_000),
}


class Plan(NamedTuple):
    """What a profile covers."""

    lengths: tuple[int, ...]  # of chains, for the small, the medium and the large size
    instances: dict[str, tuple[int, ...]]  # how many random targets of each size
    configs: tuple[str, ...]
    methods: tuple[tuple[str, str], ...]
    step: dict[str, float]  # between rates, by sampler
    strides: tuple[int, ...]  # one rate in n is run: everywhere, then around the best
    reach: dict[tuple[str, str], float]  # of rates around the theory's, by model and sampler


PLANS = {
    "quick": Plan(
        lengths=(3_000,),
        instances={"bernoulli": (1,), "ising": (1,), "fhmm": (1,), "rbm": (1,)},
        configs=("C2",),
        methods=MAIN,
        # The random walk accepts half as often, so its rates lie in half the range.
        step={"rwm": 0.04, "lbp": 0.08},
        strides=(1,),
        # For the most expensive models, only the top of the curve. On the RBM, the random walk does
        # not come near equilibrium in chains this short, whatever its acceptance rate.
        reach={
            ("fhmm", "rwm"): 0.27,
            ("fhmm", "lbp"): 0.27,
            ("rbm", "lbp"): 0.27,
            ("rbm", "rwm"): 0,
        },
    ),
    "paper": Plan(
        lengths=LENGTHS,
        # Evenly spaced p are not random; fields and series are drawn.
        instances={
            "bernoulli": (1, 1, 1),
            "ising": (4, 2, 1),
            "fhmm": (4, 2, 1),
            "rbm": (1, 1, 1),
        },
        configs=CONFIGS,
        methods=METHODS,
        step={"rwm": 0.02, "gwg": 0.02, "lbp": 0.02},
        strides=(10, 5),
        reach={},
    ),
}


class PlannedColumn(NamedTuple):
    """A column of the tables: one target distribution, in one or more random instances."""

    size: int
    config: str
    length: int
    instances: int


def columns(model: str, profile: str) -> Iterator[PlannedColumn]:
    """The columns of a model's tables. The RBM's three sizes are its three configurations."""
    plan = PLANS[profile]
    for rank, (length, instances) in enumerate(
        zip(plan.lengths, plan.instances[model], strict=True)
    ):
        size = SIZES[model][rank]
        if model == "rbm":
            length = length if profile == "quick" else RBM_LENGTH
            yield PlannedColumn(size, CONFIGS[rank], length, instances)
        else:
            for config in plan.configs:
                yield PlannedColumn(size, config, length, instances)


def cells(model: str, profile: str, find: Find) -> Iterator[Cell]:
    """R = 1 and the tuned scale for all, and the grid of rates wherever R = 1 is done."""
    plan = PLANS[profile]
    for size, config, length, instances in columns(model, profile):
        for sampler, balance in plan.methods:
            for instance in range(instances):
                single, tuned = single_and_tuned(
                    table_cell(
                        model,
                        size,
                        config,
                        sampler,
                        balance,
                        instance=instance,
                        warmup=length // 2,
                        draws=length // 2,
                        chains=CHAINS[profile],
                    )
                )
                yield from (single, tuned)
                if instance == 0:
                    reach = plan.reach.get((model, sampler), 1.0)
                    yield from grid(single, plan.step[sampler], find, reach, plan.strides)


def grid(
    single: Cell, step: float, find: Find, reach: float = 1.0, strides: Sequence[int] = (1,)
) -> list[Cell]:
    """Cells tuned for rates below that of R = 1, within `reach` of the theory's.

    There are none before R = 1 is done, and not all of them if strides are above 1: see `needed`.
    """
    found = find(single)
    if found is None:
        return []
    rates = [found["acceptance"] - step * k for k in range(1, int(1 / step))]
    best = BEST_RATE[single.sampler]
    stated = (single.warmup, single.draws)
    warmup, draws = GRID_LENGTHS.get((single.model, single.size, single.sampler), stated)
    at_rate = single.but(warmup=warmup, draws=draws)
    row = [
        at_rate.but(rate=round(rate, 4), role=GRID)
        for rate in rates
        if rate >= LOWEST_RATE and abs(rate - best) <= reach
    ]
    return needed(row, strides, find)


def needed(row: Sequence[Cell], strides: Sequence[int], find: Find) -> list[Cell]:
    """The cells that decide the best of a row of rates, by jump distance and by ESS.

    These are one rate in n, where n is the first of the strides; around the best of those done, one
    rate in n for each smaller stride in turn; in the end its neighbours; and every cell that is
    done.
    """
    if strides[0] == 1:
        return list(row)
    results = {place: found for place, cell in enumerate(row) if (found := find(cell)) is not None}
    asked = set(results) | set(range(0, len(row), strides[0]))
    for name in ("ejd", "ess") if results else ():
        efficiency = {k: metric(row[k], found, name)[0] for k, found in results.items()}
        top = max(efficiency, key=efficiency.__getitem__)
        for stride, finer in itertools.pairwise((*strides, 1)):
            below = top - top % stride
            if not all(k in results for k in (below, below + stride) if k < len(row)):
                break  # another one may turn out to be the best
            reach = NEIGHBOURS if finer == 1 else stride - 1
            asked |= {k for k in range(top - reach, top + reach + 1) if k % finer == 0}
    return [cell for place, cell in enumerate(row) if place in asked]
