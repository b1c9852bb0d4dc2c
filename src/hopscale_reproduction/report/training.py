"""The section on Table 2: training deep EBMs."""

from hopscale_reproduction import charts
from hopscale_reproduction.least import COLUMNS
from hopscale_reproduction.report.blocks import Block, Content, Grid, Picture, Section, Stack, Text
from hopscale_reproduction.views import training
from hopscale_reproduction.views.book import Book


def section(book: Book) -> Section:
    text = (
        "How few steps of a sampler between two updates suffice to train a deep energy-based model "
        "by persistent contrastive divergence. The paper trains until models are in the same good "
        "quality and does not say how that was judged. Here a number of steps suffices if training "
        "does not diverge and the validation log-likelihood, by annealed importance sampling, is "
        "within a margin of that of ALBP with √t and many steps; ~ marks a verdict that the error "
        "of the normalizing constant leaves open."
    )
    found = training.steps(book)
    rows: list[list[Content]] = [
        [data, *(_cell(item) for item in found if item.data == data)]
        for data in dict.fromkeys(item.data for item in found)
    ]
    caption = "Table 2. Least number of steps an iteration; below, the paper's."
    blocks: list[Block] = [Text(text), Grid(caption, ["data", *COLUMNS], rows)]
    blocks += [Text(f"{problem[:1].upper()}{problem[1:]}") for problem in training.problems(book)]
    chart = charts.learning(book)
    if chart.panels:
        blocks.append(
            Picture(
                chart,
                "Validation log-likelihood of each model against the number of steps, with the "
                "error of its normalizing constant; the line is the least that suffices. Open "
                "symbols at the bottom: training diverged.",
            )
        )
    return Section("training", "Table 2: training deep EBMs", blocks)


def _cell(item: training.Steps) -> Stack:
    paper = "–" if item.paper is None else str(item.paper)
    if item.ours is None:
        return Stack("not run", paper, "not run")
    return Stack(str(item.ours), paper, "unjudged")
