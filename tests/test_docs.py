"""The documentation names everything that is public."""

import importlib.util
import inspect
import re
from functools import cached_property
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


def test_every_number_of_a_result_is_described():
    results = importlib.import_module("hopscale.results.statistic").Statistic
    candidate = importlib.import_module("hopscale.runs.comparison").Candidate
    for kind in (hs.Run, results, hs.Comparison, candidate, hs.Optimum, hs.check.Verdict):
        described = inspect.getdoc(kind) or ""
        for name in set(vars(kind)) | set(kind.__annotations__):
            found = vars(kind).get(name)
            if name.startswith("_") or inspect.isfunction(found):
                continue
            if isinstance(found, property | cached_property):
                assert found.__doc__, f"{kind.__name__}.{name}"
            else:
                assert re.search(rf"\b{name}\b", described), f"{kind.__name__}.{name}"
