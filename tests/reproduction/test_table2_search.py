"""Table 2's search: which number of steps suffices, and how sure that is."""

import pytest
from scripted import Scripted, run, threshold

from hopscale_reproduction.cells import digest
from hopscale_reproduction.experiments.table2.cells import COLUMNS, PROFILES, TrainingCell
from hopscale_reproduction.experiments.table2.search import FewestSteps, Search
from hopscale_reproduction.store import Store

QUICK = PROFILES["quick"]


def search_in(store):
    return Search(QUICK, lambda cell: store.get(cell.settings()))


def found(store, rule):
    """What the experiment finds on digits, by column."""
    assert run(store, Scripted(rule)).complete
    search = search_in(store)
    return {column: search.fewest("digits", column) for column in COLUMNS}


def train(store, rule, column, steps, seed):
    """One model, by a rule."""
    cell = TrainingCell(QUICK, "digits", column, steps, seed)
    store.put(cell.settings(), Scripted(rule).run(cell, None), cell.kind)


@pytest.mark.parametrize("fewest", [*QUICK.counts[:2], *QUICK.counts[-2:]])
def test_the_smallest_number_is_found(store, fewest):
    procedure = Scripted(threshold(LBP_b1=fewest))
    assert run(store, procedure).complete
    place = QUICK.counts.index(fewest)
    above = QUICK.counts[place - 1] if place else 0
    assert search_in(store).fewest("digits", "LBP_b-1") == FewestSteps(fewest, True, above)
    # From below up to one above the smallest, no further; one seed where that fails.
    tried = [item for item in procedure.trained if item[0] == "LBP_b-1"]
    beyond = min(place + 1, len(QUICK.counts) - 1)
    assert tried == [("LBP_b-1", steps, 0) for steps in QUICK.counts[:place]] + [
        ("LBP_b-1", steps, seed) for steps in QUICK.counts[place : beyond + 1] for seed in (0, 1)
    ]


def test_where_no_number_suffices_none_is_given(store):
    fewest = found(store, threshold(LBP_b1=99))["LBP_b-1"]
    assert fewest == FewestSteps(None, True, 10)
    assert str(fewest) == "> 10"


def test_a_lucky_number_is_not_taken(store):
    def rule(column, steps):
        return -10.0 if steps in (5, 8, 10) or column == "ALBP_s" else -20.0

    assert found(store, rule)["LBP_s-1"] == FewestSteps(8, True, 6)


def test_divergence_does_not_suffice(store):
    def rule(column, steps):
        return None if column == "LBP_b-1" and steps < 8 else -10.0

    assert found(store, rule)["LBP_b-1"] == FewestSteps(8, True, 6)


def test_a_judgement_within_the_error_is_marked(store):
    def rule(column, steps):
        return -10.0 if column == "ALBP_s" else -10.3 + (0.011 if steps >= 4 else -1.0)

    fewest = found(store, rule)["ALBP_b"]
    assert fewest == FewestSteps(4, False, 3)
    assert str(fewest) == "~4"


def test_a_next_number_within_the_error_marks_the_one_it_confirms(store):
    def rule(column, steps):
        if column == "ALBP_s":
            return -10.0
        return {4: -10.0, 5: -10.29}.get(steps, -20.0)

    assert found(store, rule)["ALBP_b"] == FewestSteps(4, False, 3)


def test_the_error_of_the_reference_counts(store):
    """0.022 nats above what suffices: 2.2 errors of the model, 1.8 of the difference."""

    def rule(column, steps):
        return -10.0 if column == "ALBP_s" else -10.278

    assert found(store, rule)["ALBP_b"] == FewestSteps(1, False, 0)


def test_a_likelihood_that_is_no_number_does_not_suffice(store):
    def rule(column, steps):
        return float("nan") if column == "ALBP_b" and steps < 4 else -10.0

    assert found(store, rule)["ALBP_b"] == FewestSteps(4, False, 3)


@pytest.mark.parametrize("column", ["ALBP_s", "ALBP_b"])
def test_a_log_z_that_was_not_measured_marks_the_judgement(store, column):
    class Doubtful(Scripted):
        def run(self, cell, context):
            return {**super().run(cell, context), "measured": cell.column != column}

    run(store, Doubtful(threshold()))
    # Where it is the reference that was not measured, nothing is sure.
    assert search_in(store).fewest("digits", "ALBP_b") == FewestSteps(1, False, 0)
    single = search_in(store).fewest("digits", "LBP_b-1")
    assert single == FewestSteps(1, column != "ALBP_s", 0)


def test_a_reference_that_diverges_is_a_problem(store):
    outcome = run(store, Scripted(lambda column, steps: None))
    assert outcome.complete
    assert "there is no reference" in outcome.problems[0]
    assert search_in(store).fewest("digits", "LBP_b-1") is None
    # What diverges is known not to suffice, even so.
    for steps in (1, 2):
        train(store, lambda column, steps: None, "LBP_b-1", steps, 0)
    assert search_in(store).fewest("digits", "LBP_b-1") == FewestSteps(None, True, 2)


def test_what_is_stored_is_not_run_again(store):
    first = Scripted(threshold(LBP_b1=8, ALBP_b=3))
    outcome = run(store, first)
    assert len(set(first.trained)) == len(first.trained) == len(store.rows("ebm")) == outcome.ran
    again = Scripted(threshold())
    assert run(store, again).complete
    assert again.trained == []


def test_what_is_known_halfway_is_shown(store):
    rule = threshold(LBP_b1=8)
    assert search_in(store).fewest("digits", "LBP_b-1") is None
    for seed in (0, 1):
        train(store, rule, "ALBP_s", 10, seed)
    for steps in (1, 2, 3):
        train(store, rule, "LBP_b-1", steps, 0)
    assert search_in(store).fewest("digits", "LBP_b-1") == FewestSteps(None, True, 3)
    # A number that suffices is not believed before the next one does.
    for seed in (0, 1):
        train(store, rule, "ALBP_b", 1, seed)
    assert search_in(store).fewest("digits", "ALBP_b") is None


def test_processes_share_the_work(tmp_path):
    """What another process has claimed is left alone; the next that will be needed is offered."""
    with Store(tmp_path / "s.sqlite") as mine, Store(tmp_path / "s.sqlite", owner="x:1") as other:
        wanted = search_in(mine).wanted("digits")
        assert wanted[:2] == [TrainingCell(QUICK, "digits", "ALBP_s", 10, seed) for seed in (0, 1)]
        assert other.claim([digest(wanted[0].settings())])
        procedure = Scripted(threshold())
        outcome = run(mine, procedure, minutes=0.02)
        assert not outcome.complete
        assert ("ALBP_s", 10, 0) not in procedure.trained
        assert ("ALBP_s", 10, 1) in procedure.trained


def test_two_models_of_every_sampler_are_offered(store):
    for seed in (0, 1):
        train(store, threshold(), "ALBP_s", 10, seed)
    wanted = search_in(store).wanted("digits")
    assert len(wanted) == 2 * len(COLUMNS)
    assert wanted[0] == TrainingCell(QUICK, "digits", "LBP_b-1", 1, 0)
    assert TrainingCell(QUICK, "digits", "LBP_b-1", 1, 1) in wanted


def test_verdicts_with_some_of_the_seeds_say_how_many(store):
    rule = threshold(LBP_b1=99)
    train(store, rule, "ALBP_s", 10, 0)
    for steps in (1, 2):
        train(store, rule, "ALBP_b", steps, 0)
    search = search_in(store)
    assert search.fewest("digits", "ALBP_b") == FewestSteps(1, True, 0, seeds=1)
    assert str(search.fewest("digits", "ALBP_b")) == "1 (1 seed)"
    # What is missing is still wanted, and when all are there nothing is said.
    assert TrainingCell(QUICK, "digits", "ALBP_s", 10, 1) in search.wanted("digits")
    train(store, rule, "ALBP_s", 10, 1)
    for steps in (1, 2):
        train(store, rule, "ALBP_b", steps, 1)
    assert search.fewest("digits", "ALBP_b") == FewestSteps(1, True, 0)
    # One seed that does not suffice decides, with or without the others.
    train(store, rule, "LBP_b-1", 1, 1)
    assert search.fewest("digits", "LBP_b-1") == FewestSteps(None, True, 1)
