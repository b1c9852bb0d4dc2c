"""How an experiment is added, as documentation: one module, listed once."""

import re

from hopscale_reproduction import experiments
from hopscale_reproduction.cells import Cell
from hopscale_reproduction.chart import Chart, Panel, Point, Series
from hopscale_reproduction.experiment import Experiment, Part
from hopscale_reproduction.report.blocks import Claim, Grid, Picture
from hopscale_reproduction.report.writing import write
from hopscale_reproduction.runner import Runner

# What would be the module.

SCALES = (1.0, 2.0, 4.0)


def cells(profile, find):
    """What to run: the random walk on fair coins, with ever larger steps."""
    for scale in SCALES:
        yield Cell(
            "identical", 16, "", "rwm", scale=scale, options=(("p", 0.5),),
            chains=4, warmup=10, draws=200 if profile == "paper" else 20,
        )  # fmt: skip


def distances(snapshot):
    """What to compute from it: the jump distance at every scale."""
    return {cell.scale: results["ejd"] for cell, results in snapshot.found("coins")}


def blocks(snapshot):
    """What the report shows: a figure and a table."""
    found = snapshot.once(distances)
    points = [Point(scale, distance) for scale, distance in found.items()]
    panel = Panel("fair coins", "R", "EJD", [Series("RWM", points, "blue")])
    rows = [[f"{scale:g}", f"{distance:.1f}"] for scale, distance in found.items()]
    return [
        Picture(Chart("coins", "Fair coins", [panel], 1), "Jump distance against R."),
        Grid("Every scale.", ["R", "EJD"], rows),
    ]


def claim(snapshot):
    """What the paper says of it, and what was found."""
    text, found = "On fair coins every step is accepted", snapshot.once(distances)
    if not found:
        return Claim("coins", text, "", "not run")
    holds = all(scale == distance for scale, distance in found.items())
    said = "Every jump is as long as R." if holds else "Some jumps are shorter."
    return Claim("coins", text, said, "yes" if holds else "no")


EXPERIMENT = Experiment(
    name="coins",
    title="Fair coins",
    cells=cells,
    parts=(Part("coins", "coins", blocks, title="Fair coins"),),
    claims=(claim,),
)


# And what follows.


def test_it_is_run_and_reported(store, tmp_path):
    def report():
        write(tmp_path, store, "quick", [EXPERIMENT])
        return (tmp_path / "report.md").read_text()

    assert "- – On fair coins every step is accepted. Not run." in report()
    (outcome,) = Runner(store, "quick").run([EXPERIMENT])
    assert (outcome.ran, outcome.complete) == (3, True)
    text = report()
    assert "- ✓ On fair coins every step is accepted. Every jump is as long as R." in text
    assert "## Fair coins\n\n![Jump distance against R.](figures/coins.png)" in text
    assert re.search(r"\| 4 +\| 4\.0 \|", text)
    assert re.search(r"\| Fair coins +\| +3 \| +3 \|", text)
    assert (tmp_path / "figures" / "coins.svg").is_file()


def test_listed_once_it_has_a_name_on_the_command_line(monkeypatch):
    monkeypatch.setattr(experiments, "EXPERIMENTS", (*experiments.EXPERIMENTS, EXPERIMENT))
    assert experiments.named(["coins"]) == [EXPERIMENT]
    assert experiments.named(["default"])[-1] == EXPERIMENT
