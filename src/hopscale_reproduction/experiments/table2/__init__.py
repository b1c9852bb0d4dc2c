"""Table 2: how few Metropolis-Hastings steps an iteration suffice to train a deep EBM.

`cells.py` says what a model is, `search.py` which number of steps suffices and what to train next,
`training.py` trains and judges one model, `results.py` has the numbers of them all and
`section.py` what the report makes of these.
"""

from collections.abc import Iterator, Mapping

from hopscale_reproduction.experiment import Experiment, Find, Part, Procedure
from hopscale_reproduction.experiments.table2 import results, section
from hopscale_reproduction.experiments.table2.cells import COLUMNS, PROFILES, Profile, TrainingCell
from hopscale_reproduction.experiments.table2.search import NoReferenceError, Search
from hopscale_reproduction.experiments.table2.training import Training

__all__ = ["COLUMNS", "EXPERIMENT", "PROFILES", "Profile", "TrainingCell", "experiment"]


def experiment(
    profiles: Mapping[str, Profile] = PROFILES, procedure: Procedure | None = None
) -> Experiment:
    """The experiment.

    Args:
        profiles: by name; the paper's and a quick one, unless given.
        procedure: how a model is trained and judged, if not as usual.
    """

    def cells(profile: str, find: Find) -> Iterator[TrainingCell]:
        """Models that were trained, then those that are wanted, soonest first."""
        search = Search(profiles[profile], find)
        yield from (one.cell for one in results.trained(search))
        for data in search.profile.data:
            try:
                yield from search.wanted(data)
            except NoReferenceError:
                continue  # `problems` tells

    return Experiment(
        name="table2",
        title="Training deep EBMs",
        cells=cells,
        cell_type=TrainingCell,
        procedure=procedure or Training(),
        parts=(
            Part("training", "training", section.blocks),
            Part("pictures", "training", section.pictures),
        ),
        claims=(section.claim,),
        summary=lambda profile, find: results.summary(profiles[profile], find),
        problems=lambda profile, find: results.problems(Search(profiles[profile], find)),
    )


EXPERIMENT = experiment()
