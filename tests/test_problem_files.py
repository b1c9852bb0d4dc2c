"""Problems in files: what is read, what the command line says of them."""

import csv
import gzip
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from hopscale import cli
from hopscale.cli import problem
from hopscale.cli.problem import load_problem

RUN = CliRunner()
QUICK = ["--chains", "4", "--warmup", "10", "--draws", "20"]
MATRIX = "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 0.5\n3 2 -2\n"
TRIANGLE_AND_TAIL = "0 1 1\n1 2 1\n0 2 1\n2 9 1\n"  # of its four edges three can be cut


def fails(*arguments):
    done = RUN.invoke(cli.app, ["sample", *arguments])
    assert done.exit_code != 0
    return str(done.exception) + done.output


@pytest.mark.parametrize(
    ("name", "text", "edges"),
    [
        ("a.txt", "# triangle\n0 1 2.5\n1,2\n", [(0, 1, 2.5), (1, 2, 1.0)]),
        ("g.txt", "3 2\n1 2 -1\n2 3 1\n", [(0, 1, -1.0), (1, 2, 1.0)]),
        ("a.qubo", "c note\np qubo 0 3 1 1\n0 0 -1\n0 2 4\n", [(0, 0, -1.0), (0, 1, 4.0)]),
        ("d.col", "p edge 2 1\ne 1 2\n", [(0, 1, 1.0)]),
        ("bom.txt", "\ufeff0 1 2\n", [(0, 1, 2.0)]),
        ("m.mtx", MATRIX, [(0, 1, 0.5), (1, 2, -2.0)]),
        ("M.MTX", MATRIX, [(0, 1, 0.5), (1, 2, -2.0)]),
        ("m.txt", MATRIX, [(0, 1, 0.5), (1, 2, -2.0)]),
    ],
)
def test_files_of_problems_are_read(tmp_path, name, text, edges):
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = problem.read(tmp_path / name)
    assert list(zip(found.i, found.j, found.weight, strict=True)) == edges


def test_a_problem_in_a_file_is_sampled(tmp_path):
    file = tmp_path / "triangle.txt"
    file.write_text("0 1 1\n1 2 1\n0 2 1\n")
    done = RUN.invoke(cli.app, ["sample", str(file), "--kind", "maxcut", *QUICK, "--json"])
    assert done.exit_code == 0, done.output + str(done.exception)
    result = json.loads(done.output)
    assert (result["size"], result["sampler"]) == (3, "gibbs")
    cut, whole = np.array([0, 1, 1]), np.array([1, 1, 1])
    for kind, gap in (("maxcut", 2.0), ("ising", -4.0), ("qubo", 2.0)):
        target = load_problem(file, kind, 1.0).target
        assert float(target.log_prob(cut) - target.log_prob(whole)) == pytest.approx(gap)
    file.write_text("0 one\n")
    assert "line 1: two whole numbers and a weight" in fails(str(file))
    assert "maxcut" in fails(str(file), "--kind", "tsp")


def test_a_compressed_matrix_is_read(tmp_path):
    file = tmp_path / "m.mtx.gz"
    file.write_bytes(gzip.compress(MATRIX.encode()))
    assert problem.read(file).weight.tolist() == [0.5, -2.0]


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("gap.qubo", "p qubo 0 9 2 1\n0 0 -1\n9 9 -1\n0 5 2\n", [0, 5, 9]),
        ("g.txt", "4 2\n1 2 -1\n2 3 1\n", [1, 2, 3, 4]),  # the fourth has no edge
        ("d.col", "p edge 5 1\ne 1 2\n", [1, 2, 3, 4, 5]),
        ("zero.txt", "4 2\n0 2 1\n2 1 1\n", [0, 1, 2, 3]),
        ("plain.txt", "3 7 1\n", [3, 7]),
        ("m.mtx", MATRIX, [1, 2, 3]),
    ],
)
def test_sites_keep_the_names_of_the_file(tmp_path, name, text, names):
    (tmp_path / name).write_text(text)
    found = load_problem(tmp_path / name, None, 1.0)
    assert found.names.tolist() == names
    assert found.target.shape == (len(names),)


def test_the_log_density_of_a_cut_is_its_weight(tmp_path):
    file = tmp_path / "graph.txt"
    file.write_text(TRIANGLE_AND_TAIL)
    target = load_problem(file, "maxcut", 2.0).target
    for x, cut in (([0, 0, 0, 0], 0), ([1, 0, 0, 0], 2), ([0, 0, 1, 0], 3), ([1, 1, 1, 0], 1)):
        assert float(target.log_prob(np.array(x))) == pytest.approx(2.0 * cut)


def test_the_best_state_is_shown_and_saved(tmp_path):
    file, table = tmp_path / "graph.txt", tmp_path / "best.csv"
    file.write_text(TRIANGLE_AND_TAIL)
    command = ["optimize", str(file), "--kind", "maxcut", "--seconds", "0.05", "--chains", "4"]
    done = RUN.invoke(cli.app, [*command, "--save", str(table)])
    assert done.exit_code == 0, str(done.exception)
    rows = list(csv.reader(table.read_text().splitlines()))
    assert [row[0] for row in rows] == ["site", "0", "1", "2", "9"]
    x = [int(row[1]) for row in rows[1:]]
    assert "".join(map(str, x)) in done.output
    assert "log_prob      3" in done.output
    assert sum(x[i] != x[j] for i, j in ((0, 1), (1, 2), (0, 2), (2, 3))) == 3
    again = RUN.invoke(cli.app, [*command, "--save", str(table)])
    assert isinstance(again.exception, FileExistsError)
    assert RUN.invoke(cli.app, [*command, "--save", str(table), "--overwrite"]).exit_code == 0
    found = json.loads(RUN.invoke(cli.app, [*command, "--json"]).output)
    assert (found["log_prob"], found["names"], found["interrupted"]) == (3.0, [0, 1, 2, 9], False)


def test_a_header_that_might_be_an_edge_is_said_to_be_one(tmp_path, capsys):
    file = tmp_path / "cycle.txt"
    file.write_text("5 4\n1 2\n2 3\n3 4\n1 5\n")
    assert len(problem.read(file).names) == 5
    assert "is read as 5 nodes and 4 edges" in capsys.readouterr().err
    file.write_text("3 2\n1 2 -1\n2 3 1\n")
    problem.read(file)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "g.txt",
            "5 6\n1 2 1\n2 3 1\n1 3 1\n",
            "'5 6', has no weight.*there are 3: is the file whole",
        ),
        ("g.txt", "99999999999 1\n1 2\n", "at most 1,000,000,000 can be read"),
        (
            "m.mtx",
            "%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 1\n2 1 0.5\n",
            "skew-symmetric: w_ij and w_ji cancel",
        ),
    ],
)
def test_files_that_would_be_misread_are_refused(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=words):
        load_problem(tmp_path / name, None, 1.0)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("1 0\n", 1),  # an edge alone is no header
        ("p edge 5 5\ne 5 4\ne 1 2\ne 1 3\ne 2 3\ne 2 4\n", 5),  # it has one already
        ("1 2\n2 3\n3 1 5\n", 3),
    ],
)
def test_an_edge_is_not_taken_for_a_header(tmp_path, text, pairs):
    (tmp_path / "edges.txt").write_text(text)
    assert problem.read(tmp_path / "edges.txt").weight.size == pairs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1 1e300\n", "'1e300' is no weight"),
        ("0 1 nan\n", "'nan' is no weight"),
        ("0.0 1 2\n", "'0.0' is no number of a site"),
        ("0 99999999999999999999999 1\n", "is no number of a site"),
        ("0 1 1 2\n", "4 words"),
        ("7\n", "1 words"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, text, words):
    file = tmp_path / "edges.txt"
    file.write_text(f"# comment\n{text}")
    with pytest.raises(ValueError, match=f"line 2: two whole numbers and a weight.*{words}"):
        problem.read(file)


def test_files_that_are_no_problems(tmp_path):
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    assert "is not a text file" in fails(str(tmp_path / "binary.txt"))
    assert "is a folder" in fails(str(tmp_path))
    matrix = "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 1.0 2.0\n"
    (tmp_path / "complex.mtx").write_text(matrix)
    assert "must hold real numbers" in fails(str(tmp_path / "complex.mtx"))
