"""The report's section on Table 2: the claim, the table, every model, pictures."""

import itertools
from collections.abc import Sequence

from hopscale.learn.health import COLLAPSED
from hopscale_reproduction.experiments.table2.cells import COLUMNS
from hopscale_reproduction.experiments.table2.results import (
    LOOKS,
    Steps,
    Trained,
    chart,
    problems,
    search_in,
    steps,
    trained,
)
from hopscale_reproduction.experiments.table2.search import FewestSteps
from hopscale_reproduction.report.blocks import (
    Block,
    Claim,
    Content,
    Fold,
    Grid,
    Image,
    Picture,
    Stack,
    Text,
)
from hopscale_reproduction.snapshot import Snapshot

PAIRS = (("barker", "ALBP_b", "LBP_b-1"), ("√t", "ALBP_s", "LBP_s-1"))
PICTURES = {
    "samples": "samples from the replay buffer",
    "long-run": "long-run chains of adaptive LBP from the base distribution",
    "curves": "training curves",
}


def claim(snapshot: Snapshot) -> Claim:
    text = "ALBP trains deep EBMs with at most half the steps of LBP-1"
    search = search_in(snapshot)
    found = {(item.data, item.column): item.ours for item in steps(search)}
    parts, halves, open_ones = [], [], []
    for data, (name, adaptive, single) in itertools.product(search.profile.data, PAIRS):
        few, many = found[data, adaptive], found[data, single]
        half = _half(few, many, search.profile.counts[-1])
        if half is None or few is None or many is None:
            open_ones.append(f"{data}, {name}")
            continue
        parts.append(f"{data}, {name}: {few} against {many}")
        halves.append((half, few.sure and many.sure))
    if not parts:
        why = "Too few models were trained to tell."
        return Claim.unanswered("training", text, bool(trained(search)), why)
    told = f"{'; '.join(parts)}; {_number_of_seeds(search.profile.seeds)}."
    if not all(sure for _, sure in halves):
        told += " ~: open, within the error."
    if open_ones:
        told += f" Not judged: {'; '.join(open_ones)}."
    return Claim("training", text, told, _status(halves, complete=not open_ones))


def _status(halves: list[tuple[bool, bool]], complete: bool) -> str:
    """The verdict on pairs of (is it half, is that sure): what is open is no evidence."""
    sure = [half for half, known in halves if known]
    if len(sure) == len(halves) and all(sure):
        return "yes" if complete else "partly"
    if any(sure):
        return "partly"
    return "no" if len(sure) == len(halves) else "too short"


def _half(few: FewestSteps | None, many: FewestSteps | None, most: int) -> bool | None:
    """Whether one number is at most half of the other; None if that is not known yet."""
    if few is None or many is None or (few.steps is None and few.above < most):
        return None
    bound = many.above if many.steps is None else many.steps
    half = few.steps is not None and 2 * few.steps <= bound
    if not half and many.steps is None and many.above < most:
        return None  # numbers that are yet to be tried decide
    return half


def _number_of_seeds(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return "one seed"
    return f"{len(seeds)} seeds unless stated, all of which must train"


def blocks(snapshot: Snapshot) -> list[Block]:
    text = (
        "Table 2 says how few sampler steps between two updates suffice to train a deep "
        "energy-based model by persistent contrastive divergence. The paper trains until models "
        "are in the same good quality and does not say how that was judged. Here a number of steps "
        "suffices if training neither diverges nor collapses and the validation log-likelihood, by "
        "annealed importance sampling from two sides, is within a margin of that of ALBP with √t "
        "and many steps. A ~ marks a verdict or a likelihood that the error of the normalizing "
        "constant leaves open, because it is large or because the two sides do not agree."
    )
    search = search_in(snapshot)
    found = steps(search)
    rows: list[list[Content]] = [
        [data, *(_cell(item) for item in found if item.data == data)]
        for data in dict.fromkeys(item.data for item in found)
    ]
    caption = "Table 2. Fewest steps per iteration that suffice; below, the paper's."
    content: list[Block] = [Text(text), Grid(caption, ["data", *COLUMNS], rows)]
    content += [Text(f"{problem[:1].upper()}{problem[1:]}") for problem in problems(search)]
    drawn = chart(snapshot)
    if drawn.panels:
        content.append(
            Picture(
                drawn,
                "Validation log-likelihood of each model against the number of steps, with the "
                "error of its normalizing constant. The dashed line is the lowest value that "
                "suffices. Open symbols at the bottom: training diverged.",
            )
        )
    models = trained(search)
    if models:
        content.append(Fold(f"Every model ({len(models)})", [_every_model(models)]))
    return content


def _every_model(models: list[Trained]) -> Grid:
    """A row for each model, with its outcome."""
    heads = ["data", "sampler", "steps", "seed", "training", "R", "acceptance", "log-likelihood"]
    rows: list[list[Content]] = []
    for one in models:
        cell, results = one.cell, one.results
        value = "" if one.value is None else f"{one.value:.2f} ± {one.error:.2f}"
        if one.value is not None and not results.get("measured", True):
            value = f"~{value}"
        name = LOOKS[cell.column][0]
        row = [cell.data, name, str(cell.steps), str(cell.seed), _course(results)]
        numbers = (("scale", ".1f"), ("acceptance", ".3f"))
        rows.append([*row, *(_number(results.get(key), how) for key, how in numbers), value])
    return Grid("Every model: the outcome of its training, and its log-likelihood.", heads, rows)


def _number(value, how: str) -> str:
    return "" if value is None else format(value, how)


def _course(results) -> str:
    """The outcome of training, in words."""
    over = sum(end is not None for _, end, _ in results.get("crises", ()))
    between = f" after {over} crises" if over > 1 else " after a crisis" if over else ""
    if not results["diverged"]:
        return f"{results.get('reason', 'trained')}{between}"
    reason, at = results.get("reason", ""), results.get("iteration")
    end = "collapsed" if reason in COLLAPSED else "diverged"
    return f"{end}{f' at {at:,}' if at else ''}{between}{f' ({reason})' if reason else ''}"


def _cell(item: Steps) -> Stack:
    theirs = "–" if item.paper is None else str(item.paper)
    if item.ours is None:
        return Stack("not run", theirs, "not run")
    return Stack(str(item.ours), theirs, "unjudged")


def pictures(snapshot: Snapshot) -> list[Block]:
    """The pictures that training left: samples and curves of the references."""
    if snapshot.pictures is None:
        return []
    found: list[Block] = []
    for path in sorted(snapshot.pictures.glob("ebm-*.png")):
        data, _, shown = path.stem.removeprefix("ebm-").rpartition("_")
        found.append(Image(path, f"Deep EBM on {data}: {PICTURES.get(shown, shown)}."))
    if found:
        return found
    if trained(search_in(snapshot)):
        return [Text("The deep EBMs were trained elsewhere; their pictures are not available.")]
    return [Text("No deep EBMs are trained yet; `hopscale reproduce table2` trains them.")]
