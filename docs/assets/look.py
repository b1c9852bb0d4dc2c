"""Opens every page of the built site in a browser, wide and narrow, light and dark.

python docs/assets/look.py site --browser /path/to/chromium [--pictures FOLDER]

Needs Playwright. Fails if a page has an error in its console, a formula that was not set, a picture
that is missing, or is wider than the window.
"""

import argparse
import itertools
import os
import sys
from pathlib import Path

LOOK = r"""() => ({
  width: document.documentElement.scrollWidth,
  raw: (document.querySelector("article").innerText.match(/\$\$|\\\[|\\\(/g) || []).length,
  unset: document.querySelectorAll(".katex-error").length,
  missing: [...document.images].filter((image) => !image.naturalWidth).length,
})"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("site", type=Path)
    parser.add_argument("--browser")
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    pages = [page for page in sorted(options.site.rglob("*.html")) if page.name != "404.html"]
    wrong = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=options.browser,
            args=["--no-sandbox", "--headless", "--disable-gpu"],
            env={**os.environ},
        )
        for width, scheme in itertools.product((1280, 390), ("light", "dark")):
            view = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            errors: list[str] = []
            view.on("console", lambda m, e=errors: e.append(m.text) if m.type == "error" else None)
            view.on("pageerror", lambda error, e=errors: e.append(str(error)))
            for page in pages:
                errors.clear()
                view.goto(page.resolve().as_uri())
                view.wait_for_timeout(200)
                found = view.evaluate(LOOK)
                bad = errors + [n for n in ("raw", "unset", "missing") if found[n]]
                bad += ["too wide"] if found["width"] > width else []
                wrong += bool(bad)
                if bad:
                    print(width, scheme, page.relative_to(options.site), bad)
                if options.pictures:
                    name = f"{page.stem}-{width}-{scheme}.png"
                    view.screenshot(path=options.pictures / name)
        browser.close()
    print(f"{len(pages)} pages, {wrong} of {4 * len(pages)} looks found something wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
