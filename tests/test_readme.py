"""The examples of README and site run as they stand."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_first_example_runs_and_is_that_of_the_site(capsys):
    home = ROOT / "docs" / "index.md"
    (shown,) = examples(home)
    assert shown == examples(README)[0]
    exec(compile(shown, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    of_run, *of_pages = (
        re.findall(r"^ (\S.*?)  +\S", text, re.MULTILINE)
        for text in (printed, README.read_text(), home.read_text())
    )
    assert of_pages == [of_run, of_run]


def test_the_second_example_runs(capsys):
    shown = examples(README)[1]
    shorter = shown.replace(
        "chains=50, warmup=1_000, draws=2_000", "chains=10, warmup=100, draws=200"
    )
    assert shorter != shown
    exec(compile(shorter, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "VariableSelection (64) by Exchange" in printed
    chances = dict(re.findall(r"^(\S+) +([\d.]+) ±", printed, re.MULTILINE))
    assert all(float(chances[name]) > 0.9 for name in ("bmi", "s5", "bp"))
    assert 0.4 < float(chances["age*sex"]) < 0.9


def test_pictures_are_there():
    for page in (README, *ROOT.glob("docs/*.md")):
        for picture in re.findall(r"!\[.*?\]\((.*?)\)", page.read_text()):
            assert (page.parent / picture).exists(), f"{page.name}: {picture}"


def test_the_two_commands_are_shown():
    text = README.read_text()
    assert "make reproduce" in text
    assert "make test" in text
