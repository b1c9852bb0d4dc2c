"""Brings KaTeX into the site when it is built, so that no network is needed to read it."""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

KATEX = "katex@0.19.1"
PLACE = Path(__file__).parent / "katex"
WANTED = ("katex.min.js", "katex.min.css", "fonts/*.woff2")


def on_pre_build(config) -> None:
    """A hook of mkdocs."""
    if not (PLACE / "katex.min.js").exists():
        fetch()


def fetch() -> None:
    if shutil.which("npm") is None:
        raise SystemExit("the site's formulas need KaTeX, which npm brings: install Node.js.")
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["npm", "pack", "--silent", KATEX],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        with tarfile.open(Path(folder) / packed.stdout.split()[-1]) as archive:
            archive.extractall(folder, filter="data")
        source = Path(folder) / "package" / "dist"
        for pattern in WANTED:
            for file in source.glob(pattern):
                target = PLACE / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)


if __name__ == "__main__":
    fetch()
