"""Revisions of the code that results depend on.

A number is raised by hand when a change of code changes results. Cells that depend on it then have
another key and are run again. Results on record without a revision belong to the first one.
"""

from typing import Any

REVISIONS = {
    # samplers
    "rwm": 1,
    "gwg": 1,
    "lbp": 1,
    # targets
    "bernoulli": 1,
    "identical": 1,
    "nearly_fair": 1,
    "ising": 1,
    "fhmm": 1,
    "rbm": 2,  # trained on thresholded bits
    # the loop with its tuner, and how effective sample sizes are estimated
    "loop": 2,  # distances are measured from another random state
    "diagnostics": 1,
    # experiments that do not run a sampler in the loop
    "finite": 1,
    "table2": 2,  # training continues through a crisis; log Z from two sides
}


def with_revision(settings: dict[str, Any], *parts: str) -> dict[str, Any]:
    """Settings with those revisions of the parts they depend on that are above the first.

    If every revision is the first, the settings and their digest stay unchanged.
    """
    raised = {part: REVISIONS[part] for part in parts if REVISIONS[part] > 1}
    return {**settings, "revision": raised} if raised else settings
