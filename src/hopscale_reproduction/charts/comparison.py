"""Ours over the paper's: every cell, every draw of p, every |W|^2."""

from hopscale_reproduction.charts.chart import Chart, Mark, Panel, Point, Series, line
from hopscale_reproduction.charts.performance import CONFIG_LOOKS
from hopscale_reproduction.views import chance, readings
from hopscale_reproduction.views.book import Book
from hopscale_reproduction.views.comparison import EJD_TOLERANCE, SMALL_TOLERANCE, Table
from hopscale_reproduction.words import CONFIG_WORDS, TITLES, entry_words, size_words

RANKS = (("small", "sky", "o"), ("medium", "blue", "s"), ("large", "red", "^"))


def agreement(tables: dict[str, Table]) -> Chart:
    """Every jump distance over the printed one, a panel a model that was run."""
    panels = []
    for model, table in tables.items():
        if all(entry.ours is None for entry in table.all(["ejd"])):
            continue
        sizes = list(dict.fromkeys(column.size for column in table.columns))
        series = []
        for rank, size in enumerate(sizes):
            name, color, marker = RANKS[rank % 3]
            points = [
                Point(_place(table, e), e.ratio, e.ours.error / e.paper, note=entry_words(e))
                for e in table.all(["ejd"])
                if e.column.size == size and e.ratio is not None and e.ours and e.paper
            ]
            series.append(Series(name, points, color, marker))
        ticks = tuple((i, method.name) for i, method in enumerate(table.methods))
        title = f"{TITLES[model]}: {', '.join(size_words(model, size) for size in sizes)}"
        panels.append(Panel(title, "", "ours / paper's EJD", series, _band(model), ticks=ticks))
    return Chart("agreement", "Jump distances over the printed ones", panels, 1, height=1.9)


def _place(table: Table, entry) -> float:
    """Along x: the row, and inside it the column."""
    column = table.columns.index(entry.column)
    return table.methods.index(entry.method) + 0.7 * ((column + 0.5) / len(table.columns) - 0.5)


def _band(model: str) -> tuple[Mark, ...]:
    limits = EJD_TOLERANCE.get(model)
    if limits is None:
        return (Mark("y", 1.0),)
    return tuple(Mark("y", at) for at in (1.0 - limits, 1.0, 1.0 + limits))


def luck(book: Book) -> Chart:
    """Each draw of p, over the printed number."""
    found = chance.table(book)
    panels = []
    for model, size in dict.fromkeys(item.column[:2] for item in found):
        here = [item for item in found if item.column[:2] == (model, size)]
        methods = list(dict.fromkeys(item.method for item in here))
        series = [
            Series(CONFIG_WORDS[config], _draws(here, methods, config), *CONFIG_LOOKS[config])
            for config in dict.fromkeys(item.column.config for item in here)
        ]
        marks = [Mark("y", 1.0)]
        limit = SMALL_TOLERANCE if (model, size) == ("bernoulli", 100) else EJD_TOLERANCE[model]
        marks += [Mark("y", 1 - limit), Mark("y", 1 + limit)]
        ticks = tuple((i, method.name) for i, method in enumerate(methods))
        title = f"{TITLES[model]}, {size_words(model, size)}: every draw"
        panels.append(Panel(title, "", "ours / paper's EJD", series, tuple(marks), ticks=ticks))
    return Chart("luck", "The luck of the draw", panels, 1, height=2.0)


def _draws(found: list[chance.Luck], methods, config: str) -> list[Point]:
    shift = {"C1": -0.22, "C2": 0.0, "C3": 0.22}[config]
    return [
        Point(
            methods.index(item.method) + shift,
            results["ejd"] / item.printed,
            results["ejd_error"] / item.printed,
            cell,
        )
        for item in found
        if item.column.config == config
        for cell, results in item.runs
    ]


def misfit(book: Book) -> Chart:
    """How far ours is from the printed FHMM numbers, over |W|^2."""
    found = readings.misfit(book)
    points = [
        Point(squared, value, note=f"|W|² = {squared:g}: {value:.1%}")
        for squared, value in found.items()
    ]
    series = [
        line("", list(found), list(found.values()), "blue"),
        Series("root mean square of log(ours / paper's)", points, "blue", "o"),
    ]
    panel = Panel("FHMM, tuned RWM and LBP", "|W|²", "misfit of EJD", series)
    return Chart("misfit", "The weights of the FHMM", [panel], 1, height=2.6)
