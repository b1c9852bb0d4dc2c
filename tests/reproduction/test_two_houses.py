"""The library and the reproduction: one imports the other, and not the other way round."""

import ast
from importlib.metadata import entry_points
from pathlib import Path

import hopscale

SOURCE = Path(hopscale.__file__).parent


def imported(file: Path) -> set[str]:
    """The packages that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_the_library_does_not_import_the_reproduction():
    files = list(SOURCE.rglob("*.py"))
    assert len(files) > 30
    assert not [file for file in files if "hopscale_reproduction" in imported(file)]
    reproduction = SOURCE.with_name("hopscale_reproduction")
    assert any("hopscale" in imported(file) for file in reproduction.rglob("*.py"))


def test_its_commands_are_found_by_their_entry_point():
    (entry,) = (e for e in entry_points(group="hopscale.commands") if e.name == "reproduction")
    assert entry.value == "hopscale_reproduction.cli:register"
