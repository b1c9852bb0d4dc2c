"""The command line as a person would use it."""

import json
import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize(
    ("target", "sampler"),
    [("bernoulli", "lbp"), ("ising", "lbp"), ("fhmm", "lbp"), ("bernoulli", "rwm")],
)
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


def test_sites_may_differ_in_how_many_values_they_have(tmp_path):
    file, out = tmp_path / "model.py", tmp_path / "draws.npz"
    file.write_text("import jax.numpy as jnp\ndef f(code):\n    return 0.1 * jnp.sum(code[:, 0])\n")
    command = ["sample", f"{file}:f", "--sites", "3", "--states", "2,5,3", "--keep", "1"]
    done = RUN.invoke(cli.app, [*command, *QUICK, "--save", str(out)])
    assert done.exit_code == 0, done.output
    assert np.load(out)["draws"].max(axis=(0, 1)).tolist() == [1, 4, 2]
    wrong = RUN.invoke(cli.app, ["sample", f"{file}:f", "--sites", "3", "--states", "2,5", *QUICK])
    assert "one for each site such as 2,5,3; got '2,5' for 3 sites" in str(wrong.exception)


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
    assert "No such option: --spacing" in fails("ising", "--spacing", "even")
    assert "lbp, gwg, dmala, rwm, gibbs" in fails("ising", "--sampler", "mala")
    assert "C1, C2, C3" in fails("ising", "--config", "C4")
    assert "R = 99 for 25 sites" in fails("ising", "--size", "5", "--scale", "99")
    assert "setting of gwg, not of lbp" in fails("ising", "--repeats", "once")
    assert "setting of lbp, gwg and dmala, not of rwm" in fails(
        "ising", "--sampler", "rwm", "--balance", "sqrt"
    )
    assert "give one of them" in fails("ising", "--scale", "2", "--rate", "0.5")
    assert "setting of --temper" in fails("ising", "--levels", "3")
    assert "at least 1" in fails("ising", "--draws", "0")
    assert "no folder" in fails("ising", "--save", str(tmp_path / "none" / "x.npz"))


def test_a_wrong_argument_is_one_line_and_exit_code_2():
    done = subprocess.run(
        [sys.executable, "-c", "from hopscale.cli import main; main()", "sample", "isng"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("hopscale: a target is one of bernoulli, ising, fhmm, rbm, ebm")
    assert line.endswith("or a file; got 'isng'.")


def test_a_traceback_is_shown_if_asked_for():
    done = subprocess.run(
        [sys.executable, "-m", "hopscale", "sample", "isng", "--debug"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "error of the program" not in done.stderr


def test_a_shell_can_complete_commands():
    done = subprocess.run(
        [sys.executable, "-m", "hopscale"],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "_HOPSCALE_COMPLETE": "complete_bash",
            "COMP_WORDS": "hopscale sample ber",
            "COMP_CWORD": "2",
        },
    )
    assert "bernoulli" in done.stdout


MODEL = """
import jax.numpy as jnp
import hopscale as hs


def log_density(x):
    return jnp.sum(x[1:] * x[:-1]) - jnp.sum(x)


def broken(x):
    return jnp.sum(x * y)


target = hs.Bernoulli([0.2, 0.5, 0.7])
number = 3
"""


def test_a_users_own_density_and_target(tmp_path):
    file, saved = tmp_path / "my_model.py", tmp_path / "run.nc"
    file.write_text(MODEL)
    own = [f"{file}:log_density", "--sites", "3x4", *QUICK]
    done = RUN.invoke(cli.app, ["sample", *own, "--json", "--save", str(saved), "--keep", "10"])
    assert done.exit_code == 0, done.output + str(done.exception)
    result = json.loads(done.output)
    assert (result["target"], result["size"]) == (f"{file}:log_density", 12)
    assert (result["sampler"], result["reason"][:16]) == ("lbp", "each step weighs")
    arviz = pytest.importorskip("arviz")
    assert arviz.from_netcdf(str(saved))["posterior"]["x"].shape == (4, 2, 3, 4)
    for option in (["--sites", "3"], ["--states", "2"], ["--ratios", "exact"]):
        assert f"leave {option[0]} out" in fails(f"{file}:target", *option)
    assert "has no nothing: name a function" in fails(f"{file}:nothing")
    assert "it has log_density, broken, target" in fails(str(file))
    assert "Give --sites 64, or 28x28" in fails(f"{file}:log_density")
    assert "takes a number" in fails(f"{file}:log_density", "--sites", "3.5")
    assert "must be a function" in fails(f"{file}:number", "--sites", "3")
    assert "line 11: NameError: name 'y' is not defined" in fails(f"{file}:broken", "--sites", "3")
    assert "there is no file" in fails("nothing.py:f", "--sites", "3")


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
    monkeypatch.setattr(bench, "SECONDS", 0.0)
    monkeypatch.setattr(bench, "COPIED", 2**10)
    out = tmp_path / "bench"
    done = RUN.invoke(cli.app, ["bench", "--profile", "quick", "--chains", "3", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "bernoulli 20" in done.output
    lines = (out / "bench.csv").read_text().splitlines()
    assert len([line for line in lines if not line.startswith("#")]) == 4
    assert (out / "bench.png").stat().st_size > 10_000
    done = RUN.invoke(cli.app, ["bench", "--profile", "quick", "--chains", "many"])
    assert "positive numbers" in str(done.exception)


def test_bench_checks_its_folder_before_timing(tmp_path, monkeypatch):
    from hopscale import bench

    monkeypatch.setattr(bench, "measure", None)  # it would fail
    (tmp_path / "file").touch()
    (tmp_path / "full" / "bench.png").mkdir(parents=True)
    for out, said in (("file", "a file of that name"), ("full", "bench.png: it is a folder")):
        done = RUN.invoke(cli.app, ["bench", "--out", str(tmp_path / out)])
        assert said in str(done.exception)


def test_bench_prints_its_table_before_it_saves(tmp_path, monkeypatch):
    from hopscale import bench

    def full(*_):
        raise OSError(28, "No space left on device")

    cell = bench.Cell("bernoulli", 20, 20, 3, "RWM-1", 1, 0.5, 1.0)
    monkeypatch.setattr(bench, "measure", lambda *_: ([cell], bench.Roofline(1e9, 1e9, 1e9)))
    monkeypatch.setattr(bench, "save", full)
    done = RUN.invoke(cli.app, ["bench", "--out", str(tmp_path / "bench")])
    assert "bernoulli 20" in done.output
    assert "No space left" in str(done.exception)
    assert not (tmp_path / "bench").exists()


def test_ctrl_c_stops_bench(tmp_path, monkeypatch):
    from hopscale import bench

    monkeypatch.setattr(bench, "drive", lambda *_, **__: "interrupted")
    monkeypatch.setattr(bench.Plan, "begin", lambda plan: plan)
    done = RUN.invoke(cli.app, ["bench", "--profile", "quick", "--out", str(tmp_path / "bench")])
    assert done.exit_code != 0
    assert not (tmp_path / "bench").exists()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Draw longer: run.extend(draws).", "Draw longer: --resume and --draws."),
        ("use temper=hs.Tempering().", "use --temper."),
        ("Use hs.Tempering(levels=7), or", "Use --temper --levels 7, or"),
        ("Use hs.Gibbs(rule='metropolis'): 3", "--sampler gibbs --rule metropolis: 3"),
        ("hs.LBP(balance='sqrt', path='same')", "--sampler lbp --balance sqrt --path same"),
        ("hs.Gibbs(order=order, sweeps=1)", "hs.Gibbs(order=order, sweeps=1)"),
        ("Try an odd R first, or scale=hs.Tuned().", "or leave --scale out."),
        ('Use hs.LogDensity(..., ratios="exact"), 200 evaluations', "Use --ratios exact, 200"),
    ],
)
def test_advice_is_in_the_words_of_commands(said, words):
    from hopscale.cli.words import for_commands

    assert words in for_commands(said)


def test_words_that_are_replaced_are_said_somewhere():
    import hopscale
    from hopscale.cli.words import WORDS

    package = Path(hopscale.__file__).parent
    texts = [path.read_text() for path in package.rglob("*.py") if path.name != "words.py"]
    for said in WORDS:
        assert any(said in " ".join(text.split()).replace('" "', "") for text in texts), said


def test_the_version_is_printed():
    import hopscale

    assert hopscale.__version__ in RUN.invoke(cli.app, ["--version"]).output


def test_a_users_module_may_print_exit_and_import_later(tmp_path):
    (tmp_path / "beside.py").write_text(
        "import jax.numpy as jnp\ndef g(x):\n    return jnp.sum(x)\n"
    )
    file = tmp_path / "model.py"
    file.write_text(
        "print('loaded')\ndef f(x):\n    from beside import g\n    return g(x)\n"
        "def half(x):\n    return 0.5\n"
    )
    for name in ("f", "half"):  # a density may be a Python number
        own = [f"{file}:{name}", "--sites", "3", *QUICK, "--json"]
        done = RUN.invoke(cli.app, ["sample", *own])
        assert done.exit_code == 0, str(done.exception)
        assert json.loads(done.stdout)["size"] == 3
    file.write_text("import sys\nsys.exit(3)\n")
    assert "sys.exit(3)" in fails(f"{file}:f", "--sites", "3")


def test_info_names_versions():
    done = RUN.invoke(cli.app, ["info"])
    assert "JAX" in done.output
