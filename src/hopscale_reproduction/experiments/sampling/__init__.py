"""Sampling from Bernoulli, Ising, FHMM and RBM targets (Section 5.1, Appendix C).

Four experiments with the same design, one per model. `plan.py` lists what to run, `comparison.py`
compares it with the printed numbers, and `curves.py` has efficiency against acceptance.
`performance.py`, `tables.py` and `agreement.py` are sections of the report; `claims.py` judges the
paper's claims.
"""

import functools

from hopscale.paper import instances
from hopscale_reproduction.experiment import Experiment, Part
from hopscale_reproduction.experiments.sampling import agreement, performance, plan, tables
from hopscale_reproduction.experiments.sampling.claims import CLAIMS
from hopscale_reproduction.formatting import TITLES
from hopscale_reproduction.report.blocks import Block, Image, Text
from hopscale_reproduction.snapshot import Snapshot

HIDDEN = 400  # of the RBM whose filters are shown


def filters(snapshot: Snapshot) -> list[Block]:
    """Filters of a shipped RBM."""
    if snapshot.pictures is None:
        return []
    caption = (
        f"Filters of the RBM with {HIDDEN} hidden units; those with the largest weights are shown. "
        "Red switches a unit on, blue off."
    )
    return [
        Text("The RBMs are part of the package; deep EBMs are trained for Table 2."),
        Image(snapshot.pictures / "rbm-filters.png", caption, draw=_draw_filters),
    ]


def _draw_filters() -> bytes:
    from hopscale.learn import pictures
    from hopscale_reproduction import drawing

    drawn = pictures.filters(instances.rbm(HIDDEN), number=50, columns=10)
    return drawing.encode(drawn, "png")


SHARED = (
    Part("short", "idea", performance.idea),
    Part("table-1", "table-1", tables.table_1),
    Part("curves", "curves", performance.blocks),
    Part("differences", "agreement", agreement.blocks),
    Part("differences", "seconds", agreement.seconds),
    Part("differences", "slips", agreement.slips),
    Part("pictures", "filters", filters),
    Part("tables", "criterion", tables.criterion),
)

EXPERIMENTS = tuple(
    Experiment(
        name=model,
        title=f"Sampling: {title}",
        cells=functools.partial(plan.cells, model),
        parts=(*SHARED, Part("tables", model, functools.partial(tables.model_tables, model))),
        claims=CLAIMS,
    )
    for model, title in TITLES.items()
)
