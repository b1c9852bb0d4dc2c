"""The pages of the site run as they stand, and leave the pictures they show."""

import re
from pathlib import Path

import jax
import matplotlib
import pytest

matplotlib.use("Agg")
DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("gallery/*.md")])


def blocks(page: Path) -> str:
    """A page's Python, with its line numbers."""
    text, lines, inside = page.read_text(), [], False
    for line in text.splitlines():
        fence = line.strip().startswith("```")
        lines.append("" if fence or not inside else line)
        inside = line.strip() == "```python" if fence else inside
    return "\n".join(lines)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_examples_side_by_side_run(capsys):
    for package in ("blackjax", "numpyro", "arviz"):
        pytest.importorskip(package)
    page = DOCS / "coming-from.md"
    with jax.numpy_rank_promotion("allow"):
        exec(compile(blocks(page), page.name, "exec"), {"__name__": "page"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_and_leaves_its_picture(page, tmp_path, monkeypatch, capsys):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    with jax.numpy_rank_promotion("allow"):
        exec(compile(blocks(page), page.name, "exec"), {"__name__": "page"})
    plt.close("all")
    pictures = re.findall(r"!\[.*?\]\((\.\./assets/pages/(.*?))\)", page.read_text())
    assert pictures
    for path, name in pictures:
        assert (tmp_path / name).stat().st_size > 1_000
        assert (page.parent / path).exists()
