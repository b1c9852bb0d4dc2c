"""The README's first example runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_first_example_runs(capsys):
    example = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "LogDensity (64) by LBP" in printed
    assert "(20, 100, 64)" in printed


def test_the_two_commands_are_shown():
    text = README.read_text()
    assert "make reproduce" in text
    assert "make test" in text
