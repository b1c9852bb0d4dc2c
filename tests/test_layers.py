"""The diagram of layers in docs/design.md: a module imports only what stands below it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "hopscale"
# Outside of the layers: the public names, and modules that stand for an adapter.
ENTRANCES = {"__init__", "__main__", "blackjax", "dimod", "numpyro", "pymc"}


def drawn() -> dict[str, int]:
    """The line of the diagram on which each folder or module stands."""
    diagram = (ROOT / "docs" / "design.md").read_text().split("above this line ---\n")[1]
    lines = diagram.split("```")[0].splitlines()
    names = [re.split(r"\s{2,}", line)[0] for line in lines]
    return {
        name.rstrip("/"): number
        for number, listed in enumerate(names)
        for name in listed.split(", ")
        if name
    }


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(source: str) -> Iterator[str]:
    """The folders and modules that a module of the package imports when it is imported."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module == "hopscale":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hopscale."):
            yield (node.module or "").split(".")[1]


def violations(line: dict[str, int], sources: dict[Path, str]) -> list[str]:
    found = []
    for path, source in sources.items():
        layer = layer_of(path)
        for other in imported(source):
            if layer not in ENTRANCES and other != layer and line[other] < line[layer]:
                found.append(f"{path.relative_to(PACKAGE)} imports {other}")
    return found


def test_every_folder_and_module_is_drawn():
    there = {layer_of(path) for path in PACKAGE.rglob("*.py")}
    assert set(drawn()) == there - ENTRANCES


def test_nothing_imports_what_stands_above_it():
    sources = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    assert violations(drawn(), sources) == []


def test_an_import_from_above_is_found():
    wrong = {PACKAGE / "native" / "cpu.py": "from hopscale import select, balance\n"}
    assert violations(drawn(), wrong) == ["native/cpu.py imports select"]
