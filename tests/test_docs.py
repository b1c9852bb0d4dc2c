"""The documentation names everything that is public."""

import importlib.util
import re
from pathlib import Path

import hopscale as hs

REFERENCE = Path(__file__).parent.parent / "docs" / "reference.md"
PARTS = {
    "paper": "hopscale.paper.instances",
    "learn": "hopscale.learn.",
    "clamp": "hopscale.targets.clamp.",
}


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"^::: (\S+)", REFERENCE.read_text(), re.MULTILINE)
    for name in hs.__all__:
        where = PARTS.get(name, f"hopscale.{name}")
        assert any(entry.startswith(where) for entry in listed), name
    for name in set(hs.learn.__all__) - {"log_z"}:  # hs.log_z
        assert f"hopscale.learn.{name}" in listed, name


def test_every_entry_of_the_reference_exists():
    for entry in re.findall(r"^::: (\S+)", REFERENCE.read_text(), re.MULTILINE):
        module, _, name = entry.rpartition(".")
        if module == "hopscale" and name in hs._EXTRAS:
            assert importlib.util.find_spec(entry), entry
        elif module == "hopscale":
            assert hasattr(hs, name), entry
        else:
            assert hasattr(importlib.import_module(module), name) or importlib.import_module(entry)
