"""How close our numbers must be to the printed ones.

One draw of p changes a column with N = 100 by more than a larger one. The weights of the FHMM are
not given and had to be fitted. Those of the RBM were trained again, so its numbers are shown but
not judged.
"""

EJD_TOLERANCE = {"bernoulli": 0.03, "ising": 0.03, "fhmm": 0.12}
SMALL_BERNOULLI = 100
SMALL_TOLERANCE = 0.06
ESS_TOLERANCE = 0.15

WITHIN, BEYOND, NOT_RUN, UNJUDGED = "within", "beyond", "not run", "unjudged"


def ejd_tolerance(model: str, size: int) -> float | None:
    """The relative tolerance of a jump distance; None if it is not judged."""
    if model == "bernoulli" and size == SMALL_BERNOULLI:
        return SMALL_TOLERANCE
    return EJD_TOLERANCE.get(model)
