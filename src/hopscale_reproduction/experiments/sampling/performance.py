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
    """For those who have not read the paper."""
    drawn = trade_off(snapshot)
    text = (
        "A sampler that changes one variable at a time moves slowly; one that changes too many has "
        "nearly every proposal rejected. In between it moves furthest, and the paper says where."
    )
    caption = (
        "How far a chain moves in a step, over the best it can do, against the share of proposals "
        "that are accepted. The dashed lines are where the theory puts the best."
    )
    return [Text(text)] if drawn.empty else [Text(text), Picture(drawn, caption)]


def blocks(snapshot: Snapshot) -> list[Block]:
    found = snapshot.once(tables)
    sizes = {model: column.size for model, column in middle(found).items()}
    named = ", ".join(f"{TITLES[m]} {size_label(m, s)}" for m, s in sizes.items())
    return [
        Text(
            "Each point is a cell: a scale tuned for one acceptance rate, then frozen and run. The "
            "solid line is the theory with the way back scored in the order of the tables; the "
            "dotted one is Eq. (7) as printed, for the reversed order."
        ),
        Picture(
            efficiency(snapshot, sizes),
            f"Figures 1 to 4. Jump distance against acceptance: {named}.",
        ),
        _peaks(snapshot, list(found)),
        Fold("Every curve", [_every_peak(snapshot, list(found))]),
    ]


def _peaks(snapshot: Snapshot, models: list[str]) -> Grid:
    """Where the curves have their tops, in short."""
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
    heads = ["sampler", "theory", *(TITLES[model] for model in models)]
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
    heads = ["target", "sampler", "theory", "EJD peaks at", "ESS peaks at", "EJD at theory's rate"]
    caption = (
        "Acceptance rates at which the curves peak (a cubic near the top, ± the fit's error) where "
        "a grid of rates was run, and the share of the best jump distance had at the theory's rate."
    )
    return Grid(caption, heads, rows)


def _top(points: list[Measured], metric: str) -> str:
    top = peak(points, metric)
    return "–" if top is None else plus_minus(top, 3)
