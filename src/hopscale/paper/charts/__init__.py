"""Figures as data: panels of series. `figures.py` prints them, the page's script explores them."""

from hopscale.paper.charts.chart import Chart, Mark, Panel, Point, Series
from hopscale.paper.charts.comparison import agreement, luck, misfit
from hopscale.paper.charts.performance import efficiency, performance
from hopscale.paper.charts.theory import fair, finite, jumps, order
from hopscale.paper.charts.training import learning

__all__ = [
    "Chart",
    "Mark",
    "Panel",
    "Point",
    "Series",
    "agreement",
    "efficiency",
    "fair",
    "finite",
    "jumps",
    "learning",
    "luck",
    "misfit",
    "order",
    "performance",
]
