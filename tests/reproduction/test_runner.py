"""Experiments from the command: run, stopped, killed, gone on with, read."""

import inspect
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

import hopscale as hs
from hopscale import cli
from hopscale.paper import instances
from hopscale_reproduction import cli as commands
from hopscale_reproduction import experiments, runner, schedule
from hopscale_reproduction.cells import digest, table_cell
from hopscale_reproduction.experiment import Experiment
from hopscale_reproduction.experiments import EXPERIMENTS, finite, named
from hopscale_reproduction.experiments.near_fair import RATES, best_rate
from hopscale_reproduction.experiments.sampling import plan
from hopscale_reproduction.experiments.sampling.sources import best_of
from hopscale_reproduction.runner import Runner
from hopscale_reproduction.store import Store

RUN = CliRunner()
TINY = {"chains": 4, "warmup": 20, "draws": 30}


def tiny(seeds=(0, 1), name="tiny"):
    """Cells of one shape: to compile a program takes longer than to run it."""

    def cells(profile, find):
        for seed in seeds:
            single = table_cell("bernoulli", 20, "C2", "lbp", "barker", seed=seed, **TINY)
            yield single
            yield from plan.grid(single, 0.3, find)

    return Experiment(name=name, title="Tiny", cells=cells)


def many(count):
    """Cells that share one program."""
    first = table_cell("bernoulli", 20, "C2", "lbp", "barker", **TINY)
    return Experiment(
        name="many",
        title="Many",
        cells=lambda profile, find: [first.but(seed=i) for i in range(count)],
    )


def test_what_is_missing_is_run_once(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        first = Runner(store, "quick").run([tiny()])[0]
        assert first.complete
        assert first.ran == first.cells == len(store.rows())
        assert first.cells > 4  # the grid came after R = 1
        again = Runner(store, "quick").run([tiny()])[0]
        assert (again.ran, again.complete) == (0, True)
        more = Runner(store, "quick").run([tiny((0, 1, 2))])[0]
        assert more.ran == more.cells - first.cells


def test_results_do_not_depend_on_what_ran_before(tmp_path):
    with Store(tmp_path / "a.sqlite") as one, Store(tmp_path / "b.sqlite") as two:
        Runner(one, "quick").run([tiny((0, 1))])
        Runner(two, "quick").run([tiny((1,)), tiny((0,))])
        for row in one.rows():
            assert two.get(row["settings"])["ejd"] == pytest.approx(row["results"]["ejd"])  # pyright: ignore


def test_long_and_short_batches_take_turns():
    cell = table_cell("bernoulli", 20, "C2", "lbp", "barker", **TINY)
    batches = [[cell.but(size=size)] for size in (30, 10, 50, 20, 40)]
    assert [batch[0].size for batch in schedule.in_turns(batches)] == [50, 10, 40, 20, 30]
    assert schedule.in_turns([]) == []


def one_by_one(monkeypatch):
    """Batches of a cell each, whose results take long to sum up."""
    from hopscale_reproduction import batch

    monkeypatch.setitem(batch.SITES, "cpu", 1)
    usual = batch.Batch.results

    def slow(self):
        time.sleep(0.2)
        return usual(self)

    monkeypatch.setattr(batch.Batch, "results", slow)
    return batch.Batch


def test_what_was_run_is_kept_when_the_next_cannot_be_compiled(tmp_path, monkeypatch):
    ran, kind = [], one_by_one(monkeypatch)

    def broken(cells, size):
        if len(ran) >= 4:
            raise MemoryError("no room")
        ran.append(cells)
        return kind(cells, size)

    monkeypatch.setattr(schedule, "Batch", broken)
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(MemoryError, match="no room"):
            Runner(store, "quick").run([many(8)])
        assert len(store.rows("run")) == 4


def test_what_was_run_is_kept_when_one_cannot_be_summed_up(tmp_path, monkeypatch):
    kind = one_by_one(monkeypatch)
    usual = kind.results

    def broken(self):
        found = usual(self)
        if self.cells[0].seed == 3:  # the second to run, after the first
            raise ArithmeticError("not a number")
        return found

    monkeypatch.setattr(kind, "results", broken)
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(ArithmeticError, match="not a number"):
            Runner(store, "quick").run([many(4)])
        kept = {row["settings"]["seed"] for row in store.rows("run")}
        assert 0 in kept
        assert 3 not in kept


def test_a_program_that_takes_long_to_compile_does_not_hold_up_others(tmp_path, monkeypatch):
    """The first is not compiled before all others have run."""
    kind, ran, others = one_by_one(monkeypatch), [], threading.Event()

    class Slow(kind):
        def __init__(self, cells, size):
            if cells[0].seed == 0 and not others.wait(60):
                raise TimeoutError("the others wait for the first")
            super().__init__(cells, size)

        def run(self, tick):
            ran.append(self.cells[0].seed)
            if len(ran) == 3:
                others.set()
            return super().run(tick)

    monkeypatch.setattr(schedule, "Batch", Slow)
    monkeypatch.setitem(schedule.AHEAD, "cpu", 2)
    monkeypatch.setattr(schedule, "_cores", lambda: 2)
    with Store(tmp_path / "s.sqlite") as store:
        assert Runner(store, "quick").run([many(4)])[0].complete
    assert sorted(ran[:3]) == [1, 2, 3]
    assert ran[3:] == [0]


def test_what_results_ask_for_does_not_wait_for_the_other_batches(tmp_path, monkeypatch):
    """Of five cells each has a grid: the first grids come before the last cells are summed up."""
    one_by_one(monkeypatch)
    rounds, usual = [], schedule.Batches.run

    def counted(self, cells):
        rounds.append(len(cells))
        return usual(self, cells)

    monkeypatch.setattr(schedule.Batches, "run", counted)
    with Store(tmp_path / "s.sqlite") as store:
        outcome = Runner(store, "quick").run([tiny(range(5))])[0]
        assert outcome.complete
    assert rounds[0] == 5
    assert sum(rounds[1:]) < outcome.cells - 5  # some of the grids' cells came in the first round


def test_time_can_be_limited(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        outcome = Runner(store, "quick", minutes=0).run([tiny()])[0]
        assert (outcome.ran, outcome.complete) == (0, False)


def test_cells_claimed_by_another_process_are_waited_for(tmp_path, monkeypatch):
    """The other process finishes its cell while this one waits: nothing is run twice."""
    with Store(tmp_path / "s.sqlite") as mine, Store(tmp_path / "s.sqlite", owner="x:1") as other:
        theirs = table_cell("bernoulli", 20, "C2", "lbp", "barker", **TINY)
        other.claim([digest(theirs.settings())])
        only = Experiment(name="only", title="Only", cells=lambda profile, find: [theirs])
        results = {"acceptance": 0.9, "ejd": 1.0}
        monkeypatch.setattr(
            runner.time, "sleep", lambda seconds: other.put(theirs.settings(), results)
        )
        outcome = Runner(mine, "quick").run([only])[0]
        assert (outcome.ran, outcome.complete) == (1, True)  # by the other process


def test_names_and_groups():
    assert [e.name for e in named(["table1"])] == ["bernoulli", "ising", "fhmm"]
    assert named(["all"]) == list(EXPERIMENTS)
    assert named(["default"], "quick") == list(EXPERIMENTS)
    default = [e.name for e in named(["default"], "paper")]
    assert default == [e.name for e in EXPERIMENTS if e.name not in ("rbm", "table2")]
    earlier = named(["luck", "kept", "fit", "fair", "ebm"])
    assert [e.name for e in earlier] == ["instances", "lengths", "weights", "near-fair", "table2"]
    with pytest.raises(ValueError, match="no experiment 'isng'; choose from table1"):
        named(["isng"])


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_cells_of_an_experiment_can_be_built(profile):
    for experiment in EXPERIMENTS:
        done = {"acceptance": 0.9, "diverged": True, "ejd": 1.0, "ess": 1.0}
        done |= {"ejd_error": 0.1, "ess_error": 0.1}
        cells: list[Any] = list(experiment.cells(profile, lambda cell, done=done: done))
        assert len(set(cells)) == len(cells) or experiment.name == "readings"
        runs = [cell for cell in cells if cell.kind == "run"]
        for cell in runs[:: max(1, len(runs) // 3)]:
            if cell.size <= 100 or cell.model == "rbm":
                assert cell.make_target().num_sites > 0
                cell.make_kernel()


def test_the_grid_goes_down_in_steps_from_the_rate_at_one():
    single = table_cell("bernoulli", 100, "C2", "lbp", "barker")
    assert plan.grid(single, 0.02, lambda cell: None) == []
    rates = [c.rate or 0 for c in plan.grid(single, 0.02, lambda cell: {"acceptance": 0.99})]
    np.testing.assert_allclose(rates, 0.99 - 0.02 * np.arange(1, 49), atol=1e-9)
    assert min(rates) >= 0.03


@pytest.mark.parametrize("top", [0.05, 0.234, 0.574, 0.9])
def test_few_rates_decide_the_best(top):
    """Those that are asked for after each other end at the top of a curve that has one."""
    single = table_cell("bernoulli", 100, "C2", "lbp", "barker")
    results = {single: {"acceptance": 0.99}}
    row = plan.grid(single, 0.02, results.get)
    strides = plan.PLANS["paper"].strides
    while asked := [
        c for c in plan.grid(single, 0.02, results.get, strides=strides) if c not in results
    ]:
        for cell in asked:
            value = 1.0 - (cell.rate - top) ** 2
            results[cell] = {"ejd": value, "ess": value, "ejd_error": 0.0, "ess_error": 0.0}
    done = [(cell, results.get(cell)) for cell in row]
    ((best, _),) = best_of(done, "ejd")
    assert best == min(row, key=lambda cell: abs(cell.rate - top))
    assert len(results) - 1 < 0.35 * len(row)


def test_the_papers_grid_has_all_cells():
    """Three sizes, three configurations, five samplers: R = 1 and adaptive."""
    for model in ("bernoulli", "ising", "fhmm"):
        cells = [c for c in plan.cells(model, "paper", lambda c: None) if c.instance == 0]
        assert len(cells) == 3 * 3 * 5 * 2
        lengths = {c.warmup + c.draws for c in cells}
        assert lengths == {10_000, 40_000, 100_000}
        assert {c.chains for c in cells} == {100}


@pytest.mark.parametrize("path", ["reversed", "same"])
def test_rates_from_exact_draws_are_the_samplers(path):
    """A draw's standard error is at most 0.0025."""
    p, n = 0.2, 40
    target = instances.identical(n, p)
    for scale in (1, 6):
        run = hs.sample(
            target, hs.LBP("sqrt", path), chains=200, warmup=300, draws=1500,
            scale=hs.Fixed(scale), progress=False, key=1,
        )  # fmt: skip
        error = run.accept_prob_by_chain.std() / np.sqrt(200)
        found = finite.acceptance_rate(n, p, scale, path)
        assert abs(found - run.acceptance) < 4 * np.hypot(0.0025, error)
    other = "same" if path == "reversed" else "reversed"
    assert (
        abs(finite.acceptance_rate(n, p, 6, other) - finite.acceptance_rate(n, p, 6, path)) > 0.01
    )


def test_sites_needed_grow_as_the_paper_says():
    near_zero = [finite.sites_needed(p, finite.ZERO, "reversed") for p in (0.02, 0.01)]
    assert near_zero[1] / near_zero[0] == pytest.approx(2.0, rel=0.1)
    near_half = [finite.sites_needed(0.5 - e, finite.HALF, "reversed") for e in (0.1, 0.05)]
    assert near_half[1] / near_half[0] == pytest.approx(4.0, rel=0.2)


def test_the_best_rate_is_the_top_of_the_curve():
    """The theory's curve, whose top is at 0.234."""
    rates = np.asarray(RATES)
    scale = norm.ppf(rates / 2) ** 2
    assert best_rate(rates, scale * rates) == pytest.approx(0.234, abs=0.004)
    assert best_rate(rates, np.exp(-((rates - 0.3) ** 2))) == pytest.approx(0.3, abs=0.001)


def test_wrong_arguments_say_what_is_right(tmp_path):
    def fails(*arguments):
        done = RUN.invoke(cli.app, list(arguments))
        assert done.exit_code != 0
        return str(done.exception) + done.output

    out = ["--out", str(tmp_path)]
    assert "no experiment 'isng'" in fails("reproduce", "isng", *out)
    assert "quick or paper" in fails("reproduce", "--profile", "slow", *out)
    (tmp_path / "file").write_text("")
    assert "there is a file of that name" in fails(
        "reproduce", "finite", "--out", str(tmp_path / "file")
    )
    assert "there is no" in fails("report", *out)
    assert "there is no" in fails("results", "export", str(tmp_path / "x.csv"), *out)
    assert "there is no" in fails("results", "import", str(tmp_path / "x.csv"), *out)


def test_help_names_every_choice():
    (argument,) = inspect.signature(commands.reproduce).parameters["names"].annotation.__metadata__
    named = argument.help.partition("[")[0]
    assert set(re.findall(r"[\w-]+", named)) == set(experiments.choices())


def test_a_report_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "EXPERIMENTS", (tiny((0,)),))
    out = tmp_path / "new" / "results"
    for cells in ("3 cells run", "0 cells run"):
        done = RUN.invoke(cli.app, ["reproduce", "tiny", "--out", str(out)])
        assert done.exit_code == 0, done.output
        assert cells in done.output
    done = RUN.invoke(cli.app, ["reproduce", "tiny", "--out", str(out), "--json"])
    told = json.loads(done.stdout)
    assert (told["cells"], told["report"]) == (0, str(out / "report.html"))
    assert told["claims"] == []
    done = RUN.invoke(cli.app, ["report", "--out", str(out), "--json"])
    assert json.loads(done.stdout)["markdown"] == str(out / "report.md")
    assert "<html" in (out / "report.html").read_text()
    assert "In short" in (out / "report.md").read_text()
    done = RUN.invoke(cli.app, ["results", "export", str(tmp_path / "x.csv"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "results.ejd" in (tmp_path / "x.csv").read_text()


SCRIPT = """
import sys
from hopscale.paper import instances
from hopscale_reproduction import experiments
sys.path.insert(0, sys.argv.pop(1))
import test_runner as tests
experiments.EXPERIMENTS = (tests.many(3000),)
from hopscale import cli
from hopscale_reproduction import batch
batch.SITES["cpu"] = 1  # a cell a batch
cli.main()
"""


def start(out):
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    command = [sys.executable, "-c", SCRIPT, here, "reproduce", "many", "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_cells(path, count):
    for _ in range(600):
        time.sleep(0.1)
        if path.exists():
            try:
                with sqlite3.connect(path) as found:
                    if found.execute("SELECT count(*) FROM cells").fetchone()[0] >= count:
                        return
            except sqlite3.OperationalError:
                pass  # just being made
    raise AssertionError("no cells came")


def test_ctrl_c_keeps_what_was_run_and_says_how_to_go_on(tmp_path):
    running = start(tmp_path)
    wait_for_cells(tmp_path / "results.sqlite", 3)
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=120)
    assert running.returncode == 130, error
    assert "the same command goes on" in error
    with Store(tmp_path / "results.sqlite") as store:
        assert len(store.rows("run")) >= 3


def test_a_killed_run_goes_on(tmp_path):
    running = start(tmp_path)
    wait_for_cells(tmp_path / "results.sqlite", 3)
    running.kill()
    running.communicate()
    with Store(tmp_path / "results.sqlite") as store:
        before = store.rows("run")
        assert len(before) < 3000
        count = len(before) + 5
        missing = set(range(count)) - {row["settings"]["seed"] for row in before}
        outcome = Runner(store, "quick").run([many(count)])[0]
        assert (outcome.ran, outcome.complete) == (len(missing), True)
        assert store.rows("run")[: len(before)] == before
