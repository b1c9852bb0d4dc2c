"""Draws README's badges: badges.py TEXT=VALUE=FILE ... Their numbers are tested where README's are.

python docs/assets/badges.py "the paper's numbers=770 of 783 agree=numbers"
"""

import sys
from pathlib import Path

PLACE = Path(__file__).parent / "badges"
LETTER = 6.6  # pixels

BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img">
<title>{text}: {value}</title>
<rect width="{width}" height="20" rx="3" fill="#555"/>
<path d="M{left} 0h{right}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{right}z" fill="#3b5bdb"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left_middle}" y="14">{text}</text><text x="{right_middle}" y="14">{value}</text></g></svg>
"""


def badge(text: str, value: str) -> str:
    left, right = (round(LETTER * len(part)) + 12 for part in (text, value))
    return BADGE.format(
        width=left + right,
        left=left,
        right=right - 3,
        left_middle=left / 2,
        right_middle=left + right / 2,
        text=text,
        value=value,
    )


if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    for argument in sys.argv[1:]:
        text, value, name = argument.split("=")
        (PLACE / f"{name}.svg").write_text(badge(text, value))
