"""What the tests of the reproduction share."""

import pytest
from stores import by_theory, fill, give_sites

from hopscale_reproduction import report
from hopscale_reproduction.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as opened:
        opened._db.execute("PRAGMA synchronous = OFF")  # hundreds of cells, each a transaction
        yield opened


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A full report of the quick profile; sites needed are not computed but given."""
    out = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch, Store(out / "results.sqlite") as store:
        give_sites(patch)
        store._db.execute("PRAGMA synchronous = OFF")
        fill(store, "quick", by_theory)
        report.write(out, store, "quick")
    return out
