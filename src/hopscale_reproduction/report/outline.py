"""The order of the report: its sections, their parts, and the claims at its head.

Experiments supply the content. Anything that is not named here comes last: a part at the end of
its section, a section before the appendix, a claim below the others.
"""

from typing import NamedTuple


class Heading(NamedTuple):
    """A section, and the order of its parts."""

    name: str
    title: str
    parts: tuple[str, ...] = ()


SHORT = Heading("short", "In short")
BODY = (
    Heading("table-1", "Table 1"),
    Heading("curves", "Performance curves"),
    Heading("order", "Order of the scale"),
    Heading(
        "differences",
        "Account of differences",
        ("agreement", "readings", "weights", "instances", "ess", "seconds", "slips"),
    ),
    Heading("theory", "The theory's claims", ("jumps", "near-fair", "finite")),
    Heading("training", "Table 2: training deep EBMs"),
    Heading("pictures", "Pictures", ("filters", "training")),
)
APPENDIX = (Heading("tables", "All tables", ("criterion", "bernoulli", "ising", "fhmm", "rbm")),)
CLAIMS = (
    "lbp-rate",
    "rwm-rate",
    "scale-order",
    "gain-order",
    "adaptive",
    "gain",
    "jumps",
    "finite",
    "training",
    "printed-ejd",
    "printed-ess",
)


def place(name: str, order: tuple[str, ...]) -> int:
    """The position of a name in an order; last if it is not in it."""
    return order.index(name) if name in order else len(order)
