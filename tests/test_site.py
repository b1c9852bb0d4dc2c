"""The documentation builds without warnings, and its pages open in a browser."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import browser

ROOT = Path(__file__).parent.parent
VENDORED = ROOT / "docs" / "assets" / "vendor" / "index.js"


def build(site: Path, root: Path = ROOT) -> subprocess.CompletedProcess:
    """`mkdocs build --strict`; without KaTeX if npm's registry is out of reach.

    With `--quiet` warnings would not be counted, and `--strict` would let all of them pass.
    """
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", site]
    settings = {"FORMULAS": "source", "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        command,
        cwd=root,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_site_builds_without_warnings_and_its_pages_are_in_order(tmp_path):
    """One test, so that the site is built once: each worker would build its own."""
    for package in ("mkdocs", "playwright"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: `make docs` installs and builds")
    built = build(tmp_path)
    assert built.returncode == 0, built.stderr[-3000:]
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        assert "https://unpkg.com" not in page.read_text()
    reference = (tmp_path / "reference.html").read_text()
    returned = re.findall(r"Returns:.*?</ul>", reference, re.DOTALL)
    assert [section.count("<li ") for section in returned] == [1] * len(returned) != []
    if not VENDORED.exists():
        pytest.skip("built, with formulas as LaTeX: npm, which brings KaTeX, is not to be had")
    if (found := browser.find()) is None:
        pytest.skip("built; no browser to open it in: `python tests/browser.py` fetches one")
    opened = [page for page in pages if page.name != "404.html"]
    assert browser.look(found, opened) == {}


@pytest.mark.parametrize("link", ["missing.md", "index.md#missing"])
def test_a_link_to_nothing_stops_the_build(link, tmp_path):
    pytest.importorskip("mkdocs")
    rules = re.findall(r"^validation: .*$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text("\n".join(["site_name: small", *rules]))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"[a page]({link})")
    built = build(tmp_path / "site", root=tmp_path)
    assert built.returncode == 1
    assert link in built.stderr


def test_a_page_with_every_fault_is_found_out(tmp_path):
    found = browser.find()
    if found is None or find_spec("playwright") is None:
        pytest.skip("no browser, or no Playwright to drive it")
    (tmp_path / "bad.html").write_text(
        "<!doctype html><article>$$x^2$$ <p>so \\frac{1}{2}</p>"
        '<img src="missing.png"><div style="width: 2000px">wide</div>'
        "<table style='width: 1900px'><tr><td>cut</td></tr></table>"
        "<script>undefined_function()</script></article>"
    )
    wrong = browser.look(found, [tmp_path / "bad.html"], widths=(390,), schemes=("light",))
    (said,) = wrong.values()
    words = " ".join(said)
    for what in ("undefined_function", "wider", "cut off", "as LaTeX", "missing"):
        assert what in words
