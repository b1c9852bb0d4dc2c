"""How many sites the rate 0.574 needs (Appendix B.2, Tables 3 and 4).

With p near 1/2 and few sites, the acceptance rate stays above 0.574 even when all N sites are
flipped. With p near 0 and few sites, it is below 0.574 even when one site is flipped. In both cases
there is a first N at which 0.574 can be reached. Rates are estimated from independent exact draws,
not from chains: with all p equal, a state is described by its number of ones.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hopscale_reproduction import printed
from hopscale_reproduction.chart import Chart, Panel, Point, Series, line
from hopscale_reproduction.checks import check, check_names
from hopscale_reproduction.experiment import Context, Experiment, Find, Part, Results
from hopscale_reproduction.fits import slope
from hopscale_reproduction.formatting import number, span
from hopscale_reproduction.report.blocks import Block, Claim, Grid, Head, Picture, Text
from hopscale_reproduction.revisions import with_revision
from hopscale_reproduction.snapshot import Snapshot

NAME = "finite"
RATE = 0.574
HALF, ZERO = "half", "zero"  # the value that p is close to
EPSILONS = {HALF: (0.1, 0.05, 0.025, 0.0125), ZERO: (0.01, 0.005, 0.0025, 0.00125)}
PATHS = ("reversed", "same")
BEST = {"best_rate": "a number or null", "best_share": "a number or null"}


@dataclasses.dataclass(frozen=True)
class SitesCell:
    """One entry of Tables 3 and 4: p = 1/2 - epsilon, or p = epsilon."""

    kind: ClassVar[str] = NAME

    case: str
    epsilon: float

    @property
    def p(self) -> float:
        return 0.5 - self.epsilon if self.case == HALF else self.epsilon

    def settings(self) -> dict[str, Any]:
        own = {"experiment": NAME, "case": self.case, "epsilon": self.epsilon, "rate": RATE}
        return with_revision(own, NAME)

    @staticmethod
    def check(settings: dict[str, Any], results: dict[str, Any]) -> None:
        """Raise a ValueError if they cannot be those of such an entry."""
        needed = {"experiment": "text", "case": "text", "epsilon": "a number", "rate": "a number"}
        check("settings", settings, needed)
        check_names("settings", settings, needed)
        check("results", results, {"ours": "an object", **BEST})
        check("results.ours", results["ours"], dict.fromkeys(PATHS, "an integer"))


def cells(profile: str, find: Find) -> Iterator[SitesCell]:
    """All entries, the same in both profiles."""
    for case, epsilons in EPSILONS.items():
        for epsilon in epsilons:
            yield SitesCell(case, epsilon)


class Count:
    """Computes the sites needed with both orders of the way back, and the best scale.

    The best scale is that at the paper's number of sites.
    """

    def run(self, cell: SitesCell, context: Context) -> Results:
        ours = {path: sites_needed(cell.p, cell.case, path) for path in PATHS}
        rate, share = None, None
        if cell.case == HALF:
            rate, share = best_scale(printed.sites(cell.case, cell.epsilon), cell.p)
        return {"ours": ours, "best_rate": rate, "best_share": share}

    def stored(self, cell: SitesCell, results: Results, context: Context) -> None:
        pass


# Numbers


def acceptance_rate(
    n: int, p: float, scale: int, path: str, samples: int = 40_000, seed: int = 0
) -> float:
    """The acceptance rate of LBP with g = sqrt in equilibrium, each site 1 with probability p."""
    rng = np.random.default_rng(seed)
    odds = p / (1.0 - p)
    weight = np.sqrt([odds, 1.0 / odds])  # of flipping a 0, of flipping a 1
    ones = rng.binomial(n, p, samples)
    left = np.stack([n - ones, ones]).astype(float)  # zeros and ones not yet chosen
    forward, backward, ratio = np.zeros((3, samples))
    back = np.zeros((scale, samples))  # weights of the chosen sites at y
    for r in range(scale):
        total = weight @ left
        pick = (rng.random(samples) * total < weight[1] * left[1]).astype(int)
        left[pick, np.arange(samples)] -= 1
        forward += np.log(weight[pick] / total)
        back[r] = weight[1 - pick]
        ratio += np.where(pick == 1, -1.0, 1.0) * np.log(odds)
    untouched = weight @ left
    # The way back chooses the same sites, in reversed or in the same order.
    order = slice(None) if path == "reversed" else slice(None, None, -1)
    backward = np.sum(np.log(back[order] / (untouched + np.cumsum(back[order], axis=0))), axis=0)
    return float(np.mean(np.minimum(1.0, np.exp(ratio + backward - forward))))


def sites_needed(p: float, case: str, path: str) -> int:
    """The smallest N at which some scale has an acceptance rate of 0.574."""

    def reached(n: int) -> bool:
        if case == HALF:
            return acceptance_rate(n, p, n, path) <= RATE
        return acceptance_rate(n, p, 1, path) >= RATE

    low, high = 1, 2
    while not reached(high):
        low, high = high, 2 * high
    while high - low > max(1, low // 50):  # within two per cent
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def best_scale(n: int, p: float, samples: int = 10_000) -> tuple[float, float]:
    """Acceptance rate and R / N where R a(R) is largest, from cubics over scales near the top."""
    scales = np.unique(np.linspace(0.7 * n, n, 9).astype(int))
    rates = np.array([acceptance_rate(n, p, int(r), "reversed", samples) for r in scales])
    shares = scales / n
    fine = np.arange(scales[0], n + 1) / n
    distance = np.polyval(np.polyfit(shares, np.log(scales * rates), 3), fine)
    share = float(fine[np.argmax(distance)])
    return float(np.polyval(np.polyfit(shares, rates, 3), share)), share


class Needed(NamedTuple):
    """Sites needed for 0.574: the paper's number, ours for both orders, and the best scale.

    `best_rate` is the acceptance rate of the scale with the largest jump distance at the paper's
    number of sites, with the way back as in Eq. (4). It is computed for p near 1/2 only, else None.
    """

    case: str
    epsilon: float
    paper: int
    ours: dict[str, int]
    best_rate: float | None
    best_share: float | None  # of all sites, at that scale


def needed(snapshot: Snapshot) -> list[Needed]:
    """Both of the paper's tables, as far as computed."""
    return [
        Needed(
            case=cell.case,
            epsilon=cell.epsilon,
            paper=printed.sites(cell.case, cell.epsilon),
            ours=results["ours"],
            best_rate=results["best_rate"],
            best_share=results["best_share"],
        )
        for cell, results in snapshot.found(NAME)
    ]


# Figure


def chart(snapshot: Snapshot) -> Chart:
    """Sites needed against epsilon, the paper's and ours."""
    found = needed(snapshot)
    panels = []
    for case, title in ((HALF, "p = 1/2 - ε"), (ZERO, "p = ε")):
        rows = [row for row in found if row.case == case]
        paper = [Point(row.epsilon, row.paper, note="paper") for row in rows]
        series = [Series("paper", paper, "ink", "D", True)]
        for path, color, marker in (("reversed", "blue", "o"), ("same", "red", "^")):
            points = [Point(row.epsilon, row.ours[path]) for row in rows]
            series.append(Series(f"ours, {path} order", points, color, marker))
        if rows:
            power = -2 if case == HALF else -1
            x = np.array([rows[0].epsilon, rows[-1].epsilon])
            factor = rows[-1].paper / rows[-1].epsilon ** power
            name = "∝ 1/ε²" if case == HALF else "∝ 1/ε"
            series.append(line(name, x, factor * x**power, "grey", "--"))
        panels.append(Panel(title, "ε", "sites N", series, log="xy"))
    return Chart(NAME, "Sites needed for the rate 0.574", panels, 2)


# Report


def claim(snapshot: Snapshot) -> Claim:
    text = "The sites needed for the rate 0.574 grow as ε^(-2) near p = 1/2, as ε^(-1) near p = 0"
    found = needed(snapshot)
    powers = {}
    for case in EPSILONS:
        rows = [row for row in found if row.case == case]
        fit = slope([row.epsilon for row in rows], [row.ours["reversed"] for row in rows])
        if fit is not None:
            powers[case] = fit.slope
    if len(powers) < 2:
        why = "Too few entries were computed to fit a power."
        return Claim.unanswered(NAME, text, bool(found), why)
    said = f"The fitted powers of ε are {powers[HALF]:.2f} and {powers[ZERO]:.2f}."
    near = abs(powers[HALF] + 2) < 0.15 and abs(powers[ZERO] + 1) < 0.1
    return Claim(NAME, text, said.replace("-", "−"), "yes" if near else "no")


def blocks(snapshot: Snapshot) -> list[Block]:
    found = needed(snapshot)
    rows = [
        [
            "1/2 − ε" if row.case == HALF else "ε",
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
        "Tables 3 and 4. The sites needed, and the acceptance rate and R of the scale with the "
        "largest jump distance at the paper's N.",
        heads,
        rows,
        rules=(4,) if len(rows) > 4 else (),
    )
    picture = Picture(chart(snapshot), "Sites needed for the rate 0.574 against ε.")
    return [Head(NAME, "Sites needed"), Text(_text(found)), picture, grid]


def _text(found: list[Needed]) -> str:
    half = [row for row in found if row.case == HALF]
    zero = [row for row in found if row.case == ZERO]
    text = (
        "Tables 3 and 4 of the paper say how many sites are needed for the best rate to be 0.574 "
        "when all p are 1/2 − ε, or ε. The paper does not say how that was decided. Our number is "
        "the smallest N, within one site or two per cent, at which some scale has an acceptance "
        "rate of 0.574 in equilibrium. "
    )
    if half and zero:
        ours = [_growth([row.ours["reversed"] for row in rows]) for rows in (half, zero)]
        paper = [_growth([row.paper for row in rows]) for rows in (half, zero)]
        text += (
            "If N grows as ε^(-2) near p = 1/2 and as ε^(-1) near p = 0, halving ε multiplies it "
            f"by 4 and 2. With the reversed order the factors are {ours[0]} and {ours[1]}; in the "
            f"paper's tables they are {paper[0]} and {paper[1]}. "
        )
    rates = [row.best_rate for row in half if row.best_rate is not None]
    if rates:
        text += (
            "A scale with an acceptance rate of 0.574 need not be the best one: at the paper's N "
            "near p = 1/2, the jump distance is largest at rates of "
            f"{min(rates):.2f} to {max(rates):.2f}."
        )
    return text


def _growth(sites: list[int]) -> str:
    """The factors by which N grows each time ε is halved."""
    return span([b / a for a, b in itertools.pairwise(sites)], 1) if len(sites) > 1 else "–"


EXPERIMENT = Experiment(
    name=NAME,
    title="Sites needed",
    cells=cells,
    cell_type=SitesCell,
    procedure=Count(),
    parts=(Part("theory", NAME, blocks),),
    claims=(claim,),
)
