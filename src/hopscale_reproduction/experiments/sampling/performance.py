"""The section on performance curves, Figures 1 to 4, and the idea in a picture."""

from hopscale_reproduction.design import BEST_RATE
from hopscale_reproduction.experiments.sampling.comparison import middle, tables
from hopscale_reproduction.experiments.sampling.curves import (
    Measured,
    curves,
    peak,
    share_of_best,
)
from hopscale_reproduction.experiments.sampling.figures import efficiency, trade_off
from hopscale_reproduction.formatting import (
    TITLES,
    column_label,
    percent,
    plus_minus,
    size_label,
    span,
)
from hopscale_reproduction.places import sampler_name
from hopscale_reproduction.report.blocks import Block, Fold, Grid, Picture, Text
from hopscale_reproduction.snapshot import Snapshot


def idea(snapshot: Snapshot) -> list[Block]:
    """The idea, for readers who have not read the paper."""
    drawn = trade_off(snapshot)
    text = (
        "A sampler that changes one variable at a time moves slowly. If it changes too many, "
        "nearly every proposal is rejected. In between it moves furthest, and the paper says where."
    )
    caption = (
        "Distance moved per step, relative to the best, against the share of proposals that are "
        "accepted. The dashed lines are the best acceptance rates according to the theory."
    )
    return [Text(text)] if drawn.empty else [Text(text), Picture(drawn, caption)]


def blocks(snapshot: Snapshot) -> list[Block]:
    found = snapshot.once(tables)
    sizes = {model: column.size for model, column in middle(found).items()}
    named = ", ".join(f"{TITLES[m]} {size_label(m, s)}" for m, s in sizes.items())
    return [
        Text(
            "Each point is a cell, that is, one run: the scale is tuned for one acceptance rate, "
            "then frozen. The solid line is the theory if the way back (the reverse proposal) is "
            "scored in the order of the tables. The dotted line is Eq. (7) as printed, for the "
            "reversed order."
        ),
        Picture(
            efficiency(snapshot, sizes),
            f"Figures 1 to 4. Jump distance against acceptance: {named}.",
        ),
        _peaks(snapshot, list(found)),
        Fold("Every curve", [_every_peak(snapshot, list(found))]),
    ]


def _peaks(snapshot: Snapshot, models: list[str]) -> Grid:
    """A summary of where the curves peak."""
    tops: dict[tuple[str, str], dict[str, list[float]]] = {}
    for model in models:
        for (_, sampler, balance), points in snapshot.once(curves, model).items():
            top = peak(points)
            if top is not None:
                tops.setdefault((sampler, balance), {}).setdefault(model, []).append(top.mean)
    rows = [
        [
            sampler_name(*method),
            str(BEST_RATE[method[0]]),
            *(span(found[model], 2) if model in found else "–" for model in models),
        ]
        for method, found in tops.items()
    ]
    heads = ["sampler", "paper's rate", *(TITLES[model] for model in models)]
    caption = "Acceptance rates at which the jump distance peaks, over all targets."
    return Grid(caption, heads, rows)


def _every_peak(snapshot: Snapshot, models: list[str]) -> Grid:
    rows = []
    for model in models:
        for (column, sampler, balance), points in snapshot.once(curves, model).items():
            share = share_of_best(points)
            if share is None:
                continue  # no grid of rates was run
            rows.append([
                column_label(column),
                sampler_name(sampler, balance),
                str(BEST_RATE[sampler]),
                *(_top(points, metric) for metric in ("ejd", "ess")),
                percent(share),
            ])  # fmt: skip
    heads = [
        "target",
        "sampler",
        "paper's rate",
        "EJD peaks at",
        "ESS peaks at",
        "EJD at that rate",
    ]
    caption = (
        "Where a grid of rates was run: the acceptance rates at which the curves peak (by a cubic "
        "near the top, ± the error of the fit), and the jump distance at the paper's rate as a "
        "share of the best."
    )
    return Grid(caption, heads, rows)


def _top(points: list[Measured], metric: str) -> str:
    top = peak(points, metric)
    return "–" if top is None else plus_minus(top, 3)
