"""Sections on the theory: jump process, fair coins, sites needed."""

import itertools

from hopscale_reproduction import charts
from hopscale_reproduction.report.blocks import Block, Grid, Head, Picture, Section, Text
from hopscale_reproduction.views import theorems
from hopscale_reproduction.views.book import Book
from hopscale_reproduction.words import STATISTIC_WORDS, number, percent, significant, span


def section(book: Book) -> Section:
    return Section("theory", "The theory's claims", [*_jumps(book), *_fair(book), *_finite(book)])


def _jumps(book: Book) -> list[Block]:
    found = theorems.jumps(book)
    rows = [
        [
            STATISTIC_WORDS[j.statistic],
            f"{j.correlation:.3f}",
            number(j.below),
            significant(j.factor),
            percent(j.misfit),
            f"{j.best_rate:.3f}",
        ]
        for j in found
    ]
    heads = ["test function", "r", "r up to the best R", "factor", "misfit", "shortest at"]
    size = f"N = {found[0].cells[0][0].size}" if found else "the profile's N"
    return [
        Head("jumps", "Jump distance as the measure"),
        Text(
            "The paper argues (Appendix B.1) that in the limit a site is a jump process of which "
            "only the speed depends on the scale, so that over scales the inverse autocorrelation "
            "time of every test function is proportional to the jump distance. Here: independent "
            f"bits with p = 1/4, {size}, LBP with scales from a tenth of the best to twice it. "
            + _jump_words(found)
            + "With all p equal the log-probability is a linear function of the number of ones: "
            "these two coincide."
        ),
        Picture(
            charts.jumps(book),
            "Inverse autocorrelation time against jump distance; the line through the origin is "
            "fitted to all scales.",
        ),
        Grid(
            "Proportionality over scales: correlation, the fitted factor, the root mean square of "
            "relative residuals, and the acceptance rate of the shortest autocorrelation time.",
            heads,
            rows,
        ),
    ]


def _jump_words(found: list[theorems.Jump]) -> str:
    below = [jump.below for jump in found]
    if not found or not min(below) > 0.95 or min(j.correlation for j in found) > 0.95:
        return ""
    return (
        "Up to the best scale the proportionality holds; beyond it chains stay where they are for "
        "long, and the same jump distance goes with a longer memory. "
    )


def _fair(book: Book) -> list[Block]:
    found = theorems.fairs(book)
    betas = sorted({f.beta for f in found})
    rows = []
    for size in dict.fromkeys(f.size for f in found):
        by_beta = {f.beta: f for f in found if f.size == size}
        rows.append([f"N = {size:,}", *(_best(by_beta.get(beta)) for beta in betas)])
    heads = ["sites", *(f"β = {beta:g}" for beta in betas)]
    return [
        Head("fair", "The random walk near fair coins"),
        Text(
            "Theorem 2 is about targets whose p approach 1/2 as N^(-β): there the random walk's "
            "best scale grows as N^(2β), and its best acceptance rate is 0.234 whatever β. The "
            "grey line is the limit. Where changing all N sites at once moves furthest, no rate is "
            "the best, and the table has a dash."
        ),
        Picture(charts.fair(book), "Jump distance over its best, against acceptance, RWM."),
        Grid(
            "Best acceptance rate (a cubic through all rates), and the R tuned for 0.234.",
            heads,
            rows,
        ),
    ]


def _best(found: theorems.Fair | None) -> str:
    if found is None:
        return "not run"
    scale = "–" if found.scale is None else f"{found.scale:.1f}"
    return f"{number(found.best)} (R = {scale})"


def _finite(book: Book) -> list[Block]:
    found = theorems.needed(book)
    rows = [
        [
            "1/2 − ε" if row.case == "half" else "ε",
            f"{row.epsilon:g}",
            f"{row.paper}",
            f"{row.ours['reversed']}",
            f"{row.ours['same']}",
            number(row.best_rate, 2),
            "–" if row.best_share is None else f"{row.best_share:.2f} N",
        ]
        for row in found
    ]
    heads = ["p", "ε", "paper's N", "ours, reversed", "ours, same order", "best rate", "best R"]
    grid = Grid(
        "Tables 3 and 4. Sites needed; and, at the paper's N, the acceptance rate and the size of "
        "the scale with the largest jump distance.",
        heads,
        rows,
        rules=(4,) if len(rows) > 4 else (),
    )
    picture = Picture(charts.finite(book), "Sites needed for the rate 0.574 against ε.")
    return [Head("finite", "Sites needed"), Text(_finite_words(found)), picture, grid]


def _finite_words(found: list[theorems.Needed]) -> str:
    half = [row for row in found if row.case == "half"]
    zero = [row for row in found if row.case == "zero"]
    text = (
        "The paper gives (Tables 3 and 4) how many sites are needed for the best rate to be 0.574 "
        "when all p are 1/2 − ε or ε. It does not say how that was decided; ours is the least N at "
        "which some scale is accepted at 0.574 in equilibrium, within two per cent. "
    )
    if half and zero:
        ours = [_growth([row.ours["reversed"] for row in rows]) for rows in (half, zero)]
        paper = [_growth([row.paper for row in rows]) for rows in (half, zero)]
        text += (
            "Orders of ε^(-2) and ε^(-1) would multiply N by 4 and 2 where ε is halved: with the "
            f"reversed path it grows by {ours[0]} and {ours[1]}, in the paper's tables by "
            f"{paper[0]} and {paper[1]}. "
        )
    rates = [row.best_rate for row in half if row.best_rate is not None]
    if rates:
        text += (
            "That some scale is accepted at 0.574 does not make it the best one: at the paper's N "
            "near 1/2 the largest jump distance is had at rates of "
            f"{min(rates):.2f} to {max(rates):.2f}."
        )
    return text


def _growth(sites: list[int]) -> str:
    """From one ε to the next, half as large."""
    return span([b / a for a, b in itertools.pairwise(sites)], 1) if len(sites) > 1 else "–"
