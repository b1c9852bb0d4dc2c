"""The account of differences, continued: effective sample sizes and seconds."""

import statistics

from hopscale_reproduction.experiments.plan import LENGTHS, RBM_LENGTH, SIZES
from hopscale_reproduction.report.blocks import Block, Fold, Grid, Head, Text
from hopscale_reproduction.views.comparison import ESS_TOLERANCE, Entry, Table
from hopscale_reproduction.views.names import ALBP, Column, Method
from hopscale_reproduction.views.sources import KEPT
from hopscale_reproduction.words import TITLES, plus_minus, printed, significant, size_words


def effective_sizes(tables: dict[str, Table]) -> list[Block]:
    """What chain length the printed effective sample sizes imply, and what it changes."""
    rows, fits = [], []
    for table in tables.values():
        for column in table.columns:
            entry = table.entries.get((column, ALBP, "ess"))
            if entry is None or entry.measured is None or entry.printed is None:
                continue
            fits.append(abs(entry.implied / _stated(column) - 1.0) <= ESS_TOLERANCE)
            size = f"{significant(entry.measured.mean)} ± {significant(entry.measured.error, 1)}"
            numbers = [f"{entry.implied:,.0f}", f"{_stated(column):,}"]
            rows.append([_target(column), printed(entry.printed), size, *numbers])
    heads = ["target", "paper's ESS", "ours, a draw", "draws implied", "draws stated"]
    caption = "ALBP's effective sample size, and the number of kept draws it would take."
    grid = Grid(caption, heads, rows)
    return [
        Head("ess", "The size of ESS"),
        Text(
            "Effective sample sizes are those of the Hamming distance to a fixed random state (for "
            "the RBM, of the number of ones), with autocorrelations summed up to the first "
            "negative one, a chain at a time. Divided by ours a draw, the printed ones give the "
            f"kept draws below{_fitting(fits)}. The comparison is therefore by ESS relative to "
            "ALBP. For slow samplers that too depends on the length: a chain with few effective "
            "draws is cut early and counts for more than it is, so that beside ALBP, RWM-1 and "
            "LBP-1 look the better the shorter the chains."
        ),
        Fold("Every column", [grid]) if len(rows) > 12 else grid,
        *_kept(tables),
    ]


def _fitting(fits: list[bool]) -> str:
    """How many of the printed sizes fit the stated lengths."""
    if not fits:
        return ""
    return f", which fit the stated chain lengths within 15% in {sum(fits)} of {len(fits)} columns"


def _stated(column: Column) -> int:
    """Draws that the paper says it kept."""
    if column.model == "rbm":
        return RBM_LENGTH // 2
    return LENGTHS[SIZES[column.model].index(column.size)] // 2


def _target(column: Column) -> str:
    return f"{TITLES[column.model]}, {size_words(*column[:2])}, {column.config}"


def _kept(tables: dict[str, Table]) -> list[Block]:
    """The columns that were run over as many draws as the printed sizes imply."""
    found = [
        entry
        for table in tables.values()
        for entry in table.all(["ess"])
        if entry.source == KEPT and entry.method != ALBP
    ]
    both = [entry for entry in found if entry.stated is not None and entry.paper and entry.ours]
    if not both:
        return []
    rows = [
        [
            _target(entry.column),
            entry.method.name,
            f"{entry.paper:.4f}",
            plus_minus(entry.stated),
            plus_minus(entry.ours),
            f"{entry.draws:,}",
        ]
        for entry in both
    ]
    heads = ["target", "sampler", "paper", "stated length", "implied length", "draws kept"]
    grid = Grid("ESS relative to ALBP with both lengths.", heads, rows)
    text = (
        "Columns whose printed sizes imply other lengths than the stated ones were run again with "
        f"the implied ones, and these are what the tables compare. Of {len(both)} printed ratios, "
        f"{sum(map(_agrees_as_stated, both))} are within 15% of ours with the stated lengths, "
        f"{sum(entry.verdict == 'within' for entry in both)} with the implied ones."
    )
    return [Text(text), Fold("With both lengths", [grid])]


def _agrees_as_stated(entry: Entry) -> bool:
    assert entry.stated is not None
    assert entry.paper is not None
    return abs(entry.stated.mean / entry.paper - 1.0) <= ESS_TOLERANCE


def seconds(tables: dict[str, Table]) -> list[Block]:
    ratios, theirs = [], []
    for table in tables.values():
        for column in table.columns:
            pair = [
                table.entries.get((column, Method(*m, "fixed-1"), "seconds"))
                for m in (("lbp", "barker"), ("rwm", ""))
            ]
            values = [e.ours.mean for e in pair if e is not None and e.ours is not None]
            if len(values) == 2:
                ratios.append(values[0] / values[1])
            paper = [e.paper for e in pair if e is not None and e.paper]
            if len(paper) == 2:
                theirs.append(paper[0] / paper[1])
    text = (
        "Cells of one shape run side by side, as one program over all their chains. The seconds of "
        "a cell are its share of the batch: what it costs in such company, not alone. They compare "
        "samplers with one another, not machines."
    )
    if ratios and theirs:
        text += (
            f" A step of LBP-1 takes {min(ratios):.1f} to {max(ratios):.1f} times as long as one "
            f"of RWM-1 (median {statistics.median(ratios):.1f}); in these columns the paper has "
            f"{min(theirs):.1f} to {max(theirs):.1f} (median {statistics.median(theirs):.1f})."
        )
    return [Head("seconds", "Seconds"), Text(text)]
