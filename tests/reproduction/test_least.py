"""Table 2's search: which number of steps suffices, and how sure that is."""

import pytest
from pretended import Pretended, threshold

from hopscale_reproduction import ebm
from hopscale_reproduction.least import COLUMNS, PROFILES, Least, Model
from hopscale_reproduction.store import Store

QUICK = PROFILES["quick"]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as made:
        yield made


def found(store, rule, **more):
    """What the experiment finds on digits, by column."""
    experiment = Pretended(store, rule, **more)
    assert experiment.run()
    return experiment.found()["digits"]


@pytest.mark.parametrize("least", QUICK.counts)
def test_the_least_number_is_found(store, least):
    experiment = Pretended(store, threshold(LBP_b1=least))
    assert experiment.run()
    place = QUICK.counts.index(least)
    above = QUICK.counts[place - 1] if place else 0
    assert experiment.found()["digits"]["LBP_b-1"] == Least(least, True, above)
    # From below up to one above the least, no further; one seed where that fails.
    tried = [item for item in experiment.trained if item[0] == "LBP_b-1"]
    beyond = min(place + 1, len(QUICK.counts) - 1)
    assert tried == [("LBP_b-1", steps, 0) for steps in QUICK.counts[:place]] + [
        ("LBP_b-1", steps, seed) for steps in QUICK.counts[place : beyond + 1] for seed in (0, 1)
    ]


def test_where_no_number_suffices_none_is_given(store):
    least = found(store, threshold(LBP_b1=99))["LBP_b-1"]
    assert least == Least(None, True, 20)
    assert str(least) == "> 20"


def test_a_lucky_number_is_not_taken(store):
    def rule(column, steps):
        return -10.0 if steps in (5, 15, 20) or column == "ALBP_s" else -20.0

    assert found(store, rule)["LBP_s-1"] == Least(15, True, 10)


def test_divergence_does_not_suffice(store):
    def rule(column, steps):
        return None if column == "LBP_b-1" and steps < 8 else -10.0

    assert found(store, rule)["LBP_b-1"] == Least(8, True, 6)


def test_a_verdict_within_the_error_is_marked(store):
    def rule(column, steps):
        return -10.0 if column == "ALBP_s" else -10.3 + (0.011 if steps >= 4 else -1.0)

    least = found(store, rule)["ALBP_b"]
    assert least == Least(4, False, 3)
    assert str(least) == "~4"


def test_a_next_number_within_the_error_marks_the_one_it_confirms(store):
    def rule(column, steps):
        if column == "ALBP_s":
            return -10.0
        return {4: -10.0, 5: -10.29}.get(steps, -20.0)

    assert found(store, rule)["ALBP_b"] == Least(4, False, 3)


def test_the_error_of_the_reference_counts(store):
    """0.022 nats above the least that suffices: 2.2 errors of the model, 1.8 of the difference."""

    def rule(column, steps):
        return -10.0 if column == "ALBP_s" else -10.278

    assert found(store, rule)["ALBP_b"] == Least(1, False, 0)


def test_a_likelihood_that_is_no_number_does_not_suffice(store):
    def rule(column, steps):
        return float("nan") if column == "ALBP_b" and steps < 4 else -10.0

    assert found(store, rule)["ALBP_b"] == Least(4, False, 3)


@pytest.mark.parametrize("column", ["ALBP_s", "ALBP_b"])
def test_a_log_z_that_was_not_measured_marks_the_verdict(store, column):
    class Doubtful(Pretended):
        def _train(self, settings):
            poor = (settings["balance"], settings["variant"]) == COLUMNS[column]
            return {**super()._train(settings), "effective": 3.0 if poor else 100.0}

    experiment = Doubtful(store, threshold())
    experiment.run()
    # Where it is the reference that was not measured, all verdicts are open.
    assert experiment.found()["digits"]["ALBP_b"] == Least(1, False, 0)
    assert experiment.found()["digits"]["LBP_b-1"] == Least(1, column != "ALBP_s", 0)


def test_a_reference_that_diverges_is_an_error(store):
    experiment = Pretended(store, lambda column, steps: None)
    assert experiment.run()
    assert experiment.found()["digits"]["LBP_b-1"] is None
    # What diverges is known not to suffice, even so.
    for steps in (1, 2):
        experiment.train(Model("digits", "LBP_b-1", steps, 0))
    assert experiment.found()["digits"]["LBP_b-1"] == Least(None, True, 2)
    assert "there is no reference" in experiment.problems["digits"]
    with pytest.raises(ArithmeticError, match="no reference"):
        ebm.run("quick", store)


def test_what_is_stored_is_not_run_again(store):
    experiment = Pretended(store, threshold(LBP_b1=8, ALBP_b=3))
    experiment.run()
    ran, first = len(experiment.trained), experiment.found()
    assert len(set(experiment.trained)) == ran == len(store.rows("ebm"))
    again = Pretended(store, threshold())
    assert again.run()
    assert again.found() == first
    assert again.trained == []


def test_what_is_known_halfway_is_shown(store):
    experiment = Pretended(store, threshold(LBP_b1=8))
    assert experiment.found()["digits"]["LBP_b-1"] is None
    for steps, seed in ((20, 0), (20, 1)):
        experiment.train(Model("digits", "ALBP_s", steps, seed))
    for steps in (1, 2, 3):
        experiment.train(Model("digits", "LBP_b-1", steps, 0))
    assert experiment.found()["digits"]["LBP_b-1"] == Least(None, True, 3)
    # A number that suffices is not believed before the next one does.
    for seed in (0, 1):
        experiment.train(Model("digits", "ALBP_b", 1, seed))
    assert experiment.found()["digits"]["ALBP_b"] is None


def test_processes_share_the_work(tmp_path):
    """What one has claimed the other leaves alone, and goes on to what will be needed next."""
    with Store(tmp_path / "s.sqlite") as one, Store(tmp_path / "s.sqlite") as other:
        other._owner = "elsewhere:1"
        first = Pretended(one, threshold())
        second = Pretended(other, threshold())
        taken = [first._claimed(first._wanted()), second._claimed(second._wanted())]
        assert taken == [Model("digits", "ALBP_s", 20, 0), Model("digits", "ALBP_s", 20, 1)]
        taken = [second._claimed(second._wanted()) for _ in range(3)]
        assert taken == [taken[0]] * 3 == [Model("digits", "ALBP_s", 20, 1)] * 3
        first.train(Model("digits", "ALBP_s", 20, 0))
        second.train(Model("digits", "ALBP_s", 20, 1))
        assert first._claimed(first._wanted()) == Model("digits", "LBP_b-1", 1, 0)
        assert second._claimed(second._wanted()) == Model("digits", "ALBP_b", 1, 0)
        assert Model("digits", "LBP_b-1", 1, 1) in first.search.wanted("digits")
        assert len(first.search.wanted("digits")) == 2 * len(COLUMNS)
