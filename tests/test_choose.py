"""What runs where nobody said: chosen by the target, said by the run; and kernels compared."""

import dataclasses
import io
import json
import re

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import hopscale as hs
from diabetes import diabetes
from hopscale.cli import app
from hopscale.runs import comparison
from hopscale.runs.choose import choose
from small import small_rbm, small_targets

RNG = np.random.default_rng(3)
SPARSE = hs.Pairwise((np.arange(99), np.arange(1, 100), np.ones(99)))
DENSE = hs.Pairwise(np.triu(0.1 * RNG.normal(size=(80, 80)), 1))
LATTICE = hs.Ising(RNG.normal(size=(5, 5)), 0.2)
SHORT = {"chains": 4, "warmup": 5, "draws": 40, "progress": False}

SELECTION = hs.models.VariableSelection(*diabetes())

KERNELS = {
    "chain": (SPARSE, hs.Gibbs(), "1.98 neighbours each"),
    "lattice": (LATTICE, hs.Gibbs(), "3.2 neighbours each"),
    "tempered": (hs.Tempered(hs.Bernoulli(np.full((5, 5), 0.4)), LATTICE, 0.5), hs.Gibbs(), "3.2"),
    "potts": (hs.Potts.lattice((4, 4), 3), hs.Gibbs(), "about one evaluation"),
    "rbm": (small_rbm(), hs.Gibbs(), "hidden units"),
    "dense": (DENSE, hs.Gibbs(), "79 neighbours each"),
    "bernoulli": (hs.Bernoulli([0.2, 0.6]), hs.Gibbs(), "draws all of them afresh"),
    "clamped": (hs.clamp(LATTICE, [3, 7], 1), hs.Gibbs(), "about one evaluation"),
    "clamped bits": (
        hs.clamp(hs.Bernoulli([0.2, 0.6, 0.3]), [1], 1),
        hs.Gibbs(),
        "draws all of them afresh",
    ),
    "variable selection": (SELECTION, hs.Exchange(), "correlated columns"),
    "columns of which one is in": (hs.clamp(SELECTION, [3], 1), hs.Exchange(), "correlated"),
    "log-density": (small_targets()["quadratic"], hs.LBP(), "weighs all changes"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_target_says_which_kernel(name):
    target, kernel, words = KERNELS[name]
    chosen = choose(target)
    assert chosen.kernel == kernel
    assert words in chosen.reason


def test_where_sweeps_are_not_in_cpp_many_turns_are_too_many(monkeypatch):
    monkeypatch.setattr("hopscale.runs.choose._swept_by_kernels", lambda: False)
    assert choose(DENSE).kernel == hs.LBP()
    assert "80 turns" in choose(DENSE).reason
    assert choose(SPARSE).kernel == hs.Gibbs()


def test_a_scale_needs_a_kernel_that_has_one():
    assert choose(LATTICE, hs.Fixed(3)).kernel == hs.LBP()


def test_a_run_says_what_was_chosen_and_why(tmp_path):
    run = hs.sample(LATTICE, **SHORT)
    assert isinstance(run.kernel, hs.Gibbs)
    assert "3.2 neighbours" in run.reason
    assert run.reason in str(run).replace("\n", " ")
    assert run.summary()["reason"] == run.reason
    run.save(tmp_path / "run")
    assert hs.load(tmp_path / "run").reason == run.reason
    given = hs.sample(LATTICE, hs.Gibbs(), **SHORT)
    assert given.reason == ""
    assert "chosen" not in str(given)
    np.testing.assert_array_equal(given.last, run.last)


@pytest.fixture(scope="module")
def found():
    return hs.compare(LATTICE, seconds=0.3, kernels=[hs.RWM(), hs.Gibbs()], chains=20)


def test_a_comparison_ends_with_a_plain_sentence(found):
    assert found.kernel == hs.Gibbs()
    assert found.sentence.startswith("Use hs.Gibbs(")
    assert str(found).replace("\n", " ").endswith(found.sentence.split(". ")[-1])
    assert found.candidates[0].reliable
    assert "0.3 seconds each" in str(found)
    assert "1 second each" in str(dataclasses.replace(found, seconds=1))
    summary = json.loads(json.dumps(found.summary()))
    assert summary["best"].startswith("Gibbs")
    assert [row["kernel"][:3] for row in summary["candidates"]] == ["Gib", "RWM"]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (30, ["ESS/s"]),
        (40, ["ESS/s", "R-hat"]),
        (60, ["ESS/s", "R-hat", "with warm-up"]),
        (80, ["ESS/s", "R-hat", "with warm-up", "ESS/draw", "steps/s"]),
    ],
)
def test_a_narrow_screen_shows_fewer_columns_and_cuts_no_number(found, width, columns):
    kernels = (hs.Gibbs(rule="metropolis"), hs.LBP(balance="sqrt"))
    rows = [
        dataclasses.replace(found.best, kernel=kernel, ess_per_second=rate, r_hat=1.0)
        for kernel, rate in zip(kernels, (294911.0, 999.7), strict=True)
    ]
    shown = io.StringIO()
    Console(width=width, file=shown).print(dataclasses.replace(found, candidates=tuple(rows)))
    table = re.split(r"\n *\n", shown.getvalue())[1].splitlines()
    assert re.split(r" {2,}", table[0].strip()) == ["kernel", *columns]
    assert re.search(r"^Gibbs\(rule='metropoli(s'\))? +294,911", table[2])
    (other,) = [row for row in table if row.startswith("LBP")]
    assert re.search(r"^LBP\(balance='sqrt'\) +1,000", other)
    assert "…" not in shown.getvalue()


PASTED = {
    "nested": hs.Exchange(hs.GWG()),
    "array": hs.Swap(groups=[*"abcabc"], ones={"a": 1, "b": 1, "c": 2}),
    "long array": hs.Swap(groups=np.arange(100) // 50, ones=(3, 4)),
    "function": hs.LBP(balance=lambda log_ratio: 0.5 * log_ratio),
    "tempered": hs.Tempering(levels=5, kernel=hs.Gibbs(rule="metropolis")),
}


@pytest.mark.parametrize("name", PASTED)
def test_the_sentence_is_python_to_paste(found, name):
    kernel = PASTED[name]
    one = dataclasses.replace(found, candidates=(dataclasses.replace(found.best, kernel=kernel),))
    text = one.sentence.removeprefix("Use ").split(": ")[0]
    # What is too long to be written out is a variable.
    variables = {"groups": np.arange(100) // 50, "balance": getattr(kernel, "balance", None)}
    assert eval(text, {"hs": hs, **variables}) == kernel


def test_the_sentence_names_only_settings_that_were_changed(found):
    assert "hs.sample chooses hs.Gibbs() by itself" in found.sentence


def test_kernels_too_close_to_tell_apart_are_said_to_be(found):
    def said(*rates):
        kernels = (hs.LBP(), hs.LBP(balance="sqrt"), hs.GWG())
        rows = [
            dataclasses.replace(found.best, kernel=kernel, ess_per_second=rate)
            for kernel, rate in zip(kernels, rates, strict=False)
        ]
        return dataclasses.replace(found, candidates=tuple(rows)).sentence

    assert "hs.LBP(balance='sqrt') is within 20%, too close to call" in said(100.0, 98.0, 50.0)
    assert "hs.LBP(balance='sqrt') and hs.GWG() are within 20%" in said(100.0, 98.0, 81.0)
    assert "1.3 times those of hs.LBP(balance='sqrt'), the next best" in said(100.0, 79.0, 50.0)
    assert "times" not in said(100.0, 98.0, 50.0)
    assert said(100.0).startswith("Use hs.LBP(): 100 effective draws a second. hs.sample chooses")


def test_both_balancing_functions_are_tried():
    found = comparison.candidates(LATTICE)
    assert hs.LBP() in found
    assert hs.LBP(balance="sqrt") in found


def test_where_no_chains_agree_those_closest_to_it_come_first(found):
    best = found.best
    near, far, none = (
        dataclasses.replace(best, r_hat=r_hat, ess_per_second=ess, agree=False)
        for r_hat, ess in ((1.2, 1.0), (2.0, 1e9), (np.nan, 1e9))
    )
    assert sorted([none, far, near, best], key=comparison.place) == [best, near, far, none]


def test_effective_draws_are_no_more_than_a_few_times_the_draws(found):
    """Gibbs sampling of a weakly coupled lattice: draws are close to independent."""
    best = found.best
    assert 0.2 < best.ess / (best.draws * 20) < 3
    assert best.ess_per_second_all < best.ess_per_second


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"seconds": 0}, ValueError), ({"kernels": []}, ValueError), ({"kernels": [3]}, TypeError)],
)
def test_settings_that_cannot_work_are_refused(settings, error):
    with pytest.raises(error):
        hs.compare(LATTICE, **settings)


def command(*arguments) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_line_compares(found, monkeypatch):
    monkeypatch.setattr(hs, "compare", lambda target, seconds, **settings: found)
    said = json.loads(command("compare", "ising", "--size", "5", "--json"))
    assert said["best"] == found.summary()["best"]
    assert "Use --sampler gibbs: " in command("compare", "ising", "--size", "5")


def test_the_command_line_optimizes(tmp_path):
    file = tmp_path / "square.txt"
    file.write_text("0 1 1\n1 2 1\n2 3 1\n0 3 1\n")
    said = command("optimize", str(file), "--kind", "maxcut", "--seconds", "0.1", "--json")
    best = json.loads(said)["x"]
    assert best in ([0, 1, 0, 1], [1, 0, 1, 0])


def test_the_command_line_knows_what_a_target_is():
    with pytest.raises(ValueError, match=r"my_model\.py:log_density"):
        command("compare", "izing")
