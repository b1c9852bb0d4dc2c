"""The paper's claims about its tables and curves, and what was found."""

import functools

from hopscale_reproduction.criteria import BEYOND, NOT_RUN, WITHIN
from hopscale_reproduction.design import BEST_RATE, MAIN
from hopscale_reproduction.experiments.sampling.comparison import Table, count, tables
from hopscale_reproduction.experiments.sampling.curves import curves_of, peak, share_of_best
from hopscale_reproduction.experiments.sampling.reasons import Reasons
from hopscale_reproduction.formatting import TITLES, percent, span
from hopscale_reproduction.places import ALBP, ARWM, Method
from hopscale_reproduction.report.blocks import Claim
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.values import Value

NEAR = 0.06  # a peak this close to the theory's rate counts as a yes,
FLAT = 0.98  # and so does a curve with this share of its best at the theory's rate
AS_GOOD = 0.97  # of a grid's best


def best_rate(sampler: str, balance: str, snapshot: Snapshot) -> Claim:
    """Where the sampler's curves peak."""
    name, rate = f"{sampler}-rate", BEST_RATE[sampler]
    text = f"{sampler.upper()} is most efficient where {rate:.1%} of proposals are accepted"
    parts, shares, peaks = [], [], []
    curves = curves_of(snapshot, sampler, balance)
    for model, found in curves.items():
        tops = [top.mean for top in map(peak, found) if top is not None]
        shares += [share for share in map(share_of_best, found) if share]
        if tops:
            peaks += tops
            parts.append(f"{TITLES[model]} {span(tops, 2)}")
    if not peaks:
        return Claim.unanswered(name, text, bool(curves), "Too few rates were run to find a peak.")
    said = f"Curves peak at {', '.join(parts)}"
    if shares:
        said += f"; at {rate} they have at least {percent(min(shares))} of their best"
    near = all(abs(peak - rate) <= NEAR for peak in peaks)
    flat = bool(shares) and min(shares) >= FLAT
    return Claim(name, text, f"{said}.", "yes" if near or flat else "partly")


def adaptive(snapshot: Snapshot) -> Claim:
    """The tuned scale against the best of the grid, on the same targets."""
    text = "The adaptive sampler is as good as a grid search"
    parts, lowest, begun = [], [], False
    for sampler, balance in reversed(MAIN):
        found = curves_of(snapshot, sampler, balance).values()
        begun = begun or bool(found)
        every = [share_of_best(points) for curves in found for points in curves]
        shares = [share for share in every if share is not None]
        if shares:
            lowest.append(min(shares))
            parts.append(f"A{sampler.upper()} / G{sampler.upper()} {span(shares, 3)}")
    if not lowest:
        return Claim.unanswered(
            "adaptive", text, begun, "Too few rates were run for a grid search."
        )
    said = f"Ratios of jump distances on the same targets: {', '.join(parts)}."
    return Claim("adaptive", text, said, "yes" if min(lowest) >= AS_GOOD else "partly")


def gain(snapshot: Snapshot) -> Claim:
    """ALBP against the tuned random walk."""
    text = "ALBP is far better than the tuned random walk"
    found = _ratios(snapshot.once(tables), ALBP, ARWM)
    if not found:
        return Claim.unanswered("gain", text, begun=False)
    parts = [f"{TITLES[m]} {span([v.mean for v in values], 1)}" for m, values in found.items()]
    smallest = min(value.mean for values in found.values() for value in values)
    said = f"Jump distance of ALBP divided by that of ARWM: {', '.join(parts)}."
    return Claim("gain", text, said, "yes" if smallest > 2 else "no")


def _ratios(found: dict[str, Table], above: Method, below: Method) -> dict[str, list[Value]]:
    """Ratios of jump distances by model, where both come from the same targets."""
    ratios: dict[str, list[Value]] = {}
    for model, table in found.items():
        for column in table.columns:
            pair = [table.entries.get((column, m, "ejd")) for m in (above, below)]
            values = [entry.ours for entry in pair if entry is not None and entry.ours]
            sources = {entry.source for entry in pair if entry is not None and entry.ours}
            if len(values) == 2 and len(sources) == 1:
                ratios.setdefault(model, []).append(values[0].over(values[1]))
    return ratios


def printed_numbers(metric: str, text: str, snapshot: Snapshot) -> Claim:
    """How many printed numbers are within the criterion, or differ for a reason."""
    name = f"printed-{metric}"
    entries = [e for table in snapshot.once(tables).values() for e in table.all([metric])]
    counts = count(entries)
    judged = counts[WITHIN] + counts[BEYOND]
    if not judged:
        return Claim.unanswered(name, text, begun=False)
    beyond = [entry for entry in entries if entry.verdict == BEYOND]
    explained = sum(map(Reasons(snapshot).explained, beyond))
    said = f"{counts[WITHIN]} of {judged} cells are within the criterion"
    if beyond:
        said += (
            "; all of those outside have a reason"
            if explained == len(beyond)
            else f"; {explained} of the {len(beyond)} outside have a reason"
        )
    if counts[NOT_RUN]:
        said += f"; {counts[NOT_RUN]} {'was' if counts[NOT_RUN] == 1 else 'were'} not run"
    share, rest = counts[WITHIN] / judged, (counts[WITHIN] + explained) / judged
    status = "yes" if share >= 0.95 else "partly" if share >= 0.5 or rest >= 0.95 else "no"
    return Claim(name, text, f"{said}.", status)


CLAIMS = (
    functools.partial(best_rate, "lbp", "barker"),
    functools.partial(best_rate, "rwm", ""),
    adaptive,
    gain,
    functools.partial(printed_numbers, "ejd", "The printed jump distances are reproduced"),
    functools.partial(
        printed_numbers,
        "ess",
        "The printed effective sample sizes, relative to ALBP, are reproduced",
    ),
)
