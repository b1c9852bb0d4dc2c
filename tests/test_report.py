"""The report: its numbers on stores made by hand, its files, and the page in a real browser."""

import base64
import html.parser
import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest
from scipy.stats import norm

from hopscale import theory
from hopscale.paper import ebm, report, tables
from hopscale.paper.cells import Cell
from hopscale.paper.experiments import EXPERIMENTS, finite
from hopscale.paper.experiments.fair import RATES
from hopscale.paper.report import html as page
from hopscale.paper.report.markdown import render as as_markdown
from hopscale.paper.report.reasons import Reasons
from hopscale.paper.store import Store
from hopscale.paper.views import (
    Book,
    Value,
    chance,
    comparison,
    curves,
    scaling,
    theorems,
    training,
)
from hopscale.paper.views.book import mean
from hopscale.paper.views.names import ALBP, Column, Method

RWM_1 = Method("rwm", "", "fixed-1")
ARWM = Method("rwm", "", "adaptive")
GRWM = Method("rwm", "", "grid")
SMALL = Column("bernoulli", 100, "C2")


def made(**results) -> dict:
    """Results of a cell, plain where nothing is said."""
    plain = {"scale": 2.0, "acceptance": 0.5, "ejd": 1.0, "ess": 150.0, "r_hat": 1.0}
    errors = {"acceptance_error": 0.001, "ejd_error": 0.01, "ess_error": 3.0}
    return {**plain, **errors, "seconds": 1.5, "side_by_side": 2, **results}


def by_theory(cell: Cell) -> dict:
    """Results on the curves of the limit theorems, with a best jump distance as printed."""
    power, best = (0.5, 0.234) if cell.sampler == "rwm" else (1.5, 0.574)
    where = (cell.model, cell.size, cell.config, cell.sampler, cell.balance)
    top = tables.value(*where, "adaptive", "ejd") or float(cell.size) ** (2 / 3)
    rate = 0.65 if cell.sampler == "rwm" else 0.99
    rate = rate if cell.rate is None else cell.rate
    if cell.model == "identical":
        rate = float(theory.acceptance(cell.scale, np.full(cell.size, 0.25)))
        ejd = cell.scale * rate
    elif cell.rate is None:
        ejd = rate
    else:
        ejd = top * float(_efficiency(rate, power) / _efficiency(best, power))
    return made(
        scale=ejd / rate, acceptance=rate, ejd=ejd, ejd_error=0.002 * ejd, ess=0.3 * ejd * 100
    )


def _efficiency(rate: float, power: float):
    return theory.efficiency_curve(rate, [0.2], "rwm" if power == 0.5 else "lbp")


def fill(store: Store, profile: str, results) -> None:
    """Put every cell of a profile."""
    for experiment in EXPERIMENTS:
        for _ in range(2):  # grids are known once R = 1 is there
            for cell in experiment.cells(profile, lambda c: store.get(c.settings())):
                if isinstance(cell, Cell):
                    store.put(cell.settings(), results(cell))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as opened:
        opened._db.execute("PRAGMA synchronous = OFF")  # hundreds of cells, each a transaction
        yield opened


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A full report of the quick profile; sites needed are not computed but given."""
    out = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch, Store(out / "results.sqlite") as store:
        _give_sites(patch)
        store._db.execute("PRAGMA synchronous = OFF")
        fill(store, "quick", by_theory)
        report.write(out, store, "quick")
    return out


def _give_sites(patch) -> None:
    powers = {"half": -2, "zero": -1}
    patch.setattr(
        finite,
        "needed",
        lambda p, path: round(
            (0.5 - p if p > 0.25 else p) ** powers["half" if p > 0.25 else "zero"]
        ),
    )
    patch.setattr(theorems, "best_scale", lambda n, p: (0.7, 0.8))


def put(store: Store, experiment: str, choose, **results) -> int:
    """Put the chosen cells of the quick profile; how many they are."""
    plan = next(e for e in EXPERIMENTS if e.name == experiment)
    cells = [c for c in plan.cells("quick", lambda c: store.get(c.settings())) if choose(c)]
    for cell in cells:
        store.put(cell.settings(), made(**results))
    return len(cells)


# Numbers.


def test_printed_numbers_of_the_small_tables():
    assert [tables.sites("half", e) for e in finite.NEAR_HALF] == [10, 40, 160, 640]
    assert [tables.sites("zero", e) for e in finite.NEAR_ZERO] == [50, 100, 200, 400]
    where = ("fhmm", 1000, "lbp", "barker", "adaptive")
    assert tables.value(where[0], where[1], "Table 1", *where[2:], "ess") == 129.28
    assert tables.value(where[0], where[1], "C2", *where[2:], "seconds") == 129.28


def test_a_mean_over_targets_has_their_spread_in_its_error():
    value = mean([(1.0, 0.3), (3.0, 0.4)])
    assert value is not None
    assert value.mean == 2.0
    assert value.error == pytest.approx(math.hypot(0.25, math.sqrt(2.0) / math.sqrt(2.0)))
    assert value.spread == pytest.approx(math.sqrt(2.0) / 2.0)
    alone = mean([(5.0, 0.1)])
    assert alone is not None
    assert alone[:2] == (5.0, 0.1)
    assert math.isnan(alone.spread)
    assert mean([]) is None


def test_an_empty_store_is_not_run(store):
    table = comparison.table(Book(store, "paper"), "bernoulli")
    assert len(table.columns) == 9
    assert len(table.methods) == 15
    counts = comparison.count(table.all())
    assert counts == {"within": 0, "beyond": 0, "not run": 9 * 15 * 3, "unjudged": 0}


def test_small_bernoulli_is_judged_on_the_mean_over_draws_of_p(store):
    for i, ejd in enumerate((0.60, 0.62, 0.64, 0.66)):
        chosen = ("rwm", None, i)
        put(store, "luck", lambda c, s=chosen: (c.sampler, c.rate, c.instance) == s, ejd=ejd)
    put(store, "bernoulli", lambda c: c.sampler == "rwm" and c.rate is None, ejd=0.1)
    entry = comparison.table(Book(store, "quick"), "bernoulli").entries[SMALL, RWM_1, "ejd"]
    assert entry.ours is not None
    assert entry.ours.mean == pytest.approx(0.63)
    assert entry.ours.count == 4
    assert entry.source == "luck"
    assert entry.paper == 0.66
    assert entry.ratio == pytest.approx(0.63 / 0.66)
    assert entry.verdict == comparison.WITHIN  # 4.5% of 6%


@pytest.mark.parametrize(("ejd", "verdict"), [(0.66, "within"), (0.62, "beyond")])
def test_ising_is_judged_at_three_per_cent(store, ejd, verdict):
    put(store, "ising", lambda c: c.sampler == "rwm" and c.rate is None, ejd=ejd)
    column = Column("ising", 20, "C2")
    table = comparison.table(Book(store, "quick"), "ising")
    assert table.entries[column, RWM_1, "ejd"].paper == 0.65
    assert table.entries[column, RWM_1, "ejd"].verdict == verdict
    assert table.entries[column, ARWM, "ejd"].verdict == comparison.NOT_RUN


def test_ess_is_relative_to_albp(store):
    put(store, "ising", lambda c: c.sampler == "lbp" and c.rate == 0.574, ess=300.0)
    put(store, "ising", lambda c: c.sampler == "rwm" and c.rate is None, ess=15.0)
    column = Column("ising", 20, "C2")
    table = comparison.table(Book(store, "quick"), "ising")
    entry = table.entries[column, RWM_1, "ess"]
    assert entry.ours is not None
    assert entry.ours.mean == pytest.approx(0.05)
    assert entry.paper == pytest.approx(13.7 / 394.65)
    assert entry.verdict == comparison.BEYOND
    assert table.entries[column, ALBP, "ess"].verdict == comparison.UNJUDGED
    assert entry.implied == pytest.approx(394.65 / 0.2)


@pytest.mark.parametrize(
    ("ess", "error", "reason"),
    [
        (14.0, 0.1, "A slow chain: 14 effective draws of 1,500 here, 14 of about 1,973 in print."),
        (14.0, 2.0, "Within chance: Monte Carlo error alone"),
        (19.0, 0.1, "Not explained"),  # further off than the chains' lengths are
        (7.0, 0.1, "Not explained"),  # the shorter chain counts for less
    ],
)
def test_lengths_explain_slow_chains_so_far_and_no_further(store, ess, error, reason):
    put(store, "ising", lambda c: c.sampler == "lbp" and c.rate == 0.574, ess=300.0)
    put(store, "ising", lambda c: c.sampler == "rwm" and c.rate is None, ess=ess, ess_error=error)
    book = Book(store, "quick")
    entry = comparison.table(book, "ising").entries[Column("ising", 20, "C2"), RWM_1, "ess"]
    assert entry.verdict == comparison.BEYOND
    assert Reasons(book).of(entry).startswith(reason)
    assert Reasons(book).explained(entry) == (not reason.startswith("Not"))


@pytest.mark.parametrize(("last", "found"), [(0.5, True), (2.0, False)])
def test_no_rate_is_best_where_all_sites_at_once_move_furthest(store, last, found):
    """The lowest rate cannot be had: its scale stops at N, off the curve."""

    def chosen(rate):
        return lambda c: (c.size, dict(c.options)["beta"], c.rate) == (100, 0.3, rate)

    for rate in RATES:
        ejd = rate * norm.ppf(rate / 2) ** 2
        put(store, "fair", chosen(rate), acceptance=rate, scale=50.0, ejd=ejd)
    top = max(rate * norm.ppf(rate / 2) ** 2 for rate in RATES)
    with Store(store.path.with_name("stopped.sqlite")) as stopped:
        stopped.add_all(store.rows())
        stopped._db.execute("DELETE FROM cells WHERE settings LIKE ?", (f'%"rate": {RATES[0]}%',))
        put(stopped, "fair", chosen(RATES[0]), acceptance=0.2, scale=100.0, ejd=last * top)
        best = theorems.fairs(Book(stopped, "quick"))[0].best
    if found:
        assert best == pytest.approx(0.234, abs=0.006)
    else:
        assert best is None


def test_ess_is_over_as_many_draws_as_the_printed_sizes_imply(store):
    put(store, "kept", lambda c: c.sampler == "lbp" and c.rate == 0.574, ess=500.0)
    put(store, "kept", lambda c: c.sampler == "rwm" and c.rate is None, ess=20.0)
    put(store, "bernoulli", lambda c: c.sampler == "lbp" and c.rate == 0.574, ess=300.0)
    put(store, "bernoulli", lambda c: c.sampler == "rwm" and c.rate is None, ess=15.0)
    entry = comparison.table(Book(store, "quick"), "bernoulli").entries[SMALL, RWM_1, "ess"]
    assert (entry.source, entry.draws) == ("kept", 2000)
    assert entry.ours is not None
    assert entry.stated is not None
    assert entry.ours.mean == pytest.approx(20 / 500)
    assert entry.stated.mean == pytest.approx(15 / 300)


def test_a_grid_is_the_best_of_all_rates_once_all_are_there(store):
    put(store, "ising", lambda c: c.sampler == "rwm" and c.rate is None, ejd=0.65, acceptance=0.65)
    put(store, "ising", lambda c: c.rate == 0.234, ejd=1.6)
    column = Column("ising", 20, "C2")

    def grid():
        return comparison.table(Book(store, "quick"), "ising").entries[column, GRWM, "ejd"].ours

    assert grid() is None
    put(store, "ising", lambda c: c.rate == 0.25, ejd=1.7)
    assert grid() is None
    assert put(store, "ising", lambda c: c.sampler == "rwm" and c.rate not in (None, 0.25), ejd=1.5)
    value = grid()
    assert value is not None
    assert value.mean == 1.7


def test_profiles_in_one_store_do_not_mix(store):
    fill(store, "quick", lambda cell: made())
    assert comparison.count(comparison.table(Book(store, "quick"), "ising").all())["not run"] == 0
    table = comparison.table(Book(store, "paper"), "ising")
    assert comparison.count(table.all())["not run"] == len(table.all())
    runs = len(store.rows("run"))
    assert report.build(Book(store, "quick")).facts[:2] == ["quick profile", f"{runs:,} runs"]
    shared = set(Book(store, "quick").cells("kept")) & set(Book(store, "paper").cells("kept"))
    assert report.build(Book(store, "paper")).facts[1] == f"{len(shared)} runs"


def test_what_a_reading_gains_is_measured(store):
    """Nothing is said before both readings are there."""

    def words():
        return as_markdown(report.build(Book(store, "quick")))

    put(store, "readings", lambda c: c.detail == "same", ejd=20.0)
    assert "The other reading's" not in words()
    put(store, "readings", lambda c: c.detail == "reversed" and c.model == "bernoulli", ejd=22.0)
    put(store, "readings", lambda c: c.detail == "reversed" and c.model == "ising", ejd=20.4)
    said = "The other reading's jump distance over that of the tables': Bernoulli 1.10, Ising 1.02."
    assert said in words()


def test_the_command_that_makes_it_again_runs_all_that_is_shown(store):
    put(store, "ising", lambda c: True)
    assert "`hopscale reproduce --profile quick`" in as_markdown(report.build(Book(store, "quick")))
    put(store, "rbm", lambda c: True)
    text = as_markdown(report.build(Book(store, "quick")))
    assert "`hopscale reproduce all --profile quick`" in text


@pytest.mark.parametrize(("sampler", "rate"), [("lbp", 0.574), ("rwm", 0.234)])
def test_peaks_of_the_theory_are_found(sampler, rate):
    rates = np.arange(0.03, 0.97, 0.02)
    values = theory.efficiency_curve(rates, [0.2], sampler)
    points = [
        curves.Point(Cell("ising", 20, "C2", sampler), made(acceptance=a, ejd=v))
        for a, v in zip(rates, values, strict=True)
    ]
    top = curves.peak(points)
    assert top is not None
    assert top.mean == pytest.approx(rate, abs=0.01)
    assert curves.peak(points[:4]) is None


def test_slopes_are_exact_on_a_power_law():
    sizes = [50, 100, 400, 1600]
    fit = scaling.slope(sizes, [3.0 * n ** (2 / 3) for n in sizes])
    assert fit is not None
    assert fit.slope == pytest.approx(2 / 3)
    assert fit.factor == pytest.approx(3.0)
    assert fit.error == pytest.approx(0.0, abs=1e-9)
    assert scaling.slope([1, 2], [1.0, 2.0]) is None


def test_proportional_jumps_have_correlation_one(store):
    fill(store, "quick", by_theory)
    found = theorems.jumps(Book(store, "quick"))
    assert len(found) == 5
    for jump in found:
        assert jump.correlation == pytest.approx(1.0)
        assert jump.misfit == pytest.approx(0.0, abs=1e-9)
    assert found[0].factor == pytest.approx(0.3 * 100 / found[0].cells[0][0].draws)


def test_the_luck_of_the_draw_is_that_of_the_average_behind_it():
    """The relative deviation of an average of N terms, by their moments."""
    p = np.linspace(0.15, 0.85, 100_001)
    terms = (2 * p - 1) * np.log(p / (1 - p))
    by_moments = terms.std() / terms.mean() / math.sqrt(800)
    assert chance.predicted("bernoulli", 800, "C2", ARWM) == pytest.approx(by_moments, rel=0.05)
    assert chance.predicted("bernoulli", 100, "C2", Method("lbp", "sqrt", "fixed-1")) == 0.0


def test_one_draw_of_p_explains_what_is_within_three_deviations(store):
    reasons = Reasons(Book(store, "quick"))

    def entry(ejd):
        ours = Value(ejd, 0.001)
        where = {"column": Column("bernoulli", 800, "C2"), "method": ARWM}
        return comparison.Entry(
            **where, metric="ejd", printed=1.7, paper=1.7, measured=ours, ours=ours
        )

    assert entry(1.8).verdict == comparison.BEYOND
    assert "Within chance: one draw of p moves it by 3." in reasons.of(entry(1.8))
    assert reasons.explained(entry(1.8))
    assert not reasons.explained(entry(2.4))


def test_the_spread_of_fields_falls_with_the_side_of_the_lattice():
    ours = Value(1.6, 0.01, 0.04, 16)
    drawn = chance.Luck(Column("ising", 20, "C2"), ARWM, 1.7, ours, [], math.nan)
    assert chance.spread_at([drawn], Column("ising", 50, "C2"), ARWM) == pytest.approx(0.016)
    assert chance.spread_at([drawn], Column("ising", 50, "C2"), GRWM) == pytest.approx(0.016)
    assert math.isnan(chance.spread_at([drawn], Column("ising", 50, "C3"), ARWM))
    assert drawn.z == pytest.approx(
        0.0625 / math.hypot(0.04 * math.sqrt(17 / 16), 0.0018), rel=1e-3
    )


def test_least_steps_are_told_from_the_store(store):
    experiment = ebm.Table2(store, "quick")
    for column in ebm.COLUMNS:
        for steps in experiment.profile.counts:
            enough = steps >= {"LBP_b-1": 8, "ALBP_b": 2}.get(column, 1)
            likely = {"log_likelihood": -10.0 - 9 * (not enough), "error": 0.01}
            results = {"diverged": False, "effective": 100.0, **likely}
            for seed in experiment.profile.seeds:
                if column != "LBP_s-1":
                    settings = experiment.settings("digits", column, steps, seed)
                    store.put(settings, results, kind="ebm")
    found = {(s.data, s.column): s for s in training.steps(Book(store, "quick"))}
    assert found["digits", "LBP_b-1"].ours == ebm.Least(8, True)
    assert found["digits", "ALBP_b"].ours == ebm.Least(2, True)
    assert found["digits", "LBP_s-1"].ours is None
    assert found["caltech", "LBP_b-1"] == ("caltech", "LBP_b-1", None, 100, 20)


# Files.


def test_all_files_are_written(written):
    pictures = {path.stem for path in (written / "figures").glob("*.svg")}
    assert pictures == {path.stem for path in (written / "figures").glob("*.png")}
    assert {"efficiency", "order", "agreement", "jumps", "fair", "finite", "luck"} <= pictures
    assert not list(written.rglob("*.part"))
    assert (written / "report.html").stat().st_size < 5e6


def test_markdown_is_aligned_and_links_its_figures(written):
    text = (written / "report.md").read_text()
    links = re.findall(r"\]\((figures/[^)]*)\)", text)
    assert links
    assert all((written / link).is_file() for link in links)
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("|"):
            assert len({len(line) for line in lines}) == 1
    assert "- ✓ LBP is most efficient where 57.4% of proposals are accepted. Curves peak" in text
    assert re.search(r"\| ALBP +\| +30\.99\d? \(30\.99\) ✓ \|", text)


class Checker(html.parser.HTMLParser):
    """Collects what is not closed, what is loaded, and ids."""

    VOID = ("meta", "br", "link", "img", "input", "hr")

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.ids, self.wrong = [], [], [], []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.loads += [named[k] for k in ("src", "href", "xlink:href", "data") if k in named]
        self.ids += [named["id"]] if "id" in named else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_the_page_is_well_formed_and_loads_nothing(written):
    text = (written / "report.html").read_text()
    checker = Checker()
    checker.feed(text)
    assert not checker.wrong
    assert not checker.open
    inside = [load for load in checker.loads if not load.startswith("data:image/png;base64,")]
    assert all(load.startswith("#") for load in inside)
    assert {load[1:] for load in inside} <= set(checker.ids)
    assert len(checker.ids) == len(set(checker.ids))
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert not re.search(r"https?://(?!www\.w3\.org/(1999/xlink|2000/svg))", text)


def test_pictures_of_trained_models_are_part_of_the_page(store, tmp_path, monkeypatch):
    _give_sites(monkeypatch)
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "ebm-digits_long-run.png").write_bytes(b"a picture")
    text = report.write(tmp_path, store, "quick").read_text()
    assert base64.b64encode(b"a picture").decode() in text
    assert "Deep EBM on digits: long-run chains" in text
    assert text.count("data:image/png") == 2  # the RBM's filters are the other
    assert "(pictures/ebm-digits_long-run.png)" in (tmp_path / "report.md").read_text()


def test_what_comes_from_a_store_is_escaped(store, monkeypatch):
    monkeypatch.setattr("hopscale.paper.store.hardware", lambda: "</script><b>&fast")
    put(store, "ising", lambda c: True)
    book = Book(store, "quick")
    text = page.render(report.build(book), {}, book)
    assert "<b>&fast" not in text
    assert "&lt;/script&gt;&lt;b&gt;&amp;fast" in text


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_a_store_without_cells_gives_a_report(store, tmp_path, monkeypatch, profile):
    _give_sites(monkeypatch)
    path = report.write(tmp_path / "out", store, profile)
    assert path == tmp_path / "out" / "report.html"
    assert [p.name for p in (tmp_path / "out" / "figures").glob("*.png")] == ["finite.png"]
    text = path.read_text()
    assert text.count("not run") > 50
    assert "No cell of the tables was run yet." in text


def test_half_a_store_gives_a_report(store):
    """Every other cell missing, nothing breaks."""
    kept = iter(range(10**6))
    for experiment in EXPERIMENTS:
        for cell in experiment.cells("quick", lambda c: store.get(c.settings())):
            if next(kept) % 2:
                store.put(cell.settings(), by_theory(cell))
    text = as_markdown(report.build(Book(store, "quick")))
    assert "not run" in text
    assert "within the criterion" in text


# In a browser.

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

WATCH = """<script>
window.problems = [];
addEventListener("error", (event) => problems.push(event.message));
console.error = (...words) => problems.push(words.join(" "));
</script>"""

# Uses the page as a reader would, and tells the page around it what happened.
VISIT = """<script>
addEventListener("load", () => {
  const figure = document.querySelector("figure[data-chart=efficiency]");
  const tip = document.getElementById("tip");
  const found = { width: innerWidth, scroll: document.scrollingElement.scrollWidth };
  found.filled = document.querySelectorAll("td.stack.within, td.stack.high, td.stack.low").length;
  figure.querySelector("[data-view=live]").click();
  found.shown = !figure.querySelector(".live").hidden && figure.querySelector(".print").hidden;
  const panel = () => figure.querySelector(".panels svg");
  const marks = () => panel().querySelectorAll("g[fill]:not([fill=none]) path").length;
  const at = panel().querySelector("g[fill^=var] path").getBoundingClientRect();
  const move = (x, y) => panel().dispatchEvent(
    new PointerEvent("pointermove", { clientX: x, clientY: y, bubbles: true }));
  found.before = tip.hidden;
  move(at.left + at.width / 2, at.top + at.height / 2);
  found.tip = tip.hidden ? "" : tip.innerText;
  const box = tip.getBoundingClientRect();
  found.inside = box.left >= 0 && box.right <= innerWidth;
  move(0, 0);
  found.after = tip.hidden;
  panel().dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
  found.byKey = !tip.hidden;
  panel().dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  found.escaped = tip.hidden;
  const button = [...figure.querySelectorAll(".legend button")].find((b) => b.innerText === "C2");
  found.marks = [marks()];
  button.click();
  found.marks.push(marks());
  found.pressed = button.getAttribute("aria-pressed");
  button.click();
  found.marks.push(marks());
  for (const other of document.querySelectorAll("[data-view=live]")) other.click();
  found.drawn = document.querySelectorAll(".panels svg").length;
  found.wide = document.scrollingElement.scrollWidth;
  document.querySelector("td.stack").dispatchEvent(new PointerEvent("pointerenter"));
  found.detail = tip.innerText;
  found.problems = problems;
  parent.postMessage(found, "*");
});
</script>"""

FRAMES = """<!doctype html><meta charset="utf-8"><pre id="found"></pre>
<iframe src="copy.html" style="width: 360px; height: 700px"></iframe>
<iframe src="copy.html" style="width: 1200px; height: 800px"></iframe>
<script>
const all = [];
addEventListener("message", (event) => {
  all.push(event.data);
  document.getElementById("found").textContent = JSON.stringify(all);
});
</script>"""


@pytest.fixture(scope="module")
def visits(written, tmp_path_factory):
    """What happened in the page at two widths, narrow first."""
    if BROWSER is None:
        pytest.skip("no chromium found: the page is not tried in a browser")
    folder = tmp_path_factory.mktemp("browser")
    text = (written / "report.html").read_text()
    copy = text.replace("<head>", f"<head>{WATCH}", 1).replace("</body>", f"{VISIT}</body>")
    (folder / "copy.html").write_text(copy)
    (folder / "frames.html").write_text(FRAMES)
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1300,1700",
        "--virtual-time-budget=20000", "--dump-dom", (folder / "frames.html").as_uri(),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'<pre id="found">(.*?)</pre>', run.stdout, re.DOTALL)
    assert found, run.stderr[-2000:]
    return sorted(json.loads(html.unescape(found[1])), key=lambda visit: visit["width"])


def test_the_page_runs_without_errors(visits):
    assert [visit["width"] for visit in visits] == [360, 1200]
    assert [visit["problems"] for visit in visits] == [[], []]


def test_tables_are_filled(visits):
    assert visits[1]["filled"] > 20
    assert "RWM-1; Bernoulli, N = 100, C2" in visits[1]["detail"]


def test_nothing_is_wider_than_the_page(visits):
    for visit in visits:
        assert visit["scroll"] <= visit["width"]
        assert visit["wide"] <= visit["width"]


def test_a_point_shows_its_cell(visits):
    for visit in visits:
        assert visit["before"]
        assert visit["after"]
        assert visit["inside"]
        for part in ("Bernoulli 100 C2", "LBP(t/(t+1)), same", "EJD", "±", "seconds", "seed"):
            assert part in visit["tip"]
        assert visit["byKey"]
        assert visit["escaped"]


def test_the_legend_toggles_a_series(visits):
    for visit in visits:
        full, without, again = visit["marks"]
        assert full > 10
        assert without == 0
        assert again == full
        assert visit["pressed"] == "false"
        assert visit["shown"]
        assert visit["drawn"] > 20
