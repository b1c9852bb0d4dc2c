"""Straight lines through logarithms."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Slope(NamedTuple):
    """A straight line through (log x, log y): y = factor x^slope."""

    slope: float
    error: float
    factor: float


def slope(x: Sequence[float], y: Sequence[float]) -> Slope | None:
    """Least squares on logarithms, with the error from the scatter; None below 3 points.

    With three points the error has one degree of freedom, so it is shown but says little.
    """
    if len(x) < 3:
        return None
    log_x, log_y = np.log(x), np.log(y)
    centred = log_x - log_x.mean()
    gradient = float(centred @ log_y / (centred @ centred))
    start = float(log_y.mean() - gradient * log_x.mean())
    left = log_y - start - gradient * log_x
    error = math.sqrt(float(left @ left) / (len(x) - 2) / float(centred @ centred))
    return Slope(gradient, error, math.exp(start))
