"""Runs the pages' code and keeps the pictures they show: draw_pages.py [PAGE]."""

import os
import sys
from pathlib import Path

import matplotlib

ROOT = Path(__file__).resolve().parents[2]


def main(names: list[str]) -> None:
    matplotlib.use("Agg")
    sys.path.insert(0, str(ROOT / "tests"))
    from test_pages import PAGES, blocks

    os.chdir(ROOT / "docs" / "assets" / "pages")
    for page in PAGES:
        if not names or page.stem in names:
            print(page.stem, flush=True)
            exec(compile(blocks(page), page.name, "exec"), {"__name__": "page"})


if __name__ == "__main__":
    main(sys.argv[1:])
