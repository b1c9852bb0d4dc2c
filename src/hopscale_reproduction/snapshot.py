"""A store, read once, as the experiments of one profile see it."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hopscale_reproduction.cells import AnyCell, digest
from hopscale_reproduction.experiment import Experiment, Results
from hopscale_reproduction.rows import Row
from hopscale_reproduction.store import Store

T = TypeVar("T")


class Snapshot:
    """The results in a store.

    Args:
        store: the store; it is read once, here.
        profile: the profile whose cells the experiments list.
        experiments: the experiments; by default all that are registered.
        pictures: the folder of pictures; None leaves them out.
    """

    def __init__(
        self,
        store: Store,
        profile: str,
        experiments: Sequence[Experiment] | None = None,
        pictures: Path | None = None,
    ):
        if experiments is None:
            from hopscale_reproduction.experiments import EXPERIMENTS  # it imports this module

            experiments = EXPERIMENTS
        self.profile, self.pictures = profile, pictures
        self.experiments = {experiment.name: experiment for experiment in experiments}
        self.rows = store.rows()
        self._rows = {digest(row["settings"]): row for row in self.rows}
        self._row_of = functools.cache(lambda cell: self._rows.get(digest(cell.settings())))
        self._cells = functools.cache(self._list)
        self._computed: dict[tuple, Any] = {}

    def find(self, cell: AnyCell) -> Results | None:
        """The results of a cell; None if it was not run."""
        row = self._row_of(cell)
        return None if row is None else row["results"]

    def cells(self, experiment: str) -> tuple[Any, ...]:
        """The cells of an experiment in this profile, run or not; none if it is unknown."""
        return self._cells(experiment)

    def found(self, experiment: str) -> list[tuple[Any, Results]]:
        """The cells of an experiment that were run, with their results."""
        pairs = ((cell, self.find(cell)) for cell in self.cells(experiment))
        return [(cell, results) for cell, results in pairs if results is not None]

    def runs(self) -> list[Row]:
        """The runs of samplers that are cells of this profile."""
        cells = dict.fromkeys(cell for name in self.experiments for cell in self.cells(name))
        rows = (self._row_of(cell) for cell in cells if cell.kind == "run")
        return [row for row in rows if row is not None]

    def once(self, function: Callable[..., T], *arguments: Any) -> T:
        """`function(self, *arguments)`, computed the first time it is asked for."""
        where = (function, *arguments)
        if where not in self._computed:
            self._computed[where] = function(self, *arguments)
        return self._computed[where]

    def _list(self, experiment: str) -> tuple[AnyCell, ...]:
        if experiment not in self.experiments:
            return ()
        return tuple(dict.fromkeys(self.experiments[experiment].cells(self.profile, self.find)))
