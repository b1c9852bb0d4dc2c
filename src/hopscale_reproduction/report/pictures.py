"""The section of pictures: what trained models have learnt."""

from pathlib import Path

from hopscale import whole
from hopscale.paper import instances
from hopscale_reproduction import figures
from hopscale_reproduction.ebm import PICTURES
from hopscale_reproduction.report.blocks import Block, Image, Section, Text

HIDDEN = 400
KINDS = {
    "samples": "from the replay buffer",
    "long-run": "long-run chains of adaptive LBP from the base distribution",
    "curves": "training curves",
}


def section(out: Path) -> Section:
    """Filters of the shipped RBM, and all that training left in `out`."""
    caption = (
        f"Filters of the RBM with {HIDDEN} hidden units, those with the largest weights: red "
        "switches a unit on, blue off."
    )
    blocks: list[Block] = [
        Text("The RBMs come with the package; deep EBMs are trained by Table 2."),
        Image(_filters(out / PICTURES / "rbm-filters.png"), caption),
    ]
    for path in sorted((out / PICTURES).glob("ebm-*.png")):
        data, _, kind = path.stem.removeprefix("ebm-").rpartition("_")
        blocks.append(Image(path, f"Deep EBM on {data}: {KINDS.get(kind, kind)}."))
    if len(blocks) == 2:
        blocks.append(Text("Deep EBMs: not trained yet; `hopscale reproduce ebm` trains them."))
    return Section("pictures", "Pictures", blocks)


def _filters(path: Path) -> Path:
    """Draw the filters, once."""
    from hopscale.learn import pictures

    if not path.exists():
        drawn = pictures.filters(instances.rbm(HIDDEN), number=50, columns=10)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole.write(path, figures.encode(drawn, "png"))
    return path
