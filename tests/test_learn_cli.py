"""Training and evaluating energy-based models from the command line."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import hopscale as hs
from hopscale import cli
from hopscale.cli.evaluate import EVALUATION
from hopscale.learn import checkpoint, estimation, log_weights, measure, networks, trainer

RUN = CliRunner()
TINY = ["--data", "digits", "--network", "mlp", "--channels", "4", "--steps", "2", "--batch", "10"]
TINY += ["--buffer", "60", "--long-run", "4", "--every", "10"]
SHORT = ["--chains", "4", "--betas", "5", "--sides", "1"]


def train(out, *more):
    return RUN.invoke(cli.app, ["train", "ebm", "--out", str(out), *TINY, *more])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "ebm"
    done = train(out, "--iterations", "20")
    assert done.exit_code == 0, done.output
    assert "EBM on digits" in done.output
    return out


def test_training_leaves_checkpoints_and_pictures(folder):
    files = {path.name for path in folder.iterdir()}
    pictures = {"curves.png", "samples.png", "long-run.png"}
    assert files == {"step-000000010.checkpoint", "step-000000020.checkpoint", *pictures}
    assert all((folder / name).stat().st_size > 2_000 for name in pictures)


def test_training_resumes(folder, tmp_path):
    for path in checkpoint.paths(folder):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    done = train(tmp_path, "--iterations", "30", "--resume", "--long-run", "0")
    assert done.exit_code == 0, done.output
    assert train(tmp_path / "whole", "--iterations", "30", "--long-run", "0").exit_code == 0
    a, b = checkpoint.latest(tmp_path), checkpoint.latest(tmp_path / "whole")
    assert a.about == b.about
    assert a.about["step"] == 30
    assert all(np.array_equal(a.arrays[name], b.arrays[name]) for name in a.arrays)


def test_a_run_resumes_in_the_precision_that_it_has(tmp_path, monkeypatch):
    """Another machine may have another default."""
    fast = ["--network", "cnn", "--channels", "2", "--long-run", "0"]
    monkeypatch.setattr(networks, "fastest_precision", lambda *_: "bfloat16")
    assert train(tmp_path, *fast, "--iterations", "3").exit_code == 0
    monkeypatch.setattr(networks, "fastest_precision", lambda *_: "default")
    done = train(tmp_path, *fast, "--iterations", "5", "--resume")
    assert done.exit_code == 0, done.output
    assert checkpoint.latest(tmp_path).about["notes"]["precision"] == "bfloat16"
    asked = train(tmp_path, *fast, "--iterations", "6", "--resume", "--precision", "default")
    assert 'precision "bfloat16", not "default"' in str(asked.exception)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_writes_a_checkpoint_and_says_how_to_go_on(tmp_path, monkeypatch, capfd, as_json):
    advance = trainer.Trainer.advance

    def interrupted(self, iterations):
        advance(self, iterations)
        if self.done >= 13:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(trainer.Trainer, "advance", interrupted)
    more = ["--json"] if as_json else []
    done = train(tmp_path / "run", "--iterations", "100000", "--every", "100000", *more)
    assert done.exit_code == 130
    said = done.stderr + capfd.readouterr().err
    step = checkpoint.latest(tmp_path / "run").about["step"]
    assert f"stopped after iteration {step}" in said
    assert "--resume goes on" in said
    assert 13 <= step < 100_000
    if as_json:
        result = json.loads(done.stdout)
        assert (result["interrupted"], result["iterations"]) == (True, step)
    else:
        assert "EBM on digits" in done.stdout


def test_time_ends_training(tmp_path):
    done = train(tmp_path, "--iterations", "1000000000", "--minutes", "0.001", "--every", "1000000")
    assert done.exit_code == 0, done.output
    assert len(checkpoint.paths(tmp_path)) == 1


def test_evaluation_is_one_object(folder):
    options = [*SHORT, "--repeats", "2", "--split", "test", "--json"]
    done = RUN.invoke(cli.app, ["evaluate", str(folder), *options])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["iterations"] == 20
    assert (result["chains"], result["resample"]) == (8, 0.0)
    assert -64 < result["test_log_likelihood"] < 0
    assert {"log_z", "log_z_error", "effective_chains", "seconds"} <= set(result)
    # Eight chains are fewer than the ten it takes, however equal their weights.
    assert result["reliable"] is False
    assert "not a measurement" in result["warning"]
    assert "of 8 chains are effective, and 10 are needed" in result["warning"]
    assert done.stderr == f"hopscale: {result['warning']}\n"


def test_an_evaluation_can_resample(folder):
    options = [*SHORT, "--repeats", "2", "--split", "none", "--json"]
    done = RUN.invoke(cli.app, ["evaluate", str(folder), *options, "--resample", "0.9"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["resample"] == 0.9


def test_an_evaluation_with_enough_chains_has_no_warning(folder):
    options = ["--chains", "20", "--betas", "50", "--repeats", "1", "--split", "valid"]
    options += ["--components", "2", "--settle", "4"]
    as_json = RUN.invoke(cli.app, ["evaluate", str(folder), *options, "--json"])
    result = json.loads(as_json.output)
    assert result["log_z_lower"] - 1 < result["log_z"] < result["log_z_upper"] + 1
    assert (result["reliable"], result["warning"]) == (True, None)
    table = RUN.invoke(cli.app, ["evaluate", str(folder), *options])
    assert "NOT MEASURED" not in table.output
    assert "from below, from above" in table.output
    assert table.stderr == ""


def test_ctrl_c_during_an_evaluation_shows_what_was_done(folder, monkeypatch):
    from hopscale.learn import annealing

    anneal = annealing.anneal

    def interrupted(*arguments):
        if interrupted.calls == 4:  # in the third repeat of a chunk each, after the pilot
            os.kill(os.getpid(), signal.SIGINT)
        interrupted.calls += 1
        return anneal(*arguments)

    start = annealing.start

    def starts(*arguments):
        starts.calls += 1
        return start(*arguments)

    interrupted.calls, starts.calls = 1, 0
    monkeypatch.setattr(annealing, "anneal", interrupted)
    monkeypatch.setattr(annealing, "start", starts)
    options = [*SHORT, "--repeats", "4", "--split", "none", "--json"]
    done = RUN.invoke(cli.app, ["evaluate", str(folder), *options, "--resume"])
    assert done.exit_code == 130
    (finished,) = re.findall(r"stopped after (\d) of 4 repeats; the same command", done.stderr)
    assert json.loads(done.stdout)["chains"] == 4 * int(finished)
    assert 1 <= int(finished) <= 3  # by how long a chunk takes
    done = RUN.invoke(cli.app, ["evaluate", str(folder), *options, "--resume"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["chains"] == 16
    assert starts.calls in (5, 6)  # the pilot and four repeats; only one cut short begins again
    (folder / EVALUATION).unlink()


def test_ctrl_c_before_the_first_repeat_has_nothing_to_show(folder, monkeypatch):
    from hopscale.learn import annealing

    anneal = annealing.anneal

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return anneal(*arguments)

    monkeypatch.setattr(annealing, "anneal", interrupted)
    options = [*SHORT, "--split", "none", "--json"]
    done = RUN.invoke(cli.app, ["evaluate", str(folder), *options])
    assert (done.exit_code, done.stdout) == (130, "")
    assert "nothing is estimated yet" in done.stderr


TWO_SIDES = ["--chains", "4", "--betas", "5", "--components", "2", "--settle", "4"]
TWO_SIDES += ["--split", "none", "--json"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("back", [0, 1])
def test_one_side_of_two_is_not_a_measurement(folder, monkeypatch, back):
    advance = estimation.Estimation.advance

    def interrupted(job, steps):
        advance(job, steps)
        if job.repeats_done == [2, back]:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(estimation.Estimation, "advance", interrupted)
    monkeypatch.setattr(log_weights, "NEEDED_CHAINS", 1)  # then one side alone would do
    monkeypatch.setattr(log_weights, "NEEDED_SHARE", 0)
    done = RUN.invoke(cli.app, ["evaluate", str(folder), *TWO_SIDES, "--repeats", "2"])
    assert done.exit_code == 130
    assert f"stopped after 2 of 2 repeats to the model and {back} of 2 back\n" in done.stderr
    result = json.loads(done.stdout)
    assert result["interrupted"] is True
    assert (result["log_z_upper"] is None) == (back == 0)
    if not back:
        assert result["reliable"] is False
        assert "before any chains had walked back" in result["warning"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_while_samples_settle_has_nothing_to_show(folder, monkeypatch):
    def interrupted(*_):
        raise hs.Interrupted("stopped", "chains")

    monkeypatch.setattr(measure, "settled", interrupted)
    done = RUN.invoke(cli.app, ["evaluate", str(folder), *TWO_SIDES])
    assert (done.exit_code, done.stdout) == (130, "")
    assert "nothing is estimated yet" in done.stderr


def test_repeats_from_two_sides_go_on_as_they_began(folder, monkeypatch):
    """Their number decides at which samples chains start."""
    command = ["evaluate", str(folder), *TWO_SIDES, "--resume"]
    begun = RUN.invoke(cli.app, [*command, "--repeats", "1"])
    assert begun.exit_code == 0, begun.output
    again = RUN.invoke(cli.app, [*command, "--repeats", "1"])
    numbers = [json.loads(done.stdout) for done in (begun, again)]
    assert numbers[0] | {"seconds": 0} == numbers[1] | {"seconds": 0}
    assert numbers[0]["interrupted"] is False
    monkeypatch.setattr(measure, "settled", None)  # refused before that
    for other in (["--repeats", "2"], ["--repeats", "1", "--chains", "5"]):
        done = RUN.invoke(cli.app, [*command, *other])
        assert "another number of chains or of repeats (--chains, --repeats)" in str(done.exception)
    (folder / EVALUATION).unlink()


def test_more_chains_than_half_the_buffer_are_refused(folder):
    done = RUN.invoke(cli.app, ["evaluate", str(folder), "--split", "none"])  # 100 chains
    assert "--chains must be at most 30" in str(done.exception)
    assert "replay buffer, which holds 60 states; got 100" in str(done.exception)


def test_images_of_another_shape_fail_before_annealing(folder, monkeypatch):
    from hopscale import data
    from hopscale.learn import annealing

    other = data.DataSet("others", *[np.zeros((3, 5, 5), np.int8)] * 3)
    monkeypatch.setattr(data, "load", lambda name, directory: other)
    monkeypatch.setattr(annealing, "start", None)  # it would fail
    done = RUN.invoke(cli.app, ["evaluate", str(folder), "--data", "others"])
    assert done.exit_code != 0
    assert "others has images of shape (5, 5)" in str(done.exception)


def test_evaluation_is_a_table(folder):
    options = [*SHORT, "--repeats", "1", "--weights", "last"]
    last = checkpoint.paths(folder)[-1]
    done = RUN.invoke(cli.app, ["evaluate", str(last), "--split", "none", *options])
    assert done.exit_code == 0, done.output
    assert "log Z" in done.output
    assert "NOT MEASURED" in done.output


def test_scales_are_adaptive_for_some_rate_or_fixed():
    from hopscale.cli.ebm import _tuner

    assert _tuner("tuned") is None
    assert _tuner("tuned:0.3") == hs.Tuned(0.3)
    assert _tuner("adaptive") == hs.Adaptive()
    assert _tuner("adaptive:0.3") == hs.Adaptive(0.3)
    assert _tuner("2.5") == hs.Fixed(2.5)
    for wrong in ("adaptive:2", "adaptive:x", "none", "0.5", "either:0.5"):
        with pytest.raises(ValueError, match="adaptive:RATE"):
            _tuner(wrong)


@pytest.mark.parametrize("command", [["train", "ebm"], ["evaluate"]])
def test_help_names_the_scales_that_are_understood(command):
    said = " ".join(
        re.sub("[│╭╮╰╯─]", " ", RUN.invoke(cli.app, [*command, "--help"]).output).split()
    )
    assert "tuned, tuned:RATE, adaptive[:RATE], or a fixed R" in said
    assert "either" not in said


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")  # a short run
def test_a_trained_model_is_a_target(folder):
    few = ["--chains", "4", "--warmup", "5", "--draws", "5", "--json"]
    done = RUN.invoke(cli.app, ["sample", "ebm", "--model", str(folder), *few])
    assert done.exit_code == 0, done.output
    result = json.loads(done.output)
    assert (result["target"], result["size"], result["config"]) == ("ebm", 64, None)


def test_wrong_arguments_say_what_is_right(folder, tmp_path):
    def fails(*arguments):
        done = RUN.invoke(cli.app, arguments)
        assert done.exit_code != 0
        return str(done.exception) + done.output

    new = ["train", "ebm", "--out", str(tmp_path / "new"), "--data", "digits"]
    assert "resnet, cnn or mlp" in fails(*new, "--network", "vit")
    assert "adaptive:RATE" in fails(*new, "--scale", "wide")
    assert "--long-run must be at least 0" in fails(*new, "--long-run", "-5")
    assert not (tmp_path / "new").exists()
    assert "setting of lbp, gwg and dmala" in fails(*new, "--sampler", "rwm", "--balance", "sqrt")
    assert "one of digits" in fails("train", "ebm", "--out", "x", "--data", "mnist")
    assert "there is no checkpoint" in fails(*new, "--network", "mlp", "--resume")
    assert "resume it, or give another" in fails("train", "ebm", "--out", str(folder), *TINY)
    again = ["train", "ebm", "--out", str(folder), *TINY, "--resume", "--iterations", "30"]
    assert 'precision "default", not "highest"' in fails(*again, "--precision", "highest")
    assert "channels 4, not 5" in fails(*again, "--channels", "5")
    assert "average or last" in fails("evaluate", str(folder), "--weights", "first")
    assert "[0, 1]; got 1.5" in fails("evaluate", str(folder), "--resample", "1.5", "--sides", "1")
    assert "got 'bogus'" in fails("evaluate", str(folder), "--split", "valid, bogus")
    assert "--sides must be 1 or 2" in fails("evaluate", str(folder), "--sides", "3")
    assert "no checkpoint or directory" in fails("evaluate", str(tmp_path / "none"))
    assert "Missing option '--model'" in fails("sample", "ebm")
    assert "No such option: --model" in fails("sample", "ising", "--model", str(folder))


def test_a_missing_file_is_one_line_and_exit_code_2(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hopscale", "evaluate", str(tmp_path / "none")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("hopscale: there is no checkpoint or directory")
