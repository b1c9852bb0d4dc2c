"""Brings into the site, when it is built, what it would otherwise load from the network.

KaTeX sets the formulas; iframe-worker makes the search work in pages opened from a folder.
"""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

PLACE = Path(__file__).parent / "vendor"
PACKAGES = {
    "katex@0.19.1": ("dist", ("katex.min.js", "katex.min.css", "fonts/*.woff2")),
    "iframe-worker@1.0.4": ("shim", ("index.js",)),
}
SHIM = "https://unpkg.com/iframe-worker/shim"


def on_pre_build(config) -> None:
    """A hook of mkdocs."""
    if not (PLACE / "index.js").exists():
        fetch()


def on_post_page(output: str, page, config) -> str:
    """A hook of mkdocs: the shim of the search comes from the site."""
    up = "../" * page.url.count("/")
    return output.replace(SHIM, f"{up}assets/vendor/index.js")


def fetch() -> None:
    if shutil.which("npm") is None:
        raise SystemExit("the site's formulas need KaTeX, which npm brings: install Node.js.")
    for package, (inside, patterns) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["npm", "pack", "--silent", package],
                cwd=folder,
                check=True,
                capture_output=True,
                text=True,
            )
            with tarfile.open(Path(folder) / done.stdout.split()[-1]) as archive:
                archive.extractall(folder, filter="data")
            source = Path(folder) / "package" / inside
            for file in (found for pattern in patterns for found in source.glob(pattern)):
                target = PLACE / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)


if __name__ == "__main__":
    fetch()
