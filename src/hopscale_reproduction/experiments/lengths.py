"""The number of draws behind the effective sample sizes of the tables.

A printed size divided by our size per draw gives the number of draws behind it. For the Ising model
it is the stated one. For Bernoulli it is 2,000, 5,000 and 20,000 instead of 5,000, 20,000 and
50,000. For the FHMM of lengths 1,000 and 4,000 it is 10,000 and 20,000 instead of 20,000 and
50,000. So these chains were shorter than stated.

This matters beyond a factor, because the estimate of a slow chain does not fall with its length.
Here those columns are run again, with the lengths that the printed numbers imply.
"""

from collections.abc import Iterator

from hopscale_reproduction.cells import Cell, table_cell
from hopscale_reproduction.criteria import ESS_TOLERANCE, WITHIN
from hopscale_reproduction.design import (
    CHAINS,
    CONFIGS,
    MAIN,
    METHODS,
    single_and_tuned,
    stated_draws,
)
from hopscale_reproduction.experiment import Experiment, Find, Part
from hopscale_reproduction.experiments.sampling import plan
from hopscale_reproduction.experiments.sampling.comparison import Entry, Table, tables
from hopscale_reproduction.formatting import column_label, plus_minus, printed, significant
from hopscale_reproduction.places import ALBP
from hopscale_reproduction.report.blocks import Block, Fold, Grid, Head, Text
from hopscale_reproduction.snapshot import Snapshot

NAME = "lengths"
IMPLIED = {
    "bernoulli": {100: 2_000, 800: 5_000, 6400: 20_000},
    "fhmm": {1000: 10_000, 4000: 20_000},
}
INSTANCES = {("fhmm", 1000): 2}  # random targets; one by default


def cells(profile: str, find: Find) -> Iterator[Cell]:
    """R = 1 and the tuned scale, with the number of draws that the printed sizes imply.

    For the random walk, whose chains are the slowest, the grid of rates is run too.
    """
    for model, sizes in IMPLIED.items():
        for size, draws in sizes.items():
            if profile == "quick" and size != 100:
                continue
            for sampler, balance in MAIN if profile == "quick" else METHODS:
                for config in ("C2",) if profile == "quick" else CONFIGS:
                    for instance in range(INSTANCES.get((model, size), 1)):
                        cell = table_cell(
                            model, size, config, sampler, balance, instance=instance,
                            warmup=draws, draws=draws, chains=CHAINS[profile],
                        )  # fmt: skip
                        single, tuned = single_and_tuned(cell)
                        yield from (single, tuned)
                        if instance == 0 and _has_own_grid(single, profile):
                            design = plan.PLANS[profile]
                            step = design.step[sampler]
                            yield from plan.grid(single, step, find, strides=design.strides)


def _has_own_grid(cell: Cell, profile: str) -> bool:
    """Whether the grid of the tables has another length than the printed sizes imply."""
    own = (cell.model, cell.size, cell.sampler) not in plan.GRID_LENGTHS
    return own and cell.sampler == "rwm" and profile == "paper"


def blocks(snapshot: Snapshot) -> list[Block]:
    """The chain lengths that the printed effective sample sizes imply, and what they change."""
    found = snapshot.once(tables)
    rows, fits = [], []
    for table in found.values():
        for column in table.columns:
            entry = table.entries.get((column, ALBP, "ess"))
            if entry is None or entry.measured is None or entry.printed is None:
                continue
            stated = stated_draws(column.model, column.size)
            fits.append(abs(entry.implied / stated - 1.0) <= ESS_TOLERANCE)
            size = f"{significant(entry.measured.mean)} ± {significant(entry.measured.error, 1)}"
            numbers = [f"{entry.implied:,.0f}", f"{stated:,}"]
            rows.append([column_label(column), printed(entry.printed), size, *numbers])
    heads = ["target", "paper's ESS", "ours, per draw", "draws implied", "draws stated"]
    caption = "ALBP's effective sample size, and the number of kept draws that it implies."
    grid = Grid(caption, heads, rows)
    return [
        Head("ess", "Absolute effective sample sizes"),
        Text(
            "The effective sample size (ESS) is that of the Hamming distance to a fixed random "
            "state or, for the RBM, of the number of ones. Autocorrelations are summed up to the "
            "first negative one, for each chain separately. The printed sizes, divided by ours per "
            f"draw, give the numbers of kept draws below{_fitting(fits)}. The comparison is "
            "therefore by ESS relative to ALBP. For slow samplers this ratio depends on the length "
            "too: in a chain with few effective draws the sum ends early, which overestimates the "
            "ESS. So the shorter the chains, the better RWM-1 and LBP-1 look beside ALBP."
        ),
        Fold("Every column", [grid]) if len(rows) > 12 else grid,
        *_both_lengths(found),
    ]


def _fitting(fits: list[bool]) -> str:
    """How many of the printed sizes agree with the stated lengths."""
    if not fits:
        return ""
    return f", which agree with the stated ones within 15% in {sum(fits)} of {len(fits)} columns"


def _both_lengths(found: dict[str, Table]) -> list[Block]:
    """The columns that were run with the number of draws that the printed sizes imply."""
    entries = [
        entry
        for table in found.values()
        for entry in table.all(["ess"])
        if entry.source == NAME and entry.method != ALBP
    ]
    both = [entry for entry in entries if entry.stated is not None and entry.paper and entry.ours]
    if not both:
        return []
    rows = [
        [
            column_label(entry.column),
            entry.method.name,
            f"{entry.paper:.4f}",
            plus_minus(entry.stated),
            plus_minus(entry.ours),
            f"{entry.draws:,}",
        ]
        for entry in both
    ]
    heads = ["target", "sampler", "paper", "stated length", "implied length", "draws kept"]
    grid = Grid("ESS relative to ALBP, with both lengths.", heads, rows)
    text = (
        "Columns whose printed sizes imply other lengths than the stated ones were run again with "
        "the implied lengths, and the tables compare with these runs. Of "
        f"{len(both)} printed ratios, {sum(map(_agrees_as_stated, both))} are within 15% of ours "
        f"with the stated lengths, and {sum(entry.verdict == WITHIN for entry in both)} with the "
        "implied ones."
    )
    return [Text(text), Fold("With both lengths", [grid])]


def _agrees_as_stated(entry: Entry) -> bool:
    assert entry.stated is not None
    assert entry.paper is not None
    return abs(entry.stated.mean / entry.paper - 1.0) <= ESS_TOLERANCE


EXPERIMENT = Experiment(
    name=NAME, title="Chain lengths", cells=cells, parts=(Part("differences", "ess", blocks),)
)
