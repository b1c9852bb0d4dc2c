"""Training and judging a model of Table 2; stopping, and going on."""

import dataclasses
import functools
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from scripted import Scripted, run, threshold
from typer.testing import CliRunner

from hopscale import cli, learn
from hopscale_reproduction import exchange, experiments
from hopscale_reproduction.cells import digest
from hopscale_reproduction.experiments import table2
from hopscale_reproduction.experiments.table2.cells import COLUMNS, PROFILES, TrainingCell
from hopscale_reproduction.experiments.table2.results import paper, steps, summary, trained
from hopscale_reproduction.experiments.table2.search import Search
from hopscale_reproduction.experiments.table2.training import CHECKPOINTS, PICTURES
from hopscale_reproduction.runner import Runner
from hopscale_reproduction.store import Store

RECORDS = Path(__file__).parent.parent.parent / "docs" / "results"
QUICK = PROFILES["quick"]
TINY = dataclasses.replace(
    QUICK, channels=2, iterations=4, counts=(1, 2), reference=2, seeds=(0,), margin=50, betas=3,
    chains=4, buffer=100, components=0, settle=0,
)  # fmt: skip


def train(store, profile, **more):
    """What becomes of the experiment with a profile, and training as usual."""
    return run(store, None, {"quick": profile}, **more)


def test_time_that_is_up_leaves_a_checkpoint(store, capfd):
    endless = dataclasses.replace(TINY, iterations=10_000_000)
    assert not train(store, endless, minutes=0.01).complete
    assert store.rows("ebm") == []
    folder = store.path.parent / CHECKPOINTS
    (left,) = folder.iterdir()
    assert left.name.startswith("digits-sqrt-adaptive-2-0-")
    assert not train(store, endless, minutes=0.0).complete
    assert list(folder.iterdir()) == [left]
    # A profile with other settings does not stumble over it, and leaves none of its own.
    assert train(store, TINY).complete
    assert list(folder.iterdir()) == [left]
    check_trained_and_judged(store, capfd.readouterr().err)


def check_trained_and_judged(store, said):
    """What models of the tiny profile come to."""
    search = Search(TINY, lambda cell: store.get(cell.settings()))
    found = search.fewest("digits", "LBP_s-1")
    assert found is not None
    assert (found.steps, found.above) == (1, 0)
    result = search.find(TrainingCell(TINY, "digits", "ALBP_s", 2, 0)) or {}
    assert -64 < result["log_likelihood"] < 0
    assert (result["reason"], result["crises"]) == ("trained", [])
    lower, value, upper = result["log_z"]
    assert max(abs(value - lower), abs(value - upper)) < 60
    assert result["error"] >= abs(upper - lower) / 2
    assert "LBP_s-1    1 steps, seed 0" in said
    assert "a data set takes up to" not in said  # said of models that take minutes
    shown = sorted(file.name for file in (store.path.parent / PICTURES).iterdir())
    assert shown == [f"ebm-digits_{kind}.png" for kind in ("curves", "long-run", "samples")]


def test_divergence_is_stored_without_the_path_of_its_checkpoint(store, monkeypatch):
    monkeypatch.setattr(learn, "PCD", functools.partial(learn.PCD, limit=1e-7))
    wild = dataclasses.replace(TINY, iterations=100)
    outcome = train(store, wild)
    assert "there is no reference" in outcome.problems[0]
    (result,) = [row["results"] for row in store.rows("ebm")]
    assert result["diverged"]
    assert result["reason"] == "beyond the limit"
    assert result["why"].startswith(f"training diverged at iteration {result['iteration']}, ")
    assert "heckpoint" not in result["why"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_keeps_the_checkpoint_and_stores_nothing(store, tmp_path, monkeypatch):
    from hopscale.learn import trainer

    advance = trainer.Trainer.advance

    def interrupted(self, iterations):
        advance(self, iterations)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(trainer.Trainer, "advance", interrupted)
        runner = Runner(store, "quick")
        (outcome,) = runner.run([table2.experiment({"quick": TINY})])
    assert runner.stopped
    assert not outcome.complete
    assert [path.name for path in tmp_path.rglob("*.checkpoint")] == ["step-000000001.checkpoint"]
    assert store.rows("ebm") == []
    one = dataclasses.replace(TINY, counts=(2,))
    train(store, one)
    (tmp_path / "other").mkdir()
    with Store(tmp_path / "other" / "results.sqlite") as fresh:
        train(fresh, one)
        cell = TrainingCell(one, "digits", "ALBP_s", 2, 0)
        results = [kept.get(cell.settings()) or {} for kept in (store, fresh)]
    assert results[0]["log_likelihood"] == results[1]["log_likelihood"]
    assert not (tmp_path / CHECKPOINTS).exists()


def test_ctrl_c_during_the_pictures_stops_too(store, tmp_path, monkeypatch):
    from hopscale.learn import gallery
    from hopscale.runs.host import Interrupted

    def cut_short(*arguments, **more):
        raise Interrupted("stopped by Ctrl-C")

    monkeypatch.setattr(gallery, "sample", cut_short)
    runner = Runner(store, "quick")
    runner.run([table2.experiment({"quick": TINY})])
    assert runner.stopped
    assert store.rows("ebm") == []
    assert list((tmp_path / PICTURES).iterdir()) == []
    assert len(list(tmp_path.rglob("*.checkpoint"))) == 1


def test_the_papers_table_is_beside_ours(store):
    assert [paper()["omniglot", column] for column in COLUMNS] == [100, 60, 30, 5]
    assert len(paper()) == 16
    full = PROFILES["paper"]
    assert set(paper().values()) <= set(full.counts)
    assert summary(full, lambda cell: None).row_count == 8
    assert summary(QUICK, lambda cell: None).row_count == 5  # ours on digits, the paper's four
    found = steps(Search(QUICK, lambda cell: None))
    assert [item.data for item in found[:: len(COLUMNS)]] == ["digits", *full.data]


def test_keys_are_those_of_the_results_on_record():
    cell = TrainingCell(QUICK, "digits", "LBP_b-1", 1, 0)
    assert cell.settings() == {
        "experiment": "ebm", "network": "mlp", "channels": 64, "iterations": 2_000, "rate": 1e-3,
        "warmup": 200, "average": 0.99, "buffer": 1_000, "precision": "default", "start": "he",
        "chains": 100, "betas": 500, "repeats": 2, "resample": 0.0, "components": 20,
        "settle": 500, "data": "digits", "steps": 1, "seed": 0, "balance": "barker",
        "variant": "fixed-1", "revision": {"table2": 2},
    }  # fmt: skip
    assert digest(cell.settings()).startswith("190049e489224dcc")


def test_models_of_the_first_revision_are_read_and_not_judged_by(store):
    """They stopped in their first crisis, and trained by another protocol."""
    exchange.read(store, RECORDS / "table2.csv")
    first = [row for row in store.rows("ebm") if "revision" not in row["settings"]]
    assert len(first) == 98
    old = {json.dumps(row["results"], sort_keys=True) for row in first}
    search = Search(PROFILES["paper"], lambda cell: store.get(cell.settings()))
    found = [one.results for one in trained(search)]
    assert found
    assert not any(json.dumps(results, sort_keys=True) in old for results in found)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """`hopscale reproduce table2` with a procedure in place of training, and nothing else."""

    def reproduce(procedure, *more):
        only = (table2.experiment(procedure=procedure),)
        monkeypatch.setattr(experiments, "EXPERIMENTS", only)
        return CliRunner().invoke(cli.app, ["reproduce", *more, "--out", str(tmp_path)])

    return reproduce


@pytest.mark.parametrize("name", ["table2", "ebm"])
def test_the_command_prints_the_table(command, name):
    done = command(Scripted(threshold(LBP_b1=8)), name)
    assert done.exit_code == 0, done.output
    assert "Table 2: least number of steps" in done.stdout
    assert "digits" in done.stdout


def test_the_command_stopped_by_ctrl_c_says_how_to_go_on(command, tmp_path):
    class Interrupted(Scripted):
        def run(self, cell, context):
            if len(self.trained) == 3:
                raise KeyboardInterrupt
            return super().run(cell, context)

    done = command(Interrupted(threshold()), "table2")
    assert done.exit_code == 130
    assert "3 cells run" in done.stdout
    assert "the same command goes on" in done.stderr
    assert (tmp_path / "report.md").exists()


def test_the_command_reports_though_a_reference_diverged(command, tmp_path):
    done = command(Scripted(lambda column, steps: None), "table2")
    assert "there is no reference" in str(done.exception)
    assert "no reference to judge by" in (tmp_path / "report.md").read_text()
