"""Results as files: they come back as they were, and what is wrong is named and left out."""

import codecs
import json
from pathlib import Path

import pytest
from stores import plain, sites
from typer.testing import CliRunner

from hopscale import cli
from hopscale_reproduction import exchange
from hopscale_reproduction.cells import Cell, table_cell
from hopscale_reproduction.experiments.finite import SitesCell
from hopscale_reproduction.experiments.table2.cells import PROFILES, TrainingCell
from hopscale_reproduction.store import Store

ROOT = Path(__file__).parent.parent.parent
RECORDS = ROOT / "docs" / "results"

RUN = table_cell("ising", 20, "C2", "lbp", "barker", rate=0.574)
SITES = SitesCell("half", 0.1)
MODEL = TrainingCell(PROFILES["quick"], "digits", "LBP_b-1", 1, 0)


def filled(path) -> Store:
    """A store with a cell of every kind."""
    store = Store(path)
    store.put(RUN.settings(), plain(ejd=0.1 + 0.2, ejd_error=float("nan")))
    store.put(Cell("identical", 9, "", "rwm", options=(("p", 0.5),)).settings(), plain(scale=1.0))
    store.put(SITES.settings(), sites(SITES), SITES.kind)
    store.put(MODEL.settings(), {"diverged": True, "why": 'a, "b"\nc'}, MODEL.kind)
    return store


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_exported_results_come_back_as_they_were(tmp_path, suffix):
    file = tmp_path / f"x{suffix}"
    with filled(tmp_path / "a.sqlite") as opened, Store(tmp_path / "b.sqlite") as other:
        assert exchange.write(opened, file) == 4
        assert exchange.read(other, file) == 4
        assert json.dumps(other.rows()) == json.dumps(opened.rows())
        assert exchange.read(other, file) == 0


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_a_byte_order_mark_does_not_matter(tmp_path, suffix):
    file = tmp_path / f"x{suffix}"
    with filled(tmp_path / "a.sqlite") as opened, Store(tmp_path / "b.sqlite") as other:
        exchange.write(opened, file)
        file.write_bytes(codecs.BOM_UTF8 + file.read_bytes())
        assert exchange.read(other, file) == 4


@pytest.mark.parametrize("name", ["paper.csv", "table2.csv"])
def test_the_results_on_record_are_accepted(tmp_path, name):
    with Store(tmp_path / "s.sqlite") as opened:
        lines = exchange.read(opened, RECORDS / name)
        assert lines == len(opened.rows()) > 90
        assert opened.damaged == {}


def test_files_of_another_kind_are_refused(tmp_path):
    with Store(tmp_path / "a.sqlite") as opened:
        with pytest.raises(ValueError, match=r"\.csv or \.json"):
            exchange.write(opened, tmp_path / "x.txt")
        with pytest.raises(FileNotFoundError, match="no folder"):
            exchange.write(opened, tmp_path / "nowhere" / "x.csv")
        for text in ('[{"settings"', '{"a": 1}', "[1]", "[]", "\xff"):
            (tmp_path / "x.json").write_text(text, encoding="latin-1")
            with pytest.raises(ValueError, match=r"x\.json does not hold exported results"):
                exchange.read(opened, tmp_path / "x.json")
        for text in ("", "a,b\n1,2\n", "kind,settings.a\nrun,1,2,3\n"):
            (tmp_path / "x.csv").write_text(text)
            with pytest.raises(ValueError, match=r"x\.csv does not hold exported results"):
                exchange.read(opened, tmp_path / "x.csv")
        assert opened.rows() == []


@pytest.mark.parametrize(
    ("row", "part", "name", "value", "said"),
    [
        (0, "results", "ejd", "banana", "in row 1, results.ejd must be a number; it is 'banana'"),
        (1, "results", "ess", None, "in row 2, results.ess must be a number; it is None"),
        (1, "results", "r_hat", "missing", "in row 2, results.r_hat is missing"),
        (0, "settings", "size", 20.5, "in row 1, settings.size must be an integer"),
        (0, "settings", "model", "missing", "in row 1, settings.model is missing"),
        (0, "settings", "colour", "red", "in row 1, settings.colour is not a name that is used"),
        (2, "results", "ours", {}, "in row 3, results.ours.reversed is missing"),
        (3, "results", "diverged", False, "in row 4, results.log_likelihood is missing"),
        (0, "kind", "", "other", "in row 1, kind must be one of run, finite, ebm; it is 'other'"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_one_wrong_value_keeps_everything_out(tmp_path, suffix, row, part, name, value, said):
    with filled(tmp_path / "a.sqlite") as opened:
        rows = json.loads(json.dumps(opened.rows()))
        if part == "kind":
            rows[row]["kind"] = value
        elif value == "missing":
            del rows[row][part][name]
        else:
            rows[row][part][name] = value
        with Store(tmp_path / "wrong.sqlite") as wrong:
            for one in rows:
                wrong.put(one["settings"], one["results"], one["kind"])
            exchange.write(wrong, tmp_path / f"x{suffix}")
    with Store(tmp_path / "b.sqlite") as other:
        with pytest.raises(ValueError, match=said.replace(".", r"\.")):
            exchange.read(other, tmp_path / f"x{suffix}")
        assert other.rows() == []


def test_a_file_that_was_cut_off_names_its_row(tmp_path):
    text = (RECORDS / "table2.csv").read_text()
    lines = text.splitlines(keepends=True)
    (tmp_path / "cut.csv").write_text("".join(lines[:3]) + lines[3][: len(lines[3]) // 2])
    with Store(tmp_path / "s.sqlite") as opened:
        with pytest.raises(
            ValueError, match=r"cut\.csv .*: in row 3, .* cut off .*Nothing was added"
        ):
            exchange.read(opened, tmp_path / "cut.csv")
        assert opened.rows() == []


def test_a_failed_import_makes_no_folder(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    command = ["results", "import", str(tmp_path / "x.csv"), "--out", str(tmp_path / "new")]
    assert CliRunner().invoke(cli.app, command).exit_code != 0
    assert not (tmp_path / "new").exists()


def test_an_export_replaces_a_file_only_if_asked_to(tmp_path):
    filled(tmp_path / "results.sqlite").__exit__()
    file = tmp_path / "x.csv"
    file.write_text("mine")
    command = ["results", "export", str(file), "--out", str(tmp_path)]
    failed = CliRunner().invoke(cli.app, command)
    assert "x.csv exists: give another file" in str(failed.exception)
    assert file.read_text() == "mine"
    done = CliRunner().invoke(cli.app, [*command, "--overwrite"])
    assert done.exit_code == 0, done.output
    with Store(tmp_path / "other.sqlite") as other:
        assert exchange.read(other, file) == 4


def test_a_csv_without_results_is_refused_and_the_right_one_still_comes_in(tmp_path):
    lines = (RECORDS / "table2.csv").read_text().splitlines()
    heads = lines[0].split(",")
    settings = [i for i, head in enumerate(heads) if not head.startswith("results.")]
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("\n".join(",".join(heads[i] for i in settings) for _ in range(2)))
    command = ["results", "import", "--out", str(tmp_path)]
    failed = CliRunner().invoke(cli.app, [*command, str(wrong)])
    assert failed.exit_code != 0
    assert "does not hold exported results" in str(failed.exception)
    done = CliRunner().invoke(cli.app, [*command, str(RECORDS / "table2.csv")])
    assert done.exit_code == 0, done.output
    assert f"{len(lines) - 1} cells added" in done.output
