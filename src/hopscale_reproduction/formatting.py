"""How numbers and names are written in the report."""

import math
from collections.abc import Sequence

from hopscale_reproduction.places import Column
from hopscale_reproduction.values import Value

TITLES = {"bernoulli": "Bernoulli", "ising": "Ising", "fhmm": "FHMM", "rbm": "RBM"}
CONFIG_LABELS = {"C1": "C1 (smooth)", "C2": "C2", "C3": "C3 (sharp)"}
METRIC_TITLES = {"ejd": "Expected jump distance", "ess": "Effective sample size", "seconds": "Time"}
STATISTIC_LABELS = {
    "hamming": "distance to a fixed state",
    "sum": "number of ones",
    "site": "one site",
    "pair": "pairs that agree",
    "log_prob": "log-probability",
}


def size_label(model: str, size: int) -> str:
    """A size as the paper writes it."""
    letter = {"bernoulli": "N", "ising": "p", "fhmm": "L", "rbm": "h"}[model]
    return f"{letter} = {size}"


def column_label(column: Column) -> str:
    """The full name of a target distribution."""
    return f"{TITLES[column.model]}, {size_label(column.model, column.size)}, {column.config}"


def number(value: float | None, digits: int | None = None) -> str:
    """Three decimals below 10, two below 100, then one; a dash for a missing value."""
    if value is None or math.isnan(value):
        return "–"
    if digits is None:
        digits = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
    return f"{value:,.{digits}f}"


def printed(value: float | None) -> str:
    """As the paper prints: two decimals."""
    return "–" if value is None else f"{value:,.2f}"


def significant(value: float | None, digits: int = 3) -> str:
    """Rounded to significant digits, never in powers of ten."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def plus_minus(value: Value | None, digits: int | None = None) -> str:
    """A value and its standard error."""
    if value is None:
        return "not run"
    if digits is None:
        digits = places(value.error)
    return f"{value.mean:,.{digits}f} ± {value.error:,.{digits}f}".replace("-", "−")


def places(error: float) -> int:
    """Decimals that show two significant digits of an error; more than four only to show one."""
    if not error > 0 or math.isinf(error):
        return 3
    first = -math.floor(math.log10(error))
    return max(0, first, min(4, first + 1))


def percent(value: float, signed: bool = False) -> str:
    """A share, to a tenth of a per cent."""
    return f"{100 * value:{'+' if signed else ''}.1f}%".replace("-", "−")


def span(values: Sequence[float], digits: int) -> str:
    """The range from smallest to largest; one number if both print the same."""
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"
