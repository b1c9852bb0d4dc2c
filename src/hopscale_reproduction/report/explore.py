"""The data from which the page's script draws figures that can be explored."""

import json
import math
from typing import Any

from hopscale_reproduction.cells import Cell
from hopscale_reproduction.chart import Chart, Panel, Series
from hopscale_reproduction.formatting import TITLES
from hopscale_reproduction.places import sampler_name
from hopscale_reproduction.snapshot import Snapshot

FIELDS = (
    "target", "sampler", "rate tuned for", "R", "acceptance", "EJD", "± EJD", "ESS",
    "ESS per draw", "R-hat", "seconds", "side by side", "instance", "seed", "chains x draws",
)  # fmt: skip


def payload(charts: list[Chart], snapshot: Snapshot) -> str:
    """All charts and the cells behind their points, as JSON that is safe inside an HTML page."""
    cells = _Cells(snapshot)
    drawn = {chart.name: _chart(chart, cells) for chart in charts}
    data = {"fields": FIELDS, "cells": cells.rows, "charts": drawn}
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


class _Cells:
    """Cells in the order in which they are first requested."""

    def __init__(self, snapshot: Snapshot):
        self._snapshot = snapshot
        self._places: dict[Cell, int] = {}
        self.rows: list[list[Any]] = []

    def place(self, cell: Cell) -> int:
        if cell not in self._places:
            self._places[cell] = len(self.rows)
            self.rows.append(self._row(cell))
        return self._places[cell]

    def _row(self, cell: Cell) -> list[Any]:
        results = self._snapshot.find(cell)
        assert results is not None
        name = sampler_name(cell.sampler, cell.balance)
        target = f"{TITLES.get(cell.model, cell.model.replace('_', ' '))} {cell.size}"
        beta = dict(cell.options).get("beta")
        measured = ("scale", "acceptance", "ejd", "ejd_error", "ess")
        return [
            " ".join([target, cell.config, f"β = {beta:g}" if beta is not None else ""]).strip(),
            ", ".join(filter(None, [name, cell.detail])),
            "R fixed" if cell.rate is None else cell.rate,
            *(_short(results[key]) for key in measured),
            _short(results["ess"] / cell.draws),
            _short(results["r_hat"]),
            _short(results["seconds"]),
            results["side_by_side"],
            cell.instance,
            cell.seed,
            f"{cell.chains} x {cell.draws}",
        ]


def _chart(chart: Chart, cells: _Cells) -> dict[str, Any]:
    return {
        "title": chart.title,
        "columns": chart.columns,
        "panels": [_panel(panel, cells) for panel in chart.panels],
    }


def _panel(panel: Panel, cells: _Cells) -> dict[str, Any]:
    return {
        **panel._asdict(),
        "marks": [mark._asdict() for mark in panel.marks],
        "series": [_series(series, cells) for series in panel.series],
    }


def _series(series: Series, cells: _Cells) -> dict[str, Any]:
    points = [
        [
            _short(point.x),
            _short(point.y),
            _short(point.error),
            point.note if point.cell is None else cells.place(point.cell),
        ]
        for point in series.points
    ]
    return {**series._asdict(), "points": points}


def _short(value: float) -> float | None:
    """Five significant digits; None for a value that is not finite."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.5g}")
