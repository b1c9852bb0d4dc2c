"""Crisis, divergence and collapse, told from the record of training."""

import types
import warnings

import numpy as np
import pytest

from hopscale.learn import CollapsedError, DivergedError, SlowTrainingWarning
from hopscale.learn.health import RECORDED, Health
from hopscale.learn.trainer import Trainer


def rows(gap, acceptance=0.5, gradient=1.0, variety=1.0):
    """A record with these gaps and otherwise constant numbers."""
    gap = np.asarray(gap, float)
    columns = {"gap": gap, "acceptance": acceptance, "gradient": gradient, "variety": variety}
    return np.stack([np.broadcast_to(columns.get(n, 0.0), gap.shape) for n in RECORDED], axis=1)


def health(crisis=100.0, limit=1e7, patience=5_000):
    return Health(crisis, limit, patience)


def trouble(record, **settings):
    """The first that is found in a record."""
    found = health(**settings).read(record)
    assert found is not None
    return found


def calm(iterations):
    return np.full(iterations, 2.0)


def test_a_gap_that_opens_and_closes_is_a_crisis_that_is_survived():
    gaps = np.concatenate([calm(684), np.full(1_000, -5e4), calm(2_000), [150.0], calm(300)])
    seen = health()
    assert seen.read(rows(gaps)) is None
    (crisis,) = seen.crises  # one iteration beyond 100 nats is none
    assert (crisis.begin, crisis.deepest) == (685, 5e4)
    assert crisis.end == 684 + 1_000 + 100  # when 100 iterations in a row were calm
    assert not seen.in_crisis
    assert str(crisis) == "iterations 685 to 1,784, |gap| up to 5e+04"


def test_the_gap_that_opened_a_crisis_counts_as_its_depth():
    seen = health()
    assert seen.read(rows(np.concatenate([calm(20), [900.0], np.full(20, 20.0)]))) is None
    (crisis,) = seen.crises  # its begin: 900 and five of 20 among calm ones have a mean above 100
    assert (crisis.begin, crisis.deepest) == (26, 900.0)


def test_chunks_do_not_show():
    gaps = np.concatenate([calm(50), np.full(300, 500.0), calm(400)])
    once, parts = health(), health()
    once.read(rows(gaps))
    for part in np.array_split(rows(gaps), 13):
        parts.read(part)
    assert once.crises == parts.crises


def test_a_crisis_that_does_not_end_is_divergence():
    found = trouble(rows(np.concatenate([calm(10), np.full(1_000, 200.0)])), patience=300)
    # The mean over ten iterations is beyond 100 with the fifth of 200.
    assert (found.reason, found.iteration, found.error) == ("crisis not over", 315, DivergedError)
    assert "opened at iteration 15" in found.text
    late = health(patience=300)
    assert late.read(rows(np.concatenate([np.full(150, 200.0), calm(300)]))) is None


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("gap", np.nan, "not finite"),
        ("gradient", np.inf, "not finite"),
        ("gap", -2e7, "beyond the limit"),
    ],
)
def test_numbers_that_mean_nothing_are_divergence(column, value, reason):
    record = rows(calm(5))
    record[3, RECORDED.index(column)] = value
    found = trouble(record)
    assert (found.reason, found.iteration, found.error) == (reason, 4, DivergedError)


@pytest.mark.parametrize(("column", "reason"), [("acceptance", "frozen"), ("variety", "alike")])
def test_chains_that_stand_still_or_are_alike_are_a_collapse(column, reason):
    well, low = rows(calm(500)), rows(calm(3_000), **{column: 0.0})
    found = trouble(np.concatenate([well, low]))
    assert (found.reason, found.error) == (reason, CollapsedError)
    # The mean over 1,000 iterations is below the threshold shortly before all of them are.
    assert 1_450 < found.iteration <= 1_500
    assert health().read(rows(calm(3_000), **{column: 0.06})) is None
    assert health().read(np.concatenate([well, low[:400], well])) is None


def test_training_that_would_take_days_says_so_early_and_once():
    at = {"first": 0, "done": 2, "iterations": 50_000, "seconds": 32.0, "said": False}
    job = types.SimpleNamespace(**at)
    with pytest.warns(SlowTrainingWarning, match=r"16 s here, the 50,000 .* about 9\.3 days"):
        assert Trainer.forecast(job, None)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Trainer.forecast(job, None)  # type: ignore[arg-type]
        for change in ({"seconds": 0.4}, {"seconds": 1.0}, {"iterations": 100}):
            Trainer.forecast(types.SimpleNamespace(**{**at, **change}), None)  # type: ignore[arg-type]
        Trainer.forecast(types.SimpleNamespace(**at), 60.0)  # type: ignore[arg-type]
