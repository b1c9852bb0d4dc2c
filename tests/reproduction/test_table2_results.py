"""What the store tells of training: Table 2, its figure, its claim."""

import math

import pytest
from scripted import GOOD

from hopscale_reproduction.experiments.table2 import results as table2
from hopscale_reproduction.experiments.table2.cells import COLUMNS, PROFILES, TrainingCell
from hopscale_reproduction.experiments.table2.search import FewestSteps
from hopscale_reproduction.report.markdown import render as as_markdown
from hopscale_reproduction.report.writing import build, claims
from hopscale_reproduction.rows import new_row
from hopscale_reproduction.snapshot import Snapshot

QUICK = PROFILES["quick"]


def rows(column, steps, results):
    """Models of the quick profile with results, a seed each."""
    cells = [TrainingCell(QUICK, "digits", column, steps, seed) for seed in QUICK.seeds]
    return [new_row(cell.settings(), results, cell.kind) for cell in cells]


def test_fewest_steps_are_told_from_the_store(store):
    for column in COLUMNS:
        for steps in QUICK.counts:
            enough = steps >= {"LBP_b-1": 8, "ALBP_b": 2}.get(column, 1)
            if column != "LBP_s-1":
                results = {**GOOD, "log_likelihood": -10.0 - 9 * (not enough)}
                store.add_all(rows(column, steps, results))
    search = table2.search_in(Snapshot(store, "quick"))
    found = {(item.data, item.column): item for item in table2.steps(search)}
    assert found["digits", "LBP_b-1"].ours == FewestSteps(8, True, 6)
    assert found["digits", "ALBP_b"].ours == FewestSteps(2, True, 1)
    assert found["digits", "LBP_s-1"].ours is None
    assert found["caltech", "LBP_b-1"] == ("caltech", "LBP_b-1", None, 100)


def learnt(store, fewest, until=99):
    """Models of the quick profile: what each sampler needs, below it -20 nats or divergence.

    Those of LBP_s-1 with more steps than `until` are missing.
    """
    for column in COLUMNS:
        for steps in QUICK.counts:
            if column == "LBP_s-1" and steps > until:
                break
            value = -10.0 if steps >= fewest[column] else -20.0
            results = {**GOOD, "log_likelihood": value}
            lost = value < -10 and steps == 1
            store.add_all(rows(column, steps, {"diverged": True} if lost else results))
    return Snapshot(store, "quick")


def test_trained_models_are_drawn(store):
    snapshot = learnt(store, {"LBP_b-1": 8, "ALBP_b": 4, "LBP_s-1": 3, "ALBP_s": 2})
    (panel,) = table2.chart(snapshot).panels
    assert panel.title == "digits (open: diverged)"
    assert [mark.at for mark in panel.marks] == [-10.3]
    open_ones = [series for series in panel.series if series.hollow]
    assert [[point.x for point in series.points] for series in open_ones] == [[1, 1]] * 4
    heights = [series.points[0].y for series in open_ones]
    assert len(set(heights)) == 4
    assert max(heights) < -20
    full = [series for series in panel.series if not series.hollow]
    assert [len(series.points) for series in full] == [14] * 4
    assert {series.name for series in full} == {series.name for series in panel.series} - {""}
    assert not any(math.isnan(point.y) for series in panel.series for point in series.points)
    assert "2 steps, seed 0: -10.00 ± 0.01 nats" in full[3].points[0].note


@pytest.mark.parametrize(
    ("fewest", "status"),
    [
        ({"LBP_b-1": 8, "ALBP_b": 4, "LBP_s-1": 6, "ALBP_s": 3}, "yes"),
        ({"LBP_b-1": 8, "ALBP_b": 4, "LBP_s-1": 3, "ALBP_s": 2}, "partly"),
        ({"LBP_b-1": 8, "ALBP_b": 5, "LBP_s-1": 3, "ALBP_s": 2}, "no"),
        ({"LBP_b-1": 99, "ALBP_b": 5, "LBP_s-1": 99, "ALBP_s": 4}, "yes"),
    ],
)
def test_the_claim_about_training_is_judged(store, fewest, status):
    snapshot = learnt(store, fewest)
    (claim,) = (c for c in claims(snapshot) if "deep EBMs" in c.claim)
    assert claim.status == status
    assert f"digits, √t: {fewest['ALBP_s']} against" in claim.found


@pytest.mark.parametrize("single", [3, 8])
def test_numbers_that_are_open_neither_deny_nor_confirm_the_claim(store, single):
    fewest = {"LBP_b-1": 8, "ALBP_b": 5, "LBP_s-1": single, "ALBP_s": 2}
    for column, steps in fewest.items():
        store.add_all(rows(column, steps, {**GOOD, "log_likelihood": -10.0, "measured": False}))
    (claim,) = (c for c in claims(learnt(store, fewest)) if "deep EBMs" in c.claim)
    assert f"digits, √t: ~2 against ~{single}" in claim.found
    assert "~: open" in claim.found
    assert claim.status == "too short"


def test_one_pair_that_is_sure_is_found_in_part_beside_one_that_is_open(store):
    fewest = {"LBP_b-1": 8, "ALBP_b": 4, "LBP_s-1": 8, "ALBP_s": 3}
    store.add_all(rows("LBP_b-1", 8, {**GOOD, "log_likelihood": -10.0, "measured": False}))
    (claim,) = (c for c in claims(learnt(store, fewest)) if "deep EBMs" in c.claim)
    assert "barker: 4 against ~8; digits, √t: 3 against 8; 2 seeds unless stated" in claim.found
    assert claim.status == "partly"


@pytest.mark.parametrize(("until", "judged"), [(5, False), (6, True)])
def test_the_claim_about_training_waits_for_what_decides_it(store, until, judged):
    snapshot = learnt(store, {"LBP_b-1": 8, "ALBP_b": 4, "LBP_s-1": 8, "ALBP_s": 3}, until)
    (claim,) = (c for c in claims(snapshot) if "deep EBMs" in c.claim)
    assert claim.status == ("yes" if judged else "partly")
    assert ("Not judged: digits, √t" in claim.found) != judged
    assert (f"digits, √t: 3 against > {until}" in claim.found) == judged


def test_a_reference_that_diverged_is_named(store):
    lost = {"diverged": True, "reason": "beyond the limit", "iteration": 5167}
    lost["crises"] = [[3227, 3646, 142.4], [5055, None, 8e6]]
    store.add_all(rows("ALBP_s", 10, lost)[:1])
    store.add_all(rows("ALBP_s", 8, {**GOOD, "crises": [[5, 9, 120.0]], "measured": False})[:1])
    snapshot = Snapshot(store, "quick")
    search = table2.search_in(snapshot)
    assert table2.chart(snapshot).panels == []
    assert table2.level(search, "digits") is None
    (problem,) = table2.problems(search)
    assert "ALBP_s with 10 steps diverged" in problem
    text = as_markdown(build(snapshot))
    assert problem[1:] in text
    assert "diverged at 5,167 after a crisis (beyond the limit)" in text
    assert "trained after a crisis" in text
