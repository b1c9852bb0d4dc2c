"""Figures as data: panels of series. `figures.py` prints them, the page's script explores them."""

from hopscale_reproduction.charts.chart import Chart, Mark, Panel, Point, Series
from hopscale_reproduction.charts.comparison import agreement, luck, misfit
from hopscale_reproduction.charts.performance import efficiency, performance
from hopscale_reproduction.charts.theory import fair, finite, jumps, order
from hopscale_reproduction.charts.training import learning

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
