"""Log-likelihoods of trained models against the number of steps."""

from hopscale_reproduction.charts.chart import Chart, Mark, Panel, Point, Series
from hopscale_reproduction.least import COLUMNS
from hopscale_reproduction.views import training
from hopscale_reproduction.views.book import Book

LOOKS = {
    "LBP_b-1": ("LBP-1, barker", "sky", "s"),
    "ALBP_b": ("ALBP, barker", "blue", "o"),
    "LBP_s-1": ("LBP-1, √t", "orange", "^"),
    "ALBP_s": ("ALBP, √t", "red", "D"),
}
LANE = 0.09  # of the span of likelihoods, between the lines of models that diverged


def learning(book: Book) -> Chart:
    """A panel for each data set: what each number of steps leads to."""
    models = training.trained(book)
    names = dict.fromkeys(one.model.data for one in models if one.value is not None)
    panels = [
        _panel(book, data, [one for one in models if one.model.data == data]) for data in names
    ]
    title = "Validation log-likelihood against steps an iteration"
    return Chart("learning", title, panels, min(3, max(1, len(panels))), height=2.6)


def _panel(book: Book, data: str, models: list[training.Trained]) -> Panel:
    seen = [(one.value, one.error) for one in models if one.value is not None]
    values = [value + side * error for value, error in seen for side in (-1, 1)]
    level = training.level(book, data)
    marks = () if level is None else (Mark("y", level),)
    low = min([*values, *(mark.at for mark in marks)])
    span = max(max(values) - low, 1.0)
    series = []
    for lane, column in enumerate(COLUMNS, start=1):
        name, color, marker = LOOKS[column]
        own = [one for one in models if one.model.column == column]
        points = [
            Point(one.model.steps, one.value, one.error, note=_note(one))
            for one in own
            if one.value is not None
        ]
        bottom = low - (lane + 1) * LANE * span
        lost = [Point(one.model.steps, bottom, note=_note(one)) for one in own if one.value is None]
        series.append(Series(name, points, color, marker))
        series.append(Series("" if points else name, lost, color, marker, hollow=True))
    return Panel(
        data,
        "steps an iteration",
        "log-likelihood, nats",
        series,
        marks,
        log="x",
        zero=False,
        note="open: diverged",
    )


def _note(one: training.Trained) -> str:
    model = one.model
    if one.value is None:
        what = "diverged"
    else:
        what = f"{one.value:.2f} ± {one.error:.2f} nats, {one.effective:.0f} effective chains"
    return f"{LOOKS[model.column][0]}, {model.steps} steps, seed {model.seed}: {what}"
