"""What the command line refuses: one line that says what is right, and no traceback."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import hopscale as hs
from hopscale import cli

RUN = CliRunner()


def refused(arguments: list[str], words: str) -> None:
    """Raise unless a command is refused, by the parser or by an error that tells what to do."""
    done = RUN.invoke(cli.app, arguments)
    assert done.exit_code != 0
    error = done.exception
    said = done.output
    if isinstance(error, Exception) and not isinstance(error, SystemExit):
        assert cli.of_the_user(error), repr(error)
        said += str(error)
    plain = " ".join(re.sub("[│╭╮╰╯─]", " ", said).split())
    assert re.search(words, plain), plain
    assert "Traceback" not in plain


# Of each option of `hopscale sample`: values that cannot work, and what must be said.
INTEGER = "valid integer"
SHARED = {
    "--chains": {"0": "at least 1", "-1": "at least 1", "many": INTEGER, "1.5": INTEGER},
    "--draws": {"0": "draws must be at least 1", "x": INTEGER, "3000000000": "steps"},
    "--warmup": {"-1": "warmup must be at least 0", "2,000": INTEGER},
    "--size": {"0": "size must be at least 1", "-3": "at least 1", "ten": INTEGER},
    "--config": {"C4": "one of C1, C2, C3; got 'C4'", "": "one of C1, C2, C3"},
    "--sampler": {"mala": "lbp, gwg, dmala, rwm, gibbs", "LBP": "lbp, gwg, dmala, rwm"},
    "--balance": {"barkr": "'barker'", "sqrt(t)": "'barker'"},
    "--path": {"forward": "'reversed' or 'same'"},
    "--repeats": {"once": "a setting of gwg, not of lbp"},
    "--lengths": {"long": "'mixed' or 'paper'"},
    "--scale": {
        "0": "at least 1",
        "nan": "at least 1",
        "1e9": "R = 1e",
        "big": "valid (number|float)",
    },
    "--rate": {"0": r"inside \(0, 1\)", "1.5": r"inside \(0, 1\)", "nan": "inside"},
    "--seed": {"-1": "no sign", "18446744073709551616": "64 bits", "x": INTEGER},
    "--keep": {
        "some": "takes all, last, or n",
        "0": "takes all, last, or n",
        "-2": "takes all, last, or n",
        "all": "give --save too",
    },
    "--save": {
        "none/at/all.npz": "there is no folder",
        ".": "it is a folder",
        "/dev/full": "it is a device",
        "here.txt": "here.txt exists",
        "draws.csv": "ends in .nc or .npz",
    },
    "--checkpoint": {
        "none/at/all": "there is no folder",
        "/dev/null": "exists: go on|is a device",
        "here.txt": "--resume, or give another file",
    },
    "--resume": {"": "give --checkpoint too"},
    "--banana": {"1": "No such option"},
}
OPTIONS = [(o, value, words) for o, cases in SHARED.items() for value, words in cases.items()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with foreign files, and nothing that could be compiled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(hs.data.VARIABLE, raising=False)
    for function in ("runs.sampling.start", "runs.sampling.advance"):
        monkeypatch.setattr(f"hopscale.{function}", None)
    Path("here.txt").write_text("text")
    Path("empty").touch()
    np.savez("array.npz", x=np.zeros(3))
    Path("bad.py").write_text("import jax.numpy as jnp\nlog_density = jnp.sum\nnumber = 3\n")
    Path("broken.py").write_text("1 / 0\n")
    Path("words.txt").write_text("0 1 heavy\n")
    Path("one.txt").write_text("7\n")
    Path("nan.txt").write_text("0 1 nan\n")
    Path("bad.mtx").write_text("%%MatrixMarket banana\n")
    return tmp_path


@pytest.mark.parametrize(("option", "value", "words"), OPTIONS)
def test_options_of_sample_that_cannot_work(option, value, words, folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    given = [option] if option == "--resume" else [option, value]
    refused(["sample", "ising", *given], words)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


COMMANDS = {
    "sample ising --overwrite": "give --save too",
    "sample ising --rule metropolis": "a setting of gibbs",
    "sample rbm --sampler gibbs --rule metropolis": "draws all units at once",
    "compare ising --kind qubo": "--kind is an option of a file of couplings, not of ising",
    "compare rbm --config C3": "--config is an option of bernoulli, ising and fhmm, not of rbm",
    "optimize one.txt --sites 4": "--sites is an option of a function in a file",
    "optimize ebm": "needs --model",
    "compare ising --config C9": "one of C1, C2, C3",
    "sample isng": "No such|there is no|one of bernoulli",
    "sample": "Usage|Missing|Commands",
    "banana": "No such command",
    "sample ising --size 100000": "would need about .* are there",
    "sample ising --size 100000000000": "would need about .* are there",
    "sample bernoulli --size 100000000000000": "would need about .* are there",
    "sample bernoulli --spacing wide": "'random' or 'even'",
    "sample bernoulli --sign +": "No such option",
    "sample fhmm --variant new": "'written' or 'table'",
    "sample fhmm --axis space": "'time' or 'factor'",
    "sample fhmm --factors 0": "factors must be at least 1",
    "sample ising --chains 1000000000000": "Use fewer chains",
    "sample ising --save a.npz --keep all --draws 2000000000 --chains 1000": "Keep fewer",
    "sample ising --save a.npz --keep 3000": "which is none",
    "sample ising --sampler rwm --balance sqrt": "a setting of lbp, gwg and dmala, not of rwm",
    "sample ising --scale 2 --rate 0.5": "give one of them",
    "sample ising --resume --checkpoint none": "there is no none to go on from",
    "sample rbm --size 300": "100, 400 or 1000",
    "sample rbm --ratios fast": "'exact' or 'gradient'",
    "sample rbm --weights none": "there is no file none",
    "sample rbm --weights here.txt": "not a hopscale file",
    "sample rbm --weights empty": "is empty",
    "sample rbm --weights array.npz": "a zip or npz archive",
    "sample rbm --weights . ": "is a folder",
    "sample rbm --weights here.txt --size 100": "give one of them",
    "sample ebm": "Missing option",
    "sample ebm --model none": "there is no checkpoint or directory none",
    "sample ebm --model .": "there is no checkpoint",
    "sample ebm --model here.txt": "not a hopscale file",
    "sample none.py:f --sites 3": "there is no file none.py",
    "sample bad.py:f --sites 3": "it has .*log_density|name a function of bad.py",
    "sample bad.py:number --sites 3": "must be a function of one state or a target; it is int",
    "sample bad.py:log_density": "Give --sites 64, or 28x28",
    "sample bad.py:log_density --sites 0": "--sites takes a number such as 64",
    "sample bad.py:log_density --sites ten": "--sites takes a number such as 64",
    "sample bad.py:log_density --sites 3x": "--sites takes a number such as 64",
    "sample bad.py:log_density --sites 3 --states 1": "num_states must be at least 2",
    "sample bad.py:log_density --sites 3 --ratios fast": "ratios must be",
    "sample broken.py:f --sites 3": "broken.py, line 1: ZeroDivisionError",
    "sample problem none.txt": "there is no file none.txt",
    "sample problem words.txt": "line 1",
    "sample problem one.txt": "line 1",
    "sample problem nan.txt": "line 1",
    "sample problem empty": "no |empty",
    "sample problem bad.mtx": "not a MatrixMarket file",
    "sample problem here.txt --kind sat": "--kind must be one of ising, maxcut, qubo",
    "train": "Usage|Missing|Commands",
    "train rbm": "Missing option",
    "train rbm --out .": "it is a folder",
    "train rbm --out here.txt": "here.txt exists",
    "train rbm --out none/at/all": "cannot write none/at/all: there is no folder .*/none/at. Make",
    "train rbm --out a --hidden 0": "hidden must be at least 1",
    "train rbm --out a --cd 0": "cd must be at least 1",
    "train rbm --out a --rate 0": "rate must lie in",
    "train rbm --out a --rate nan": "rate must lie in",
    "train rbm --out a --epochs 0": "epochs must be at least 1",
    "train rbm --out a --batch 100000": "digits has 1285",
    "train rbm --out a --seed -1": "no sign",
    "train rbm --out a --data cifar": "one of digits",
    "train rbm --out a --data omniglot": "--data-dir",
    "train rbm --out a --data omniglot --data-dir none": "no data directory none",
    "train rbm --out a --data omniglot --data-dir .": "is missing",
    "train rbm --out a --resume": "there is no file a",
    "train rbm --out here.txt --resume": "not a hopscale file",
    "train ebm": "Missing option",
    "train ebm --out here.txt --network mlp": "a file of that name",
    "train ebm --out a --network vit": "resnet, cnn or mlp",
    "train ebm --out a --network mlp --channels 0": "channels must be at least 1",
    "train ebm --out a --network cnn --precision half": "precision must be one of",
    "train ebm --out a --network mlp --iterations 0": "iterations must be at least 1",
    "train ebm --out a --network mlp --steps 0": "steps must be at least 1",
    "train ebm --out a --network mlp --buffer 5": "at least a batch of 100",
    "train ebm --out a --network mlp --scale banana": "adaptive:RATE",
    "train ebm --out a --network mlp --scale adaptive:2": "adaptive:RATE",
    "train ebm --out a --network mlp --scale 65": "R = 65 for 64 sites",
    "train ebm --out a --network mlp --sampler mala": "lbp, gwg, dmala, rwm; got 'mala'",
    "train ebm --out a --network mlp --sampler gibbs": "lbp, gwg, dmala, rwm; got 'gibbs'",
    "train ebm --out a --network mlp --minutes -1": "minutes",
    "train ebm --out a --network mlp --long-run -1": "--long-run must be at least 0",
    "train ebm --out a --network mlp --data cifar": "one of digits",
    "train ebm --out . --network mlp --resume": "there is no checkpoint",
    "train ebm --out new/a --network mlp --resume": "there is no checkpoint",
    "evaluate": "Missing argument",
    "evaluate none": "there is no checkpoint or directory none",
    "evaluate .": "there is no checkpoint",
    "evaluate here.txt": "not a hopscale file",
    "evaluate here.txt --weights best": "average or last",
    "evaluate here.txt --repeats 0": "--repeats must be at least 1; got 0",
    "evaluate here.txt --betas 0": "--betas must be at least 1; got 0",
    "evaluate here.txt --chains 1": "--chains must be at least 2; got 1",
    "evaluate here.txt --resample 5": r"--resample must lie in \[0, 1\]; got 5",
    "evaluate here.txt --sides 3": "--sides must be 1 or 2; got 3",
    "evaluate here.txt --settle -1": "--settle must be at least 0",
    "evaluate here.txt --components -1": "--components must be at least 0",
    "evaluate here.txt --sides 1 --settle 77": "--settle is a setting of --sides 2",
    "evaluate here.txt --sides 1 --components 100": "--components is a setting of --sides 2",
    "evaluate here.txt --data digits --split none": "--data has no effect with --split none",
    "evaluate here.txt --scale either:0.5": "adaptive:RATE",
    "evaluate here.txt --sampler gibbs": "lbp, gwg, dmala, rwm; got 'gibbs'",
    "compare": "Missing argument",
    "compare isng": "a target is one of bernoulli",
    "compare ising --seconds 0": "seconds must lie in",
    "compare ising --seconds nan": "seconds must lie in",
    "compare ising --chains 0": "chains must be at least 1",
    "compare ising --size 0": "size must be at least 1",
    "compare none.txt": "there is no file none.txt",
    "optimize": "Missing argument",
    "optimize isng": "a target is one of bernoulli",
    "optimize ising --seconds -1": "seconds must lie in",
    "optimize ising --config C9": "one of C1, C2, C3",
    "bench --profile slow": "quick or full",
    "bench --chains many": "positive numbers",
    "bench --chains 0": "positive numbers",
    "bench --out here.txt": "a file of that name",
    "bench --out /proc/none": "cannot make the folder /proc/none",
    "reproduce table9": "table9",
    "reproduce --profile slow": "--profile must be quick or paper",
    "reproduce --out here.txt": "a file of that name",
    "reproduce --minutes -1": "minutes",
    "report --out none": "there is no none",
    "report --profile slow": "--profile must be quick or paper",
    "results": "Usage|Missing|Commands",
    "results export a.csv --out none": "there is no none",
    "results import none.csv": "there is no none.csv",
    "results import .": "is a folder: name an exported .csv or .json file",
    "results import here.txt": r"must end in .csv or .json",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_that_cannot_work(command, folder):
    before = {path.name for path in folder.iterdir()}
    refused(command.split(), COMMANDS[command])
    assert {path.name for path in folder.iterdir()} == before


ROW = {"kind": "run", "settings": {}, "results": {}, "versions": {}, "hardware": "", "created": ""}
TABLES = {
    "nothing.csv": ("", "there is no row in it"),
    "words.csv": ("a,b\n1,2\n", "in row 1, kind is missing"),
    "array.json": ("[1, 2]", "does not hold exported results"),
    "number.json": ("3", "does not hold exported results"),
    "half.json": ("[{", "does not hold exported results"),
    "kind.json": (json.dumps([{**ROW, "kind": "cake"}]), "kind must be one of"),
    "part.json": (json.dumps([{**ROW, "results": "banana"}]), "in row 1, results is 'banana'"),
    "settings.json": (json.dumps([ROW]), "in row 1, "),
    "cut.csv": ("kind,settings.a\nrun\n", "in row 1, the number of columns is 1, not 2"),
    "wide.csv": ("kind,settings.a\nrun,1,2,3\n", "in row 1, the number of columns is 4, not 2"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_without_results_are_not_imported(name, folder):
    content, words = TABLES[name]
    Path(name).write_text(content)
    refused(["results", "import", name, "--out", "out"], words)
