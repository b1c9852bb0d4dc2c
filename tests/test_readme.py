"""The examples of README and site run as they stand."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def test_first_example_runs(capsys):
    example = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "LogDensity (16 x 16) by LBP" in printed
    assert "58 pixels were wrong" in printed


def test_the_example_of_the_site_runs(capsys):
    text = (ROOT / "docs" / "index.md").read_text()
    exec(compile(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], "index.md", "exec"), {})
    assert "acceptance" in capsys.readouterr().out


def test_pictures_are_there():
    for page in (README, *ROOT.glob("docs/*.md")):
        for picture in re.findall(r"!\[.*?\]\((.*?)\)", page.read_text()):
            assert (page.parent / picture).exists(), f"{page.name}: {picture}"


def test_the_two_commands_are_shown():
    text = README.read_text()
    assert "make reproduce" in text
    assert "make test" in text
