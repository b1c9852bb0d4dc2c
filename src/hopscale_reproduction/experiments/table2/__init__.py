"""Table 2: how few Metropolis-Hastings steps per iteration suffice to train a deep EBM.

`cells.py` defines a model. `search.py` decides which number of steps suffices and what to train
next. `training.py` trains and judges one model. `results.py` has the numbers of all models, and
`section.py` has the report's section on them.
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
        profiles: by name; by default the paper's and a quick one.
        procedure: how a model is trained and judged; by default `Training`.
    """

    def cells(profile: str, find: Find) -> Iterator[TrainingCell]:
        """Models that were trained, then those to train, the most urgent first."""
        search = Search(profiles[profile], find)
        yield from (one.cell for one in results.trained(search))
        for data in search.profile.data:
            try:
                yield from search.wanted(data)
            except NoReferenceError:
                continue  # `problems` reports it

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
