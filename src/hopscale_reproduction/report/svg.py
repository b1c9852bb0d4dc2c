"""A static figure as an element of a page."""

import re

from hopscale_reproduction.chart import COLORS

_LONG = re.compile(r"scale\([^)]*\)|(\d+\.\d)\d+")
_ID = re.compile(r' id="([^"]*)"|((?:url\(|href=")#)([^")]*)')
_STYLE = re.compile(r' style="([^"]*)"')


def inline(text: str, name: str, label: str) -> str:
    """The figure as an element: small, in the page's colours, with identifiers of its own.

    Args:
        text: an SVG file.
        name: the prefix of its identifiers; short, because there are many.
        label: the text that screen readers read out; escaped.
    """
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = _LONG.sub(lambda match: match[1] or match[0], body)  # a glyph's scale needs all digits
    body = re.sub(r"\s*\n\s*", "\n", body)
    box = re.search(r'viewBox="[^"]*"', body)
    assert box is not None
    start = (
        f'<svg {box[0]} role="img" aria-label="{label}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    body = re.sub(r"<svg[^>]*>", start, body, count=1)
    return _classes(_names(body, name), name)


def _names(body: str, name: str) -> str:
    """Shorten the identifiers that are referred to, and remove the others."""
    short: dict[str, str] = {}
    for match in _ID.finditer(body):
        if match[3]:
            short.setdefault(match[3], f"{name}{len(short)}")

    def rename(match: re.Match) -> str:
        if match[3]:
            return match[2] + short[match[3]]
        return f' id="{short[match[1]]}"' if match[1] in short else ""

    return _ID.sub(rename, body)


def _classes(body: str, name: str) -> str:
    """Write recurring styles once, as classes."""
    styles: dict[str, str] = {}

    def shorten(match: re.Match) -> str:
        return f' class="{styles.setdefault(match[1], f"{name}s{len(styles)}")}"'

    body = _STYLE.sub(shorten, body)
    rules = "".join(f".{label}{{{_colors(style)}}}" for style, label in styles.items())
    return body.replace(">", f"><style>{rules}</style>", 1)


def _colors(style: str) -> str:
    """Replace the colours by those of the page, and remove the white background."""
    style = style.replace("fill: #ffffff", "fill: none")
    for name, value in COLORS.items():
        style = style.replace(value, f"var(--{name})")
    return style
