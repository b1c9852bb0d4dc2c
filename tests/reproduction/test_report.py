"""The report's files, and the page in a real browser."""

import base64
import html.parser
import re
from importlib.util import find_spec

import pytest
from stores import by_theory, fill, put

import browser
from hopscale_reproduction import rows
from hopscale_reproduction.experiments import finite
from hopscale_reproduction.report import html as page
from hopscale_reproduction.report.markdown import render as as_markdown
from hopscale_reproduction.report.writing import build, write
from hopscale_reproduction.snapshot import Snapshot


def test_all_files_are_written(written):
    pictures = {path.stem for path in (written / "figures").glob("*.svg")}
    assert pictures == {path.stem for path in (written / "figures").glob("*.png")}
    assert {
        "efficiency",
        "order",
        "agreement",
        "jumps",
        "near-fair",
        "finite",
        "instances",
    } <= pictures
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


def test_pictures_of_trained_models_are_part_of_the_page(store, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "ebm-digits_long-run.png").write_bytes(b"a picture")
    text = write(tmp_path, store, "quick").read_text()
    assert base64.b64encode(b"a picture").decode() in text
    assert "Deep EBM on digits: long-run chains" in text
    assert text.count("data:image/png") == 2  # the RBM's filters are the other
    assert "(pictures/ebm-digits_long-run.png)" in (tmp_path / "report.md").read_text()


def test_what_comes_from_a_store_is_escaped(store, monkeypatch):
    monkeypatch.setattr(rows, "hardware", lambda: "</script><b>&fast")
    put(store, "ising", lambda c: True)
    snapshot = Snapshot(store, "quick")
    text = page.render(build(snapshot), {}, snapshot)
    assert "<b>&fast" not in text
    assert "&lt;/script&gt;&lt;b&gt;&amp;fast" in text


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_a_store_without_cells_gives_a_report(store, tmp_path, profile):
    path = write(tmp_path / "out", store, profile)
    assert path == tmp_path / "out" / "report.html"
    assert list((tmp_path / "out" / "figures").iterdir()) == []
    text = path.read_text()
    assert text.count("not run") > 50
    assert "No cell of the tables was run yet." in text


def test_a_report_puts_nothing_into_the_store(store, tmp_path):
    put(store, "ising", lambda c: c.role == "adaptive")
    before = store.rows()
    write(tmp_path, store, "quick", [finite.EXPERIMENT])
    assert store.rows() == before


def test_half_a_store_gives_a_report(store):
    """Every other cell missing, nothing breaks."""
    fill(store, "quick", by_theory, every=2)
    text = as_markdown(build(Snapshot(store, "quick")))
    assert "not run" in text
    assert "within the criterion" in text


# In a browser.

WATCH = """
window.problems = [];
addEventListener("error", (event) => problems.push(event.message));
console.error = (...words) => problems.push(words.join(" "));
"""

# Uses the page as a reader would, and tells what happened.
VISIT = """() => {
  const figure = document.querySelector("figure[data-chart=efficiency]");
  const tip = document.getElementById("tip");
  const found = { width: innerWidth, scroll: document.scrollingElement.scrollWidth };
  found.filled = document.querySelectorAll("td.stack.within, td.stack.high, td.stack.low").length;
  figure.querySelector("[data-view=explore]").click();
  found.shown = !figure.querySelector(".explore").hidden && figure.querySelector(".figure").hidden;
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
  for (const other of document.querySelectorAll("[data-view=explore]")) other.click();
  const drawn = [...document.querySelectorAll(".panels svg")];
  found.drawn = drawn.length;
  found.enlarged = Math.max(...drawn.map((s) => s.clientWidth / s.viewBox.baseVal.width));
  found.wide = document.scrollingElement.scrollWidth;
  document.querySelector("td.stack").dispatchEvent(new PointerEvent("pointerenter"));
  found.detail = tip.innerText;
  found.problems = problems;
  return found;
}"""


@pytest.fixture(scope="module")
def visits(written):
    """What happened in the page at two widths, narrow first; and what is wrong with it."""
    chromium = browser.find()
    if chromium is None or find_spec("playwright") is None:
        pytest.skip("no browser, or no Playwright to drive it: `make docs` fetches both")
    found = []
    with browser.running(chromium) as running:
        for width in (360, 1280):
            page = running.new_page(viewport={"width": width, "height": 800})
            page.set_default_timeout(120_000)
            page.add_init_script(WATCH)
            page.goto((written / "report.html").as_uri())
            faults = [what for what, number in page.evaluate(browser.LOOK).items() if number]
            found.append({**page.evaluate(VISIT), "faults": faults})
            page.close()
    return found


def test_the_page_runs_without_errors(visits):
    assert [visit["width"] for visit in visits] == [360, 1280]
    assert [visit["problems"] for visit in visits] == [[], []]
    assert [visit["faults"] for visit in visits] == [[], []]


def test_tables_are_filled(visits):
    assert visits[1]["filled"] > 20
    assert "RWM-1; Bernoulli, N = 100, C2" in visits[1]["detail"]


def test_nothing_is_wider_than_the_page(visits):
    for visit in visits:
        assert visit["scroll"] <= visit["width"]
        assert visit["wide"] <= visit["width"]


def test_a_panel_alone_is_not_blown_up(visits):
    for visit in visits:
        assert visit["enlarged"] <= 1.51


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
