"""The report as one self-contained page."""

import base64
import functools
import re
import string
from collections.abc import Sequence
from html import escape
from importlib import resources

from hopscale_reproduction import drawing
from hopscale_reproduction.report import explore, svg
from hopscale_reproduction.report.blocks import (
    Block,
    Bullets,
    Claim,
    Claims,
    Content,
    Fold,
    Grid,
    Head,
    Image,
    Picture,
    Report,
    Section,
    Stack,
    Text,
)
from hopscale_reproduction.snapshot import Snapshot

STATUS = {
    "yes": ("✓", "found"),
    "partly": ("◐", "found in part"),
    "no": ("✗", "not found"),
    "too short": ("?", "too short to judge"),
    "not run": ("–", "not run"),
}
MARKS = {
    "within": ("✓", "within the criterion"),
    "high": ("▲", "above the criterion"),
    "low": ("▼", "below the criterion"),
}
MOST_COLUMNS = 11  # that fit on the page
_NUMERIC = re.compile(r"^[×+−-]?[\d–.]")


def render(report: Report, drawn: dict[str, str], snapshot: Snapshot) -> str:
    """The page.

    Args:
        report: the content.
        drawn: SVG files of the figures, by name.
        snapshot: the source of the cells behind their points.
    """
    charts = [picture.chart for picture in report.pictures() if picture.chart.name in drawn]
    return string.Template(_file("page.html")).substitute(
        title=escape(report.title),
        facts=" · ".join(escape(fact) for fact in report.facts),
        style=_file("style.css"),
        contents="".join(map(_contents, report.sections)),
        sections="\n".join(_section(section, drawn) for section in report.sections),
        data=explore.payload(charts, snapshot),
        script=_file("script.js"),
    )


@functools.cache
def _file(name: str) -> str:
    folder = resources.files("hopscale_reproduction.report")
    return folder.joinpath(name).read_text(encoding="utf-8")


def _contents(section: Section) -> str:
    heads = [block for block in section.blocks if isinstance(block, Head)]
    inner = "".join(f'<li><a href="#{h.name}">{escape(h.title)}</a></li>' for h in heads)
    link = f'<a href="#{section.name}">{escape(section.title)}</a>'
    return f"<li>{link}{f'<ol>{inner}</ol>' if inner else ''}</li>"


def _section(section: Section, drawn: dict[str, str]) -> str:
    body = "\n".join(_block(block, drawn) for block in section.blocks)
    return f'<section id="{section.name}"><h2>{escape(section.title)}</h2>\n{body}</section>'


def _block(block: Block, drawn: dict[str, str]) -> str:
    match block:
        case Text(text):
            return f"<p>{markup(text)}</p>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{markup(item)}</li>' for item in items)}</ul>"
        case Claims(items):
            return f'<ul class="claims">{"".join(map(_claim, items))}</ul>'
        case Head(name, title):
            return f'<h3 id="{name}">{escape(title)}</h3>'
        case Fold(summary, blocks):
            body = "\n".join(_block(inner, drawn) for inner in blocks)
            return f"<details><summary>{markup(summary)}</summary>\n{body}</details>"
        case Picture():
            return _picture(block, drawn)
        case Image(path=path, caption=caption):
            return _image(path.read_bytes(), markup(caption))
        case Grid():
            return _grid(block)


def markup(text: str) -> str:
    """Text escaped for HTML, with `code` and exponents formatted."""
    text = escape(text)
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    return re.sub(r"\^(?:\(([^)]*)\)|(\d))", lambda m: f"<sup>{m[1] or m[2]}</sup>", text)


def _claim(claim: Claim) -> str:
    sign, spoken = STATUS[claim.status]
    kind = claim.status.replace(" ", "-")
    found = markup(claim.found) if claim.found else "Not run."
    return (
        f'<li class="{kind}"><span class="sign" role="img" aria-label="{spoken}">{sign}</span>'
        f"<div><strong>{markup(claim.claim)}</strong><br>{found}</div></li>"
    )


def _picture(picture: Picture, drawn: dict[str, str]) -> str:
    name, caption = picture.chart.name, markup(picture.caption)
    if name not in drawn:
        return f'<p class="missing">{caption} Not run.</p>'
    width = 58 * drawing.width(picture.chart) / drawing.WIDTH
    narrow = " narrow" if len(picture.chart.panels) == 1 else ""  # fits a phone
    order = list(drawn).index(name)
    image = svg.inline(drawn[name], f"f{order}-", escape(picture.chart.title))
    return (
        f'<figure data-chart="{name}"><div class="views" role="group" aria-label="view">'
        '<button type="button" data-view="figure" aria-pressed="true">Figure</button>'
        '<button type="button" data-view="explore" aria-pressed="false">Explore</button></div>'
        f'<div class="figure{narrow}" style="max-width: {width:.1f}rem">{image}</div>'
        '<div class="explore" hidden></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _image(png: bytes, caption: str) -> str:
    data = base64.b64encode(png).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{caption}">'
    return f'<figure class="image">{image}<figcaption>{caption}</figcaption></figure>'


def _grid(grid: Grid) -> str:
    """A table; if it is too wide for the page, one table for each group of columns."""
    if len(grid.groups) < 2 or len(grid.heads) <= MOST_COLUMNS:
        return _table(grid)
    first, parts = 1, []
    for name, width in grid.groups[1:]:
        columns = [0, *range(first, first + width)]
        parts.append(
            grid._replace(
                caption="",
                heads=[grid.heads[i] for i in columns],
                rows=[[row[i] for i in columns] for row in grid.rows],
                groups=(("", 1), (name, width)),
            )
        )
        first += width
    caption = f'<p class="caption">{markup(grid.caption)}</p>'
    return f'{caption}<div class="side-by-side">{"".join(map(_table, parts))}</div>'


def _table(grid: Grid) -> str:
    groups = ""
    if grid.groups:
        cells = "".join(
            f'<th colspan="{span}" scope="colgroup">{markup(name)}</th>'
            for name, span in grid.groups
        )
        groups = f'<tr class="groups">{cells}</tr>'
    heads = "".join(f'<th scope="col">{markup(head)}</th>' for head in grid.heads)
    rows = "\n".join(_row(row, i in grid.rules) for i, row in enumerate(grid.rows))
    if not grid.rows:
        rows = f'<tr class="not-run"><th scope="row" colspan="{len(grid.heads)}">not run</th></tr>'
    wide = " wide" if len(grid.heads) > 8 else ""
    caption = f'<p class="caption">{markup(grid.caption)}</p>' if grid.caption else ""
    return (
        f'<div class="grid{wide}">{caption}'
        f'<div class="scroll" tabindex="0" role="region" aria-label="table"><table><thead>{groups}'
        f"<tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></div>"
    )


def _row(row: Sequence[Content], ruled: bool) -> str:
    first, *rest = row
    head = f'<th scope="row">{markup(first) if isinstance(first, str) else markup(first.top)}</th>'
    return f"<tr{' class=rule' if ruled else ''}>{head}{''.join(map(_content, rest))}</tr>"


def _content(content: Content) -> str:
    if isinstance(content, str):
        kind = ' class="number"' if _NUMERIC.match(content) else ""
        return f"<td{kind}>{markup(content)}</td>"
    return _stack(content)


def _stack(stack: Stack) -> str:
    sign, spoken = MARKS.get(stack.mark, ("", ""))
    mark = f'<span class="mark" role="img" aria-label="{spoken}">{sign}</span>' if sign else ""
    kind = stack.mark.replace(" ", "-")
    detail = f' data-detail="{escape(stack.detail)}" tabindex="-1"' if stack.detail else ""
    return (
        f'<td class="stack {kind}"{detail}>'
        f"<b>{escape(stack.top)}</b>{mark}<small>{escape(stack.bottom)}</small></td>"
    )
