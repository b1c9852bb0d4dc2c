"""The experiment of Table 2: the search, the verdicts, the store."""

import dataclasses
import os
import signal
import sys

import pytest
from typer.testing import CliRunner

from hopscale import cli
from hopscale.paper import ebm, report
from hopscale.paper.ebm import Table2
from hopscale.paper.least import COLUMNS, PROFILES, Least, Model, settings
from hopscale.paper.store import Store

QUICK = PROFILES["quick"]


class Pretended(Table2):
    """Training replaced by a rule: the log-likelihood as a function of column and steps."""

    def __init__(self, store, rule, **more):
        super().__init__(store, **more)
        self.rule, self.trained = rule, []

    def _train(self, settings):
        pair = (settings["balance"], settings["variant"])
        column = next(name for name, value in COLUMNS.items() if value == pair)
        self.trained.append((column, settings["steps"], settings["seed"]))
        value = self.rule(column, settings["steps"])
        if value is None:
            return {"diverged": True, "why": "so"}
        return {"diverged": False, "log_likelihood": value, "error": 0.01, "effective": 100.0}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as made:
        yield made


def found(store, rule, **more):
    """What the experiment finds on digits, by column."""
    experiment = Pretended(store, rule, **more)
    assert experiment.run()
    return experiment.found()["digits"]


def threshold(**least):
    return lambda column, steps: -10.0 if steps >= least.get(column.replace("-", ""), 1) else -20.0


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


def test_time_that_is_up_leaves_a_checkpoint(store):
    endless = dataclasses.replace(QUICK, channels=2, iterations=10_000_000)
    late = Table2(store, endless, minutes=0.05)
    assert not late.run()
    assert store.rows("ebm") == []
    folder = store.path.parent / ebm.CHECKPOINTS
    (left,) = folder.iterdir()
    assert left.name.startswith("digits-sqrt-adaptive-20-0-")
    assert not Table2(store, endless, minutes=0.0).run()
    assert list(folder.iterdir()) == [left]
    # A profile with other settings does not stumble over it.
    other = dataclasses.replace(endless, iterations=4, rate=2e-3, betas=3, chains=4)
    Table2(store, other).train(Model("digits", "ALBP_s", 20, 0))
    assert list(folder.iterdir()) == [left]


def test_time_may_be_up_before_the_first_iteration(store, monkeypatch):
    from hopscale.learn import networks

    late, made = (
        Table2(store, dataclasses.replace(QUICK, channels=2), minutes=1.0),
        networks.by_name,
    )

    def slow(*arguments):
        late._end = 0.0
        return made(*arguments)

    monkeypatch.setattr(networks, "by_name", slow)
    assert not late.run()
    assert store.rows("ebm") == []


def test_the_papers_table_is_beside_ours():
    assert [ebm.paper()["omniglot", column] for column in COLUMNS] == [100, 60, 30, 5]
    assert len(ebm.paper()) == 16
    full = PROFILES["full"]
    ours = {data: dict.fromkeys(COLUMNS, Least(15, True, 10)) for data in full.data}
    rows = ebm.rows(ours)
    assert [(row["data"], row["source"]) for row in rows[:3]] == [
        ("static-mnist", "ours"),
        ("static-mnist", "paper"),
        ("dynamic-mnist", "ours"),
    ]
    assert set(map(str, ebm.paper().values())) <= set(map(str, full.counts))
    assert ebm.table(ours, full).row_count == 8


def test_models_are_trained_and_judged(store):
    tiny = dataclasses.replace(
        QUICK, channels=2, iterations=4, counts=(1, 2), reference=2, seeds=(0,), margin=50, betas=3
    )
    lines = []
    experiment = Table2(store, dataclasses.replace(tiny, chains=4), say=lines.append)
    assert experiment.run()
    # Eight chains are too few to measure log Z.
    assert experiment.found()["digits"]["LBP_s-1"] == Least(1, False, 0)
    result = experiment.search.known(Model("digits", "ALBP_s", 2, 0)) or {}
    assert -64 < result["log_likelihood"] < 0
    assert any("LBP_s-1    1 steps, seed 0" in line for line in lines)
    assert any("a data set takes up to" in line for line in lines)
    folder = store.path.parent
    assert not (folder / ebm.CHECKPOINTS).exists()
    shown = sorted(file.name for file in (folder / ebm.PICTURES).iterdir())
    assert shown == [f"ebm-digits_{kind}.png" for kind in ("curves", "long-run", "samples")]


def test_divergence_is_stored_without_the_path_of_its_checkpoint(store):
    wild = dataclasses.replace(QUICK, channels=8, iterations=3_000, rate=1.0, warmup=1_100)
    experiment, model = Table2(store, wild), Model("digits", "LBP_b-1", 1, 0)
    experiment.train(model)
    result = experiment.search.known(model) or {}
    assert result["diverged"]
    assert result["why"].startswith("training diverged at iteration")
    assert "heckpoint" not in result["why"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_keeps_the_checkpoint_and_stores_nothing(store, tmp_path, monkeypatch):
    from hopscale.learn import training

    advance = training._Trainer.advance

    def interrupted(self, iterations):
        advance(self, iterations)
        os.kill(os.getpid(), signal.SIGINT)

    tiny = dataclasses.replace(QUICK, channels=2, iterations=4, betas=3, chains=4)
    experiment, model = Table2(store, tiny), Model("digits", "ALBP_s", 2, 0)
    with monkeypatch.context() as patch:
        patch.setattr(training._Trainer, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            experiment.train(model)
    assert [path.name for path in tmp_path.rglob("*.checkpoint")] == ["step-000000001.checkpoint"]
    assert store.rows("ebm") == []
    experiment.train(model)
    (tmp_path / "other").mkdir()
    with Store(tmp_path / "other" / "results.sqlite") as fresh:
        at_once = Table2(fresh, tiny)
        at_once.train(model)
        results = [one.search.known(model) or {} for one in (experiment, at_once)]
    assert results[0]["log_likelihood"] == results[1]["log_likelihood"]
    assert list((tmp_path / ebm.CHECKPOINTS).iterdir()) == []


def test_ctrl_c_during_the_pictures_stops_too(store, tmp_path, monkeypatch):
    from hopscale.learn import gallery

    sample = gallery.sample

    def cut_short(*arguments, **more):
        return dataclasses.replace(sample(*arguments, **more), interrupted=True)

    monkeypatch.setattr(gallery, "sample", cut_short)
    tiny = dataclasses.replace(QUICK, channels=2, iterations=4, betas=3, chains=4)
    with pytest.raises(KeyboardInterrupt):
        Table2(store, tiny).train(Model("digits", "ALBP_s", 20, 0))
    assert store.rows("ebm") == []
    assert list((tmp_path / ebm.PICTURES).iterdir()) == []
    assert len(list(tmp_path.rglob("*.checkpoint"))) == 1


def test_the_table_is_printed(store, monkeypatch, capsys):
    monkeypatch.setattr(Table2, "run", lambda self: True)
    outcome = ebm.run("quick", store)
    assert outcome.complete
    assert outcome.ran == 0
    out = capsys.readouterr().out
    assert "digits" in out
    assert "not run" in out


@pytest.fixture
def reports(monkeypatch):
    """The folders that reports would have been written to."""
    written = []
    monkeypatch.setattr(report, "write", lambda out, store, profile: written.append(out))
    return written


def test_the_command_stopped_by_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, reports):
    def interrupted(self):
        self.ran = 3
        raise KeyboardInterrupt

    monkeypatch.setattr(Table2, "run", interrupted)
    done = CliRunner().invoke(cli.app, ["reproduce", "ebm", "--out", str(tmp_path)])
    assert done.exit_code == 130
    assert "3 cells run" in done.stdout
    assert "the same command goes on" in done.stderr
    assert reports == [tmp_path]


def test_the_command_reports_though_a_reference_diverged(tmp_path, reports):
    with Store(tmp_path / "results.sqlite") as made:
        made.put(settings(QUICK, Model("digits", "ALBP_s", 20, 0)), {"diverged": True}, kind="ebm")
    done = CliRunner().invoke(cli.app, ["reproduce", "ebm", "--out", str(tmp_path)])
    assert "there is no reference" in str(done.exception)
    assert reports == [tmp_path]


def test_while_models_are_missing_a_reference_that_diverged_does_not_end_the_run(
    store, monkeypatch
):
    store.put(settings(QUICK, Model("digits", "ALBP_s", 20, 0)), {"diverged": True}, kind="ebm")
    monkeypatch.setattr(Table2, "run", lambda self: bool(self._wanted()))
    assert not ebm.run("quick", store).complete


def test_an_unknown_profile_is_refused(store):
    with pytest.raises(ValueError, match="one of quick, full"):
        Table2(store, "huge")
