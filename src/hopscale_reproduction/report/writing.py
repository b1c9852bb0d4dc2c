"""Building a report from the parts that experiments supply, and writing it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hopscale_reproduction import drawing, files
from hopscale_reproduction.experiment import Experiment, Part
from hopscale_reproduction.report import html, markdown, provenance
from hopscale_reproduction.report.blocks import Block, Claim, Claims, Report, Section, Text
from hopscale_reproduction.report.outline import APPENDIX, BODY, CLAIMS, SHORT, Heading, place
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.store import Store

TITLE = "Optimal Scaling for Locally Balanced Proposals in Discrete Spaces"
PICTURES = "pictures"


def write(
    out: Path, store: Store, profile: str, experiments: Sequence[Experiment] | None = None
) -> Path:
    """Write `report.html`, `report.md` and `figures/` into a folder.

    Cells that are missing from the store are shown as not run.

    Args:
        out: the folder; created if it does not exist.
        store: the results; only read.
        profile: "quick" or "paper", whose cells to show.
        experiments: the experiments to show; by default all that are registered.

    Returns:
        The path of the page.
    """
    snapshot = Snapshot(store, profile, experiments, pictures=out / PICTURES)
    report = build(snapshot)
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for image in report.images():
        if image.draw is not None and not image.path.exists():
            image.path.parent.mkdir(parents=True, exist_ok=True)
            files.write(image.path, image.draw())
    drawn = {
        picture.chart.name: drawing.write(folder, picture.chart).decode()
        for picture in report.pictures()
        if not picture.chart.empty
    }
    files.write(out / "report.md", markdown.render(report).encode())
    files.write(out / "report.html", html.render(report, drawn, snapshot).encode())
    return out / "report.html"


def build(snapshot: Snapshot) -> Report:
    """The report, independent of the output format."""
    every = [part for experiment in snapshot.experiments.values() for part in experiment.parts]
    parts = list(dict.fromkeys(every))
    outlined = {heading.name for heading in (SHORT, *BODY, *APPENDIX)}
    others = {
        part.section: Heading(part.section, part.title or part.section.capitalize())
        for part in reversed(parts)
        if part.section not in outlined
    }
    headings = (*BODY, *reversed(others.values()), *APPENDIX)
    sections = [_section(heading, parts, snapshot) for heading in headings]
    return Report(
        title=TITLE,
        facts=_facts(snapshot),
        sections=[
            _headline(snapshot, parts),
            *(section for section in sections if section.blocks),
            provenance.section(snapshot),
        ],
    )


def claims(snapshot: Snapshot) -> list[Claim]:
    """The paper's claims, and what was found."""
    every = [judge for one in snapshot.experiments.values() for judge in one.claims]
    found = [judge(snapshot) for judge in dict.fromkeys(every)]
    return sorted(found, key=lambda claim: place(claim.name, CLAIMS))


def _section(heading: Heading, parts: list[Part], snapshot: Snapshot) -> Section:
    mine = [part for part in parts if part.section == heading.name]
    content: list[Block] = []
    for part in sorted(mine, key=lambda part: place(part.name, heading.parts)):
        content += part.blocks(snapshot)
    return Section(heading.name, heading.title, content)


def _headline(snapshot: Snapshot, parts: list[Part]) -> Section:
    text = (
        "The paper says how many sites (the scale R) a Metropolis-Hastings step in a discrete "
        "space should change: the number at which the acceptance rate is 57.4% for locally "
        "balanced proposals (LBP), and 23.4% for the random walk (RWM). Its claims, and what these "
        "runs found:"
    )
    section = _section(SHORT, parts, snapshot)
    return section._replace(blocks=[*section.blocks, Text(text), Claims(claims(snapshot))])


def _facts(snapshot: Snapshot) -> list[str]:
    runs = snapshot.runs()
    machines = Counter(row["hardware"] for row in runs)
    names = [name for name, _ in machines.most_common()]
    return [f"{snapshot.profile} profile", f"{len(runs):,} runs", *names]
