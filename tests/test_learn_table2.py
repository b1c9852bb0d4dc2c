"""The experiment of Table 2: the search, the verdicts, the store."""

import dataclasses
import json
import os
import signal
import sys

import pytest

from hopscale.paper import ebm
from hopscale.paper.ebm import Table2
from hopscale.paper.least import COLUMNS, PROFILES, Least

QUICK = PROFILES["quick"]


class Kept:
    """A store in memory, by settings that survive JSON."""

    def __init__(self):
        self.rows = {}

    def get(self, settings):
        return self.rows.get(json.dumps(settings, sort_keys=True))

    def put(self, settings, results, kind):
        assert kind == "ebm"
        self.rows[json.dumps(settings, sort_keys=True)] = json.loads(json.dumps(results))


class Pretended(Table2):
    """Training replaced by a rule: the log-likelihood as a function of column and steps."""

    def __init__(self, rule, **more):
        self.kept = Kept()
        super().__init__(self.kept, **more)
        self.rule, self.trained = rule, []

    def _train(self, settings):
        pair = (settings["balance"], settings["variant"])
        column = next(name for name, value in COLUMNS.items() if value == pair)
        self.trained.append((column, settings["steps"], settings["seed"]))
        value = self.rule(column, settings["steps"])
        if value is None:
            return {"diverged": True, "why": "so"}
        return {"diverged": False, "log_likelihood": value, "error": 0.01, "effective": 100.0}


def threshold(**least):
    return lambda column, steps: -10.0 if steps >= least.get(column.replace("-", ""), 1) else -20.0


@pytest.mark.parametrize("least", QUICK.counts)
def test_search_finds_the_least_number(least):
    experiment = Pretended(threshold(LBP_b1=least))
    assert experiment.search.least("digits", "LBP_b-1") == Least(least, True)
    assert len(experiment.trained) <= 2 * 7


def test_where_no_number_suffices_none_is_given():
    experiment = Pretended(threshold(LBP_b1=99))
    assert experiment.search.least("digits", "LBP_b-1") == Least(None, True)
    found = {"digits": dict.fromkeys(COLUMNS, Least(None, True))}
    assert ebm.rows(found, QUICK)[0]["ALBP_s"] == "> 20"


def test_a_lucky_number_is_not_taken():
    def rule(column, steps):
        return -10.0 if steps in (5, 15, 20) or column == "ALBP_s" else -20.0

    assert Pretended(rule).search.least("digits", "LBP_s-1") == Least(15, True)


def test_divergence_does_not_suffice():
    def rule(column, steps):
        return None if column == "LBP_b-1" and steps < 8 else -10.0

    assert Pretended(rule).search.least("digits", "LBP_b-1") == Least(8, True)


def test_a_verdict_within_the_error_is_marked():
    def rule(column, steps):
        return -10.0 if column == "ALBP_s" else -10.3 + (0.011 if steps >= 4 else -1.0)

    least = Pretended(rule).search.least("digits", "ALBP_b")
    assert least == Least(4, False)
    found = {"digits": dict.fromkeys(COLUMNS, least)}
    assert ebm.rows(found, QUICK)[0]["ALBP_b"] == "~4"


@pytest.mark.parametrize("column", ["ALBP_s", "ALBP_b"])
def test_a_log_z_that_was_not_measured_marks_the_verdict(column):
    class Doubtful(Pretended):
        def _train(self, settings):
            poor = (settings["balance"], settings["variant"]) == COLUMNS[column]
            return {**super()._train(settings), "effective": 3.0 if poor else 100.0}

    # Where it is the reference that was not measured, all verdicts are open.
    assert Doubtful(threshold()).search.least("digits", "ALBP_b") == Least(1, False)
    assert Doubtful(threshold()).search.least("digits", "LBP_b-1").sure == (column != "ALBP_s")


def test_a_reference_that_diverges_is_an_error():
    with pytest.raises(ArithmeticError, match="no reference"):
        Pretended(lambda column, steps: None).run()


def test_what_is_stored_is_not_run_again():
    experiment = Pretended(threshold(LBP_b1=8, ALBP_b=3))
    first = experiment.run()
    ran = len(experiment.trained)
    assert len(set(experiment.trained)) == ran == len(experiment.kept.rows)
    assert experiment.run() == first
    assert len(experiment.trained) == ran


def test_the_papers_table_is_beside_ours():
    assert [ebm.paper()["omniglot", column] for column in COLUMNS] == [100, 60, 30, 5]
    assert len(ebm.paper()) == 16
    full = PROFILES["full"]
    found = {data: dict.fromkeys(COLUMNS, Least(15, True)) for data in full.data}
    rows = ebm.rows(found, full)
    assert [(row["data"], row["source"]) for row in rows[:3]] == [
        ("static-mnist", "ours"),
        ("static-mnist", "paper"),
        ("dynamic-mnist", "ours"),
    ]
    assert set(map(str, ebm.paper().values())) <= set(map(str, full.counts))
    assert ebm.table(found, full).row_count == 8


def test_models_are_trained_and_judged(tmp_path):
    tiny = dataclasses.replace(
        QUICK, channels=2, iterations=4, counts=(1, 2), seeds=(0,), margin=50, betas=3, chains=4
    )
    lines = []
    experiment = Table2(Kept(), tiny, folder=tmp_path / "checkpoints", say=lines.append)
    # Eight chains are too few to measure log Z.
    assert experiment.search.least("digits", "LBP_s-1") == Least(1, False)
    result = experiment.result("digits", "ALBP_s", 2, 0)
    assert -64 < result["log_likelihood"] < 0
    assert any("LBP_s-1    1 steps, seed 0" in line for line in lines)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    shown = sorted(file.name for file in (tmp_path / "pictures").iterdir())
    assert shown == [f"ebm-digits_{kind}.png" for kind in ("curves", "long-run", "samples")]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_keeps_the_checkpoint_and_stores_nothing(tmp_path, monkeypatch):
    from hopscale.learn import training

    advance = training._Trainer.advance

    def interrupted(self, iterations):
        advance(self, iterations)
        os.kill(os.getpid(), signal.SIGINT)

    tiny = dataclasses.replace(QUICK, channels=2, iterations=4, betas=3, chains=4)
    experiment = Table2(Kept(), tiny, folder=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(training._Trainer, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            experiment.result("digits", "ALBP_s", 2, 0)
    assert [path.name for path in tmp_path.rglob("*.checkpoint")] == ["step-000000001.checkpoint"]
    again = experiment.result("digits", "ALBP_s", 2, 0)
    assert (
        again["log_likelihood"]
        == Table2(Kept(), tiny).result("digits", "ALBP_s", 2, 0)["log_likelihood"]
    )
    assert list(tmp_path.iterdir()) == []


def test_the_table_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(
        Table2, "run", lambda self: {"digits": dict.fromkeys(COLUMNS, Least(7, True))}
    )
    ebm.run("quick", Kept())
    assert "digits" in capsys.readouterr().out


def test_an_unknown_profile_is_refused():
    with pytest.raises(ValueError, match="one of quick, full"):
        Table2(Kept(), "huge")
