"""The command line as a person would use it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from hopscale import cli

RUN = CliRunner()
QUICK = ["--chains", "4", "--warmup", "10", "--draws", "20"]


def fails(*arguments):
    done = RUN.invoke(cli.app, ["sample", *arguments])
    assert done.exit_code != 0
    return str(done.exception) + done.output


def test_help_names_the_commands():
    done = RUN.invoke(cli.app, ["--help"])
    assert done.exit_code == 0
    for command in ("sample", "reproduce", "train", "bench", "info"):
        assert command in done.output


@pytest.mark.parametrize("target", ["bernoulli", "ising", "fhmm"])
@pytest.mark.parametrize("sampler", ["lbp", "rwm"])
def test_json_is_one_object(target, sampler):
    done = RUN.invoke(
        cli.app,
        ["sample", target, "--size", "10", "--sampler", sampler, *QUICK, "--json"],
    )
    assert done.exit_code == 0, done.output
    result = json.loads(done.output)
    needed = "target sampler scale acceptance ejd ess ess_per_draw steps_per_second seconds"
    assert set(needed.split()) <= set(result)
    assert (result["target"], result["sampler"], result["draws"]) == (target, sampler, 20)


def test_table_is_printed():
    done = RUN.invoke(cli.app, ["sample", "ising", "--size", "5", "--sampler", "gwg", *QUICK])
    assert "Ising (5 x 5) by GWG" in done.output


def test_states_are_saved(tmp_path):
    file = tmp_path / "draws.npz"
    save = ["--save", str(file), "--keep", "5"]
    done = RUN.invoke(cli.app, ["sample", "bernoulli", "--size", "9", *QUICK, *save])
    assert done.exit_code == 0, done.output
    assert np.load(file)["draws"].shape == (4, 4, 9)
    assert [f.name for f in tmp_path.iterdir()] == ["draws.npz"]


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    file, states = tmp_path / "run.hop", tmp_path / "draws.npz"
    command = ["sample", "bernoulli", "--size", "9", *QUICK, "--keep", "5"]
    begin = [*command, "--checkpoint", str(file), "--save", str(states)]
    assert RUN.invoke(cli.app, begin).exit_code == 0
    before = np.load(states)["draws"]
    assert "--resume, or give another file" in str(RUN.invoke(cli.app, begin[:-2]).exception)
    done = RUN.invoke(cli.app, [*begin, "--resume", "--overwrite"])
    assert done.exit_code == 0, done.output
    after = np.load(states)["draws"]
    assert after.shape == (4, 8, 9)
    np.testing.assert_array_equal(after[:, :4], before)
    longer = tmp_path / "longer.npz"  # of a run that was that long from the start
    RUN.invoke(cli.app, [*command, "--draws", "40", "--save", str(longer)])
    np.testing.assert_array_equal(after, np.load(longer)["draws"])


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    file = tmp_path / "run.hop"
    own = ["bernoulli", "--size", "9", *QUICK]
    again = ["--resume", "--checkpoint", str(file)]
    assert "give --checkpoint too" in fails(*own, "--resume")
    assert "to go on from" in fails(*own, *again)
    assert RUN.invoke(cli.app, ["sample", *own, "--checkpoint", str(file)]).exit_code == 0
    assert "seed" not in fails(*own, *again, "--config", "C3")
    assert "is of another run" in fails(*own, *again, "--config", "C3")
    assert "is of another run" in fails(*own, *again, "--seed", "3")
    file.write_bytes(file.read_bytes()[:100])
    assert "damaged" in fails(*own, *again)


def test_wrong_arguments_say_what_is_right(tmp_path):
    assert "one of bernoulli, ising, fhmm" in fails("isng")
    assert "lbp, gwg, rwm, gibbs" in fails("ising", "--sampler", "mala")
    assert "C1, C2, C3" in fails("ising", "--config", "C4")
    assert "setting of bernoulli" in fails("ising", "--spacing", "even")
    assert "R = 99 for 25 sites" in fails("ising", "--size", "5", "--scale", "99")
    assert "setting of gwg, not of lbp" in fails("ising", "--repeats", "once")
    assert "setting of lbp and gwg, not of rwm" in fails(
        "ising", "--sampler", "rwm", "--balance", "sqrt"
    )
    assert "give one of them" in fails("ising", "--scale", "2", "--rate", "0.5")
    assert "at least 1" in fails("ising", "--draws", "0")
    assert "no folder" in fails("ising", "--save", str(tmp_path / "none" / "x.npz"))


def test_a_wrong_argument_is_one_line_and_exit_code_2():
    done = subprocess.run(
        [sys.executable, "-c", "from hopscale.cli import main; main()", "sample", "isng"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        "hopscale: target must be one of bernoulli, ising, fhmm, rbm, ebm; got 'isng'."
    ]


def test_a_full_disk_leaves_no_half_written_file(tmp_path, monkeypatch):
    def full(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    file = tmp_path / "draws.npz"
    file.write_bytes(b"before")
    save = ["--save", str(file), "--overwrite"]
    assert "No space left" in fails("bernoulli", "--size", "9", *QUICK, *save)
    assert file.read_bytes() == b"before"
    assert [f.name for f in tmp_path.iterdir()] == ["draws.npz"]


def test_bench_leaves_a_table_and_a_figure(tmp_path, monkeypatch):
    from hopscale import bench

    monkeypatch.setattr(bench, "SIZES", {"quick": {"bernoulli": (20,)}})
    monkeypatch.setattr(bench, "SECONDS", 0.01)
    out = tmp_path / "bench"
    done = RUN.invoke(cli.app, ["bench", "--profile", "quick", "--chains", "3", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "bernoulli 20" in done.output
    lines = (out / "bench.csv").read_text().splitlines()
    assert len([line for line in lines if not line.startswith("#")]) == 4
    assert (out / "bench.png").stat().st_size > 10_000
    done = RUN.invoke(cli.app, ["bench", "--profile", "quick", "--chains", "many"])
    assert "positive numbers" in str(done.exception)


def test_info_names_versions():
    done = RUN.invoke(cli.app, ["info"])
    assert "JAX" in done.output
