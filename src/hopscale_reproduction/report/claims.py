"""What the paper claims, and what was found: one line each, computed from the store."""

import math

from hopscale_reproduction.report.blocks import Claim
from hopscale_reproduction.report.reasons import Reasons
from hopscale_reproduction.views import curves, scaling, theorems, training
from hopscale_reproduction.views.book import Book, Value
from hopscale_reproduction.views.comparison import BEYOND, NOT_RUN, WITHIN, Table, count
from hopscale_reproduction.views.names import ALBP, Method
from hopscale_reproduction.words import TITLES, percent, span

ARWM = Method("rwm", "", "adaptive")
NEAR = 0.06  # a peak this close to the theory's rate, or
FLAT = 0.98  # a curve that at this rate has so much of its best, counts as a yes


def claims(book: Book, tables: dict[str, Table]) -> list[Claim]:
    """The headline."""
    return [
        _rate(book, tables, "lbp", "barker", 0.574),
        _rate(book, tables, "rwm", "", 0.234),
        _order(book, scaling.LBP_SCALE, "The best scale of LBP grows as N^(2/3)"),
        _order(book, scaling.RATIO, "LBP's gain over RWM grows as N^(2/3)"),
        _adaptive(book, tables),
        _gain(tables),
        _jumps(book),
        _finite(book),
        _training(book),
        _printed(book, tables, "ejd", "The printed jump distances"),
        _printed(book, tables, "ess", "The printed effective sample sizes, relative to ALBP"),
    ]


def _rate(book: Book, tables: dict[str, Table], sampler: str, balance: str, rate: float) -> Claim:
    claim = f"{sampler.upper()} is most efficient where {rate:.1%} of proposals are accepted"
    parts, shares, peaks = [], [], []
    for model in tables:
        found = curves.curves(book, model)
        mine = [points for (_, *method), points in found.items() if method == [sampler, balance]]
        tops = [top for top in map(curves.peak, mine) if top is not None]
        shares += [s for s in (curves.share_of_best(points, rate) for points in mine) if s]
        if tops:
            peaks += [top.mean for top in tops]
            parts.append(f"{TITLES[model]} {span([top.mean for top in tops], 2)}")
    if not peaks:
        return Claim(claim, "", "not run")
    text = f"Curves peak at {', '.join(parts)}"
    if shares:
        text += f"; at {rate} they have {percent(min(shares))} of their best or more"
    near = all(abs(peak - rate) <= NEAR for peak in peaks)
    flat = bool(shares) and min(shares) >= FLAT
    return Claim(claim, f"{text}.", "yes" if near or flat else "partly")


def _order(book: Book, quantity: str, claim: str) -> Claim:
    found = [g for g in scaling.growths(book) if g.quantity == quantity and g.upper]
    if not found:
        return Claim(claim, "", "not run")
    slopes = [(g.model, g.upper) for g in found if g.upper is not None]
    text = ", ".join(f"{TITLES[m]} {s.slope:.3f} ± {s.error:.3f}" for m, s in slopes)
    close = [abs(s.slope - 2 / 3) <= 0.05 for _, s in slopes]
    status = "yes" if all(close) else "partly" if any(close) else "no"
    return Claim(claim, f"Slopes over the larger half of the sizes: {text}.", status)


def _ratios(tables: dict[str, Table], above: Method, below: Method) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for model, table in tables.items():
        for column in table.columns:
            pair = [table.entries.get((column, m, "ejd")) for m in (above, below)]
            values = [entry.ours for entry in pair if entry is not None and entry.ours]
            sources = {entry.source for entry in pair if entry is not None and entry.ours}
            if len(values) == 2 and len(sources) == 1:
                found.setdefault(model, []).append(values[0].over(values[1]))
    return found


def _adaptive(book: Book, tables: dict[str, Table]) -> Claim:
    claim = "The adaptive sampler is as good as a grid search"
    parts, low = [], []
    for sampler, balance, rate in (("lbp", "barker", 0.574), ("rwm", "", 0.234)):
        shares = [
            curves.share_of_best(points, rate)
            for model in tables
            for (_, *method), points in curves.curves(book, model).items()
            if method == [sampler, balance]
        ]
        known = [share for share in shares if share is not None]
        if known:
            low.append(min(known))
            parts.append(f"A{sampler.upper()} / G{sampler.upper()} {span(known, 3)}")
    if not low:
        return Claim(claim, "", "not run")
    found = f"Ratios of jump distances on the same targets: {', '.join(parts)}."
    return Claim(claim, found, "yes" if min(low) >= 0.97 else "partly")


def _gain(tables: dict[str, Table]) -> Claim:
    claim = "ALBP beats the tuned random walk by far"
    found = _ratios(tables, ALBP, ARWM)
    if not found:
        return Claim(claim, "", "not run")
    parts = [f"{TITLES[m]} {span([v.mean for v in values], 1)}" for m, values in found.items()]
    least = min(v.mean for values in found.values() for v in values)
    text = f"Jump distance of ALBP over that of ARWM: {', '.join(parts)}."
    return Claim(claim, text, "yes" if least > 2 else "no")


def _jumps(book: Book) -> Claim:
    claim = "Across scales, 1 / autocorrelation time is proportional to the jump distance"
    found = theorems.jumps(book)
    if not found:
        return Claim(claim, "", "not run")
    everywhere = [j.correlation for j in found if not math.isnan(j.correlation)]
    below = [j.below for j in found if not math.isnan(j.below)]
    if not everywhere:
        return Claim(claim, "", "not run")
    text = f"Correlation {span(everywhere, 2)} over {len(everywhere)} test functions"
    if below:
        text += f"; {span(below, 3)} up to the best scale"
    least = min(everywhere)
    status = "yes" if least > 0.95 else "partly" if max(everywhere) > 0.5 else "no"
    return Claim(claim, f"{text}.", status)


def _finite(book: Book) -> Claim:
    claim = "The rate 0.574 needs ε^(-2) sites near p = 1/2, ε^(-1) near p = 0"
    found = theorems.needed(book)
    powers = {}
    for case in ("half", "zero"):
        rows = [row for row in found if row.case == case]
        fit = scaling.slope([row.epsilon for row in rows], [row.ours["reversed"] for row in rows])
        if fit is not None:
            powers[case] = fit.slope
    if len(powers) < 2:
        return Claim(claim, "", "not run")
    text = f"Sites go as ε to the power {powers['half']:.2f} and {powers['zero']:.2f}."
    near = abs(powers["half"] + 2) < 0.15 and abs(powers["zero"] + 1) < 0.1
    return Claim(claim, text.replace("-", "−"), "yes" if near else "no")


def _training(book: Book) -> Claim:
    claim = "ALBP trains deep EBMs with half the steps of LBP-1 or fewer"
    found = {(item.data, item.column): item.ours for item in training.steps(book)}
    parts, halves, most = [], [], training.most(book)
    for data in dict.fromkeys(data for data, _ in found):
        for name, adaptive, single in (
            ("barker", "ALBP_b", "LBP_b-1"),
            ("√t", "ALBP_s", "LBP_s-1"),
        ):
            few, many = found[data, adaptive], found[data, single]
            if few is None or many is None or (few.steps is None and few.above < most):
                continue
            bound = many.above if many.steps is None else many.steps
            half = few.steps is not None and 2 * few.steps <= bound
            if not half and many.steps is None and many.above < most:
                continue  # what is yet to be tried decides
            parts.append(f"{data}, {name}: {few} against {many}")
            halves.append(half)
    if not parts:
        return Claim(claim, "", "not run")
    status = "yes" if all(halves) else "partly" if any(halves) else "no"
    return Claim(claim, f"{'; '.join(parts)}.", status)


def _printed(book: Book, tables: dict[str, Table], metric: str, claim: str) -> Claim:
    counts = count(entry for table in tables.values() for entry in table.all([metric]))
    judged = counts[WITHIN] + counts[BEYOND]
    if not judged:
        return Claim(claim, "", "not run")
    beyond = [e for table in tables.values() for e in table.all([metric]) if e.verdict == BEYOND]
    known = sum(map(Reasons(book).explained, beyond))
    text = f"{counts[WITHIN]} of {judged} cells within the criterion"
    if beyond:
        text += (
            ", those outside with a reason"
            if known == len(beyond)
            else (f", {known} of the {len(beyond)} outside with a reason")
        )
    if counts[NOT_RUN]:
        text += f"; {counts[NOT_RUN]} not run"
    share, rest = counts[WITHIN] / judged, (counts[WITHIN] + known) / judged
    status = "yes" if share >= 0.95 else "partly" if share >= 0.5 or rest >= 0.95 else "no"
    return Claim(claim, f"{text}.", status)
