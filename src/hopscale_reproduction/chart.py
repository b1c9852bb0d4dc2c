"""The content of a figure: panels of series, to be drawn by `drawing.py` and by the page."""

from typing import NamedTuple

from hopscale_reproduction.cells import Cell

# The palette of Okabe and Ito, which can be told apart with all kinds of colour vision.
COLORS = {
    "ink": "#2b2b2b",
    "grey": "#8c8c8c",
    "blue": "#0072b2",
    "sky": "#56b4e9",
    "green": "#009e73",
    "orange": "#e69f00",
    "red": "#d55e00",
    "pink": "#cc79a7",
}


RATE_LABEL = "acceptance rate"
CONFIG_LOOKS = {"C1": ("sky", "o"), "C2": ("blue", "s"), "C3": ("red", "^")}


class Point(NamedTuple):
    """A point with the cell that it shows, or with a note if it shows several."""

    x: float
    y: float
    error: float = 0.0
    cell: Cell | None = None
    note: str = ""


class Series(NamedTuple):
    """Points of one colour and marker ("o", "s", "^", "v", "D"), or a line ("-", "--", ":").

    Series with the same name share a legend entry; those without a name have none.
    """

    name: str
    points: list[Point]
    color: str
    style: str = "o"
    hollow: bool = False


class Mark(NamedTuple):
    """A thin line across a panel, at a value of x or y; dashed unless solid."""

    axis: str
    at: float
    label: str = ""
    solid: bool = False


class Panel(NamedTuple):
    title: str
    x: str
    y: str
    series: list[Series]
    marks: tuple[Mark, ...] = ()
    log: str = ""  # "x", "y" or "xy"
    ticks: tuple[tuple[float, str], ...] = ()  # names along x, instead of numbers
    zero: bool = True  # whether y begins at 0


class Chart(NamedTuple):
    """A figure: panels row by row."""

    name: str  # of its files
    title: str
    panels: list[Panel]
    columns: int
    height: float = 2.3  # of a panel, in inches

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(
            series.style in MARKERS and series.points
            for panel in self.panels
            for series in panel.series
        )


MARKERS = ("o", "s", "^", "v", "D")


def line(name: str, xs, ys, color: str, style: str = "-") -> Series:
    """A curve."""
    points = [Point(float(x), float(y)) for x, y in zip(xs, ys, strict=True)]
    return Series(name, points, color, style)
