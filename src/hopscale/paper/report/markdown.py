"""The report for a terminal."""

from hopscale.paper.report.blocks import (
    Block,
    Bullets,
    Claims,
    Content,
    Fold,
    Grid,
    Head,
    Picture,
    Report,
    Stack,
    Text,
)

STATUS = {"yes": "✓", "partly": "◐", "no": "✗", "not run": "–"}
MARKS = {"within": "✓", "high": "▲", "low": "▼", "not run": "", "unjudged": ""}
LEGEND = (
    "In tables that compare, a cell is ours with the paper's in brackets: ✓ within the criterion, "
    "▲ above it, ▼ below it."
)


def render(report: Report) -> str:
    """The whole report as Markdown whose tables are aligned."""
    lines = [f"# {report.title}", "", "A reproduction: " + " · ".join(report.facts), "", LEGEND, ""]
    for section in report.sections:
        lines += [f"## {section.title}", ""]
        for block in section.blocks:
            lines += [*_block(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def _block(block: Block) -> list[str]:
    match block:
        case Text(text):
            return [text]
        case Bullets(items):
            return [f"- {item}" for item in items]
        case Claims(items):
            return [f"- {STATUS[c.status]} {c.claim}. {c.found or 'Not run.'}" for c in items]
        case Head(_, title):
            return [f"### {title}"]
        case Picture(chart, caption):
            if chart.empty:
                return [f"{caption} Not run."]
            return [f"![{caption}](figures/{chart.name}.png)"]
        case Fold(summary, blocks):
            lines = [f"**{summary}**", ""]
            for inner in blocks:
                lines += [*_block(inner), ""]
            return lines[:-1]
        case Grid():
            return _grid(block)


def _grid(grid: Grid) -> list[str]:
    heads = _heads(grid)
    rows = [[_content(content) for content in row] for row in grid.rows]
    if not rows:
        return [f"{grid.caption} Not run."]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    rule = "|".join(["", *("-" * (width + 2) for width in widths), ""])
    lines = [_line(heads, widths), rule, *(_line(row, widths) for row in rows)]
    return [grid.caption, "", *lines]


def _heads(grid: Grid) -> list[str]:
    """Markdown has one row of heads: a group's name goes into each of its columns."""
    groups = [name for name, span in grid.groups for _ in range(span)] or [""] * len(grid.heads)
    return [f"{group} {head}".strip() for group, head in zip(groups, grid.heads, strict=True)]


def _line(row: list[str], widths: list[int]) -> str:
    first, *rest = (text.replace("|", "\\|") for text in row)
    cells = [first.ljust(widths[0])]
    cells += [text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)]
    return "| " + " | ".join(cells) + " |"


def _content(content: Content) -> str:
    if isinstance(content, Stack):
        paper = content.bottom.split(" · ")[0]
        ours = content.top.split(" ± ")[0]
        return f"{ours} ({paper}) {MARKS[content.mark]}".rstrip()
    return content
