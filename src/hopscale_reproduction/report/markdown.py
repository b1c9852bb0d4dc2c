"""The report as Markdown, for a terminal."""

from hopscale_reproduction.report.blocks import (
    Block,
    Bullets,
    Claims,
    Content,
    Fold,
    Grid,
    Head,
    Image,
    Picture,
    Report,
    Stack,
    Text,
)

STATUS = {"yes": "✓", "partly": "◐", "no": "✗", "too short": "?", "not run": "–"}
MARKS = {"within": "✓", "high": "▲", "low": "▼", "not run": "", "unjudged": ""}
LEGEND = (
    "In comparison tables, each cell shows our value, with the paper's in brackets: ✓ within the "
    "criterion, ▲ above it, ▼ below it."
)


def render(report: Report) -> str:
    """The report as Markdown whose tables are aligned."""
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
        case Image(path=path, caption=caption):
            return [f"![{caption}]({path.parent.name}/{path.name})"]
        case Fold(summary, blocks):
            lines = [f"**{summary}**", ""]
            for inner in blocks:
                lines += [*_block(inner), ""]
            return lines[:-1]
        case Grid():
            return _grid(block)


def _grid(grid: Grid) -> list[str]:
    """A table, or one for each group of columns, because a terminal is narrow."""
    rows = [[_content(content) for content in row] for row in grid.rows]
    if not rows:
        return [f"{grid.caption} Not run."]
    lines, first = [grid.caption], 1
    for name, width in grid.groups[1:] or (("", len(grid.heads) - 1),):
        chosen = [0, *range(first, first + width)]
        heads = [grid.heads[i] for i in chosen]
        heads[0] = name or heads[0]
        lines += ["", *_aligned(heads, [[row[i] for i in chosen] for row in rows])]
        first += width
    return lines


def _aligned(heads: list[str], rows: list[list[str]]) -> list[str]:
    cells = [[text.replace("|", "\\|") for text in row] for row in [heads, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    rule = "|".join(["", *("-" * (width + 2) for width in widths), ""])
    lines = [_line(row, widths) for row in cells]
    return [lines[0], rule, *lines[1:]]


def _line(row: list[str], widths: list[int]) -> str:
    first, *rest = row
    cells = [first.ljust(widths[0])]
    cells += [text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)]
    return "| " + " | ".join(cells) + " |"


def _content(content: Content) -> str:
    if isinstance(content, Stack):
        paper = content.bottom.split(" · ")[0]
        ours = content.top.split(" ± ")[0]
        return f"{ours} ({paper}) {MARKS[content.mark]}".rstrip()
    return content
