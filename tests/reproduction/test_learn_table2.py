"""The experiment of Table 2: training, judging, stopping."""

import dataclasses
import os
import signal
import sys

import pytest
from typer.testing import CliRunner

from hopscale import cli
from hopscale_reproduction import ebm, report
from hopscale_reproduction.ebm import Table2
from hopscale_reproduction.least import COLUMNS, PROFILES, Least, Model, settings
from hopscale_reproduction.store import Store

QUICK = PROFILES["quick"]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as made:
        yield made


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
