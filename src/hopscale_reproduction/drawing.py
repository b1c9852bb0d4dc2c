"""Static figures for print, drawn from charts."""

import io
import math
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hopscale_reproduction import files
from hopscale_reproduction.chart import COLORS, MARKERS, RATE_LABEL, Chart, Panel, Series

WIDTH = 7.2  # inches: the width of a page's text
VISIBLE = 0.002  # a point hides an error bar whose relative size is smaller than this
STYLE: dict[Any, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.edgecolor": COLORS["ink"],
    "axes.labelcolor": COLORS["ink"],
    "text.color": COLORS["ink"],
    "xtick.color": COLORS["ink"],
    "ytick.color": COLORS["ink"],
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "svg.fonttype": "path",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(chart: Chart) -> dict[str, bytes]:
    """A chart as a file of each kind: "svg" and "png"."""
    rows = math.ceil(len(chart.panels) / chart.columns)
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": chart.name}):
        figure, axes = plt.subplots(
            rows,
            chart.columns,
            figsize=(width(chart), 0.45 + rows * chart.height),
            squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for i, (axis, panel) in enumerate(zip(axes.flat, chart.panels, strict=False)):
            _panel(axis, panel)
            _share_labels(axis, chart, i)
        for axis in list(axes.flat)[len(chart.panels) :]:
            axis.set_visible(False)
        _legend(figure, axes, most=5 if width(chart) == WIDTH else 2)
        figure.draw_without_rendering()  # computes the layout once, for both kinds of files
        figure.set_layout_engine(None)
        drawn = {kind: encode(figure, kind) for kind in ("svg", "png")}
        plt.close(figure)
    return drawn


def width(chart: Chart) -> float:
    """The width in inches: that of a page's text, or less for a single plain panel."""
    alone = len(chart.panels) == 1 and not chart.panels[0].ticks
    return 0.6 * WIDTH if alone else WIDTH


def encode(figure, kind: str) -> bytes:
    """A figure as the content of a file; the same figure gives the same bytes."""
    file = io.BytesIO()
    facts = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}[kind]
    figure.savefig(file, format=kind, dpi=200, metadata=facts)
    return file.getvalue()


def _panel(axis: Axes, panel: Panel) -> None:
    for series in panel.series:
        _series(axis, series)
    named = any(mark.label for mark in panel.marks)
    axis.set_title(panel.title, pad=11 if named else None)
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    for letter in panel.log:
        _logarithmic(axis, letter)
    if panel.ticks:
        _names(axis, panel)
    elif panel.zero and "y" not in panel.log:
        axis.set_ylim(bottom=0.0)
    if panel.x == RATE_LABEL:
        axis.set_xlim(0.0, min(1.03, axis.get_xlim()[1]))
    _marks(axis, panel)


def _share_labels(axis: Axes, chart: Chart, place: int) -> None:
    """Leave out labels that repeat those of the panel to the left or below."""
    panels, columns = chart.panels, chart.columns
    if place % columns and panels[place].y == panels[place - 1].y:
        axis.set_ylabel("")
    if place + columns < len(panels) and panels[place].x == panels[place + columns].x:
        axis.set_xlabel("")


def _logarithmic(axis: Axes, letter: str) -> None:
    """Label an axis at 1, 2, 5 or only at powers of ten, depending on its range."""
    axis.set(**{f"{letter}scale": "log"})
    low, high = axis.get_xlim() if letter == "x" else axis.get_ylim()
    line = axis.xaxis if letter == "x" else axis.yaxis
    steps = (1.0, 2.0, 5.0) if high / low < 200 else (1.0,)
    line.set_major_locator(LogLocator(subs=steps))
    line.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    line.set_minor_formatter(NullFormatter())


def _names(axis: Axes, panel: Panel) -> None:
    axis.set_xticks([at for at, _ in panel.ticks], [name for _, name in panel.ticks])
    if len(panel.ticks) > 6:
        axis.tick_params(axis="x", rotation=30)
        for label in axis.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axis.tick_params(axis="x", length=0)
    axis.set_xlim(-0.6, len(panel.ticks) - 0.4)


def _marks(axis: Axes, panel: Panel) -> None:
    for mark in panel.marks:
        line = axis.axvline if mark.axis == "x" else axis.axhline
        dash = "-" if mark.solid else (0, (4, 3))
        line(mark.at, color=COLORS["grey"], linewidth=0.6, linestyle=dash, zorder=0)
        if mark.label and mark.axis == "x":
            axis.annotate(
                mark.label,
                (mark.at, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 1),
                textcoords="offset points",
                fontsize=7,
                color=COLORS["grey"],
                ha="center",
            )


def _series(axis: Axes, series: Series) -> None:
    color = COLORS[series.color]
    x = [point.x for point in series.points]
    y = [point.y for point in series.points]
    if series.style not in MARKERS:
        axis.plot(x, y, series.style, color=color, label=series.name or None, zorder=1)
        return
    axis.plot(
        x,
        y,
        series.style,
        color=color,
        markersize=3.2,
        markeredgewidth=0.8,
        markerfacecolor="none" if series.hollow else color,
        label=series.name or None,
        zorder=2,
    )
    seen = [p for p in series.points if p.error > VISIBLE * abs(p.y)]
    low, high = [p.y - p.error for p in seen], [p.y + p.error for p in seen]
    axis.vlines([p.x for p in seen], low, high, color=color, linewidth=0.7, zorder=2)


def _legend(figure, axes, most: int) -> None:
    """One legend below all panels, with each name once and at most `most` names in a row."""
    named = {}
    for axis in axes.flat:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    if named:
        figure.legend(
            named.values(), named.keys(), loc="outside lower center", ncols=min(len(named), most)
        )


def write(folder: Path, chart: Chart) -> bytes:
    """Write both files of a chart; return the SVG."""
    drawn = draw(chart)
    for kind, content in drawn.items():
        files.write(folder / f"{chart.name}.{kind}", content)
    return drawn["svg"]
