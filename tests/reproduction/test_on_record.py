"""What README and the documentation say is what the results on record give."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import hopscale as hs
from hopscale.paper import instances
from hopscale_reproduction import exchange
from hopscale_reproduction.cells import table_cell
from hopscale_reproduction.criteria import BEYOND, WITHIN
from hopscale_reproduction.experiments import order
from hopscale_reproduction.experiments.sampling import comparison, plan
from hopscale_reproduction.experiments.sampling.sources import best_of
from hopscale_reproduction.experiments.table2 import results as table2
from hopscale_reproduction.places import Column, Method
from hopscale_reproduction.report.writing import claims
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.store import Store

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
LEARNING = ROOT / "docs" / "learning.md"
BADGES = ROOT / "docs" / "assets" / "badges"

ROWS = {
    "RWM-1": ("rwm", "", "fixed-1"),
    "ARWM": ("rwm", "", "adaptive"),
    "GRWM": ("rwm", "", "grid"),
    "LBP-1": ("lbp", "barker", "fixed-1"),
    "ALBP": ("lbp", "barker", "adaptive"),
    "GLBP": ("lbp", "barker", "grid"),
}
COLUMNS = (("bernoulli", 800), ("ising", 50), ("fhmm", 1000))
OF_RBMS = {
    "ALBP barker": ("lbp", "barker", "adaptive"),
    "ALBP sqrt": ("lbp", "sqrt", "adaptive"),
    "LBP-1 barker": ("lbp", "barker", "fixed-1"),
    "RWM-1": ("rwm", "", "fixed-1"),
}
RBMS = (("rbm", 100, "C1"), ("rbm", 400, "C2"), ("rbm", 1000, "C3"))


def assert_row(tables, page: Path, name: str, method: Method, columns) -> None:
    """A row of a page has our jump distances and, in brackets, the paper's."""
    line = re.search(rf"^\| \**{name}\b.*$", page.read_text(), re.MULTILINE)
    assert line is not None
    shown = re.findall(r"([\d.]+)\** \(([\d.]+)\)", line[0])
    for (ours, printed), column in zip(shown, columns, strict=True):
        entry = tables[column.model].entries[column, method, "ejd"]
        assert entry.ours is not None
        assert float(printed) == entry.printed
        digits = len(ours.partition(".")[2])
        assert float(ours) == pytest.approx(entry.ours.mean, abs=0.51 * 10**-digits)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    """The results on record."""
    with Store(tmp_path_factory.mktemp("record") / "s.sqlite") as store:
        for record in ("paper.csv", "table2.csv"):
            exchange.read(store, ROOT / "docs" / "results" / record)
        return Snapshot(store, "paper")


def test_the_table_is_what_the_results_on_record_give(snapshot):
    # What was run has a verdict, except where the likelihoods of Table 2 leave it open.
    verdicts = {claim.name: claim.status for claim in claims(snapshot)}
    assert verdicts.pop("training") == "too short"
    assert {"not run", "too short"}.isdisjoint(verdicts.values())
    tables = snapshot.once(comparison.tables)
    runs = len(snapshot.runs())
    entries = [e for table in tables.values() for e in table.all(["ejd", "ess"])]
    counts = comparison.count(entries)
    within, judged = counts[WITHIN], counts[WITHIN] + counts[BEYOND]
    page = " ".join((ROOT / "docs" / "reproduction.md").read_text().split())
    half = sum(map(comparison.well_within, entries))
    assert f"Of the {within}, {half} are within half of the criterion." in page
    text = " ".join(README.read_text().split())
    assert f"{runs:,} runs kept" in text
    assert f"of the paper's {judged} numbers that could be judged, {within} agree" in text
    assert f"{within} of {judged} agree" in (BADGES / "numbers.svg").read_text()
    lines = re.findall(r"^\| \**([AG]?(?:RWM|LBP)(?:-1)?), .*$", README.read_text(), re.MULTILINE)
    assert lines == list(ROWS)
    medium = [Column(model, size, "C2") for model, size in COLUMNS]
    for name, row in ROWS.items():
        assert_row(tables, README, name, Method(*row), medium)
    for name, row in OF_RBMS.items():
        assert_row(tables, LEARNING, name, Method(*row), [Column(*rbm) for rbm in RBMS])


def test_the_rates_that_are_run_have_the_best_of_all():
    """On the grids that were run in full, and to within what chance makes of a top."""
    with (ROOT / "docs" / "results" / "complete_grids.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    rows: dict[tuple, dict] = {}
    for line in lines:
        place = line["model"], int(line["size"]), line["config"], line["sampler"], line["balance"]
        cell = table_cell(*place, rate=float(line["rate"]))
        measured = {name: float(line[name]) for name in ("ejd", "ess")}
        rows.setdefault(place, {})[cell] = measured | {"ejd_error": 0.0, "ess_error": 0.0}
    shares, same = [], {"ejd": 0, "ess": 0}
    for found in rows.values():
        row: list = list(found)
        results: dict = {}
        while asked := [c for c in plan.needed(row, (10, 5), results.get) if c not in results]:
            results |= {cell: found[cell] for cell in asked}
        for name in same:
            ((_, part),) = best_of([(cell, results.get(cell)) for cell in row], name)
            best = max(found[cell][name] for cell in row)
            assert part[name] >= 0.98 * best
            same[name] += part[name] == best
        shares.append(len(results) / len(row))
    text = " ".join((ROOT / "docs" / "reproduction.md").read_text().split())
    assert f"On {len(rows)} grids that were run in full" in text
    assert f"takes {sum(shares) / len(shares):.0%} of the runs" in text
    assert same["ejd"] == len(rows)
    assert f"the best effective sample size in {same['ess']}," in text


def test_pairs_of_neighbours_explain_the_scale_on_ising_models(snapshot):
    """The term that they add to the variance, fitted to the scales, and computed from states."""
    growths = snapshot.once(order.growths)
    found = {g.model: order.coupled(g) for g in growths if g.quantity == order.LBP_SCALE}
    assert found["bernoulli"].b == 0
    assert found["ising"].misfit < 0.01 < 0.02 < found["ising"].misfit_of_power
    field = np.asarray(hs.paper.ising(20, "C2").field)
    coupling = instances.COUPLING["C2"]

    def half_ratio(x):  # of the log-probability, for each spin as it is against the other
        inside = np.pad(x, ((0, 0), (1, 1), (1, 1)))
        rolled = [np.roll(inside, by, axis) for by in (-1, 1) for axis in (1, 2)]
        around = np.sum(rolled, axis=0)
        return x * (field + coupling * around[:, 1:-1, 1:-1])

    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (50, 20, 20))
    colour = np.indices((20, 20)).sum(0) % 2
    for sweep in range(100):  # Gibbs sampling
        flip = rng.random(x.shape) > 1 / (1 + np.exp(-2 * half_ratio(x)))
        x = np.where(flip & (colour == sweep % 2), -x, x)
    weight = 1 / (1 + np.exp(2 * half_ratio(x)))
    q = weight / weight.sum((1, 2), keepdims=True)
    b = 0.0
    for one, other in ((np.s_[:, 1:], np.s_[:, :-1]), (np.s_[:, :, 1:], np.s_[:, :, :-1])):
        term = 4 * coupling * (1 - weight[one] - weight[other])
        b += x[0].size * np.mean(np.sum(q[one] * q[other] * term**2, axis=(1, 2)))
    assert b == pytest.approx(found["ising"].b, rel=0.1)


@pytest.mark.parametrize("shown", ["static MNIST", "dynamic MNIST", "Omniglot"])
def test_table_2_is_what_the_results_on_record_give(snapshot, shown):
    data = {"Omniglot": "omniglot"}.get(shown, shown.lower().replace(" ", "-"))
    found = [s for s in table2.steps(table2.search_in(snapshot)) if s.data == data]
    text = (ROOT / "docs" / "table2.md").read_text()
    for source, cells in (("ours", [s.ours for s in found]), ("paper", [s.paper for s in found])):
        line = re.search(rf"^\| {shown}, {source}.*$", text, re.MULTILINE)
        assert line is not None
        shown_cells = [cell.strip() for cell in line[0].split("|")[2:-1]]
        assert shown_cells == ["not run" if cell is None else str(cell) for cell in cells]
