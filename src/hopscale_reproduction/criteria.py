"""How close to a printed number ours has to be.

One draw of p moves a column of N = 100 by more than a larger one; the weights of the FHMM are not
given and had to be fitted; those of the RBM were trained again, so its numbers are shown and not
judged.
"""

EJD_TOLERANCE = {"bernoulli": 0.03, "ising": 0.03, "fhmm": 0.12}
SMALL_BERNOULLI = 100
SMALL_TOLERANCE = 0.06
ESS_TOLERANCE = 0.15

WITHIN, BEYOND, NOT_RUN, UNJUDGED = "within", "beyond", "not run", "unjudged"


def ejd_tolerance(model: str, size: int) -> float | None:
    """How far a jump distance may be from the printed one, relatively; None if not judged."""
    if model == "bernoulli" and size == SMALL_BERNOULLI:
        return SMALL_TOLERANCE
    return EJD_TOLERANCE.get(model)
