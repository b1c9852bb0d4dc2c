"""What the tests of the reproduction share."""

import pytest
from stores import by_theory, fill

from hopscale_reproduction.report import writing
from hopscale_reproduction.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as opened:
        opened._db.execute("PRAGMA synchronous = OFF")  # hundreds of cells, each a transaction
        yield opened


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A full report of the quick profile."""
    out = tmp_path_factory.mktemp("report")
    with Store(out / "results.sqlite") as store:
        fill(store, "quick", by_theory)
        writing.write(out, store, "quick")
    return out
