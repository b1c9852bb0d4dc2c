"""The report of `hopscale reproduce`: the paper's cells and ours, side by side."""

from collections import Counter
from pathlib import Path

from hopscale import whole
from hopscale_reproduction import figures
from hopscale_reproduction.experiments import sampling as experiments
from hopscale_reproduction.report import (
    differences,
    html,
    made,
    markdown,
    pictures,
    sampling,
    theory,
    training,
)
from hopscale_reproduction.report.blocks import Claims, Report, Section, Text
from hopscale_reproduction.report.claims import claims
from hopscale_reproduction.store import Store
from hopscale_reproduction.views import comparison, theorems
from hopscale_reproduction.views.book import Book

__all__ = ["build", "write"]

TITLE = "Optimal Scaling for Locally Balanced Proposals in Discrete Spaces"


def write(out: Path, store: Store, profile: str) -> Path:
    """Write `report.html`, `report.md` and `figures/` into a folder.

    What is missing in the store is shown as not run. The sites needed (Tables 3 and 4) are
    computed here, and kept in the store.

    Args:
        out: the folder; made if it is not there.
        store: the results.
        profile: "quick" or "paper", whose cells to show.

    Returns:
        The page's path.
    """
    theorems.fill_needed(store)
    book = Book(store, profile)
    report = build(book, out)
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {
        picture.chart.name: figures.write(folder, picture.chart).decode()
        for picture in report.pictures()
        if not picture.chart.empty
    }
    whole.write(out / "report.md", markdown.render(report).encode())
    whole.write(out / "report.html", html.render(report, drawn, book).encode())
    return out / "report.html"


def build(book: Book, out: Path | None = None) -> Report:
    """The report, apart from how it is written down; with pictures, if it has a folder."""
    tables = {model: comparison.table(book, model) for model in experiments.TITLES}
    tables = {model: table for model, table in tables.items() if table.columns}
    return Report(
        title=TITLE,
        facts=_facts(book),
        sections=[
            _headline(book, tables),
            sampling.table_1(book, tables),
            sampling.performance(book, tables),
            sampling.order(book),
            differences.section(book, tables),
            theory.section(book),
            training.section(book),
            *([] if out is None else [pictures.section(out)]),
            sampling.all_tables(book, tables),
            made.section(book),
        ],
    )


def _headline(book: Book, tables: dict[str, comparison.Table]) -> Section:
    text = (
        "The paper says how many sites a Metropolis-Hastings step in a discrete space should "
        "change: so many that 57.4% of proposals are accepted for locally balanced proposals, "
        "23.4% for the random walk. What it claims, and what these runs found:"
    )
    return Section("short", "In short", [Text(text), Claims(claims(book, tables))])


def _facts(book: Book) -> list[str]:
    shown = book.shown()
    machines = Counter(row["hardware"] for row in shown)
    names = [name for name, _ in machines.most_common()]
    return [f"{book.profile} profile", f"{len(shown):,} runs", *names]
