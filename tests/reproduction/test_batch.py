"""Cells side by side are the runs that `hopscale.sample` gives."""

import numpy as np
import pytest

import hopscale as hs
from hopscale.paper import instances
from hopscale_reproduction.batch import Batch, split
from hopscale_reproduction.cells import Cell, table_cell

LENGTH = {"warmup": 70, "draws": 90, "chains": 6}


def run(cells, size=None):
    batch = Batch(cells, size)
    assert batch.run(lambda steps: True)
    return batch.results()


def alone(cell):
    tuner = hs.Fixed(cell.scale) if cell.rate is None else hs.Adaptive(cell.rate)
    return hs.sample(
        cell.make_target(),
        cell.make_kernel(),
        chains=cell.chains,
        warmup=cell.warmup,
        draws=cell.draws,
        key=cell.seed,
        scale=tuner,
        progress=False,
    )


@pytest.mark.parametrize(
    ("model", "size", "sampler", "balance"),
    [
        ("bernoulli", 30, "lbp", "barker"),
        ("ising", 6, "gwg", "sqrt"),
        ("fhmm", 8, "rwm", ""),
    ],
)
def test_a_cell_does_not_notice_its_neighbours(model, size, sampler, balance):
    first = table_cell(model, size, "C1", sampler, balance, rate=0.5, **LENGTH)
    cells = [first, first.but(config="C3"), first.but(rate=None, scale=2.5), first.but(seed=1)]
    for cell, found in zip(cells, run(cells, size=5), strict=True):
        single = alone(cell)
        np.testing.assert_allclose(found["scale"], single.scale, rtol=1e-5)
        np.testing.assert_allclose(found["acceptance"], single.acceptance, rtol=1e-5)
        np.testing.assert_allclose(found["ejd"], single.ejd, rtol=1e-5)
        np.testing.assert_allclose(found["ess"], single.ess, rtol=1e-4)
        np.testing.assert_allclose(found["r_hat"], single.statistics["hamming"].r_hat, rtol=1e-4)


def test_neighbours_differ():
    """The twin of the test above: cells that share a target, key or scale would be alike."""
    first = table_cell("bernoulli", 30, "C1", "lbp", "barker", rate=0.5, **LENGTH)
    cells = [first, first.but(config="C3"), first.but(rate=0.8), first.but(seed=1)]
    assert len({found["ejd"] for found in run(cells)}) == 4


def test_a_batch_stops_when_told():
    cell = table_cell("bernoulli", 30, "C2", "rwm", "", warmup=600, draws=600, chains=4)
    seen = []
    assert not Batch([cell]).run(lambda steps: seen.append(steps) or len(seen) < 2)
    assert seen == [512, 88]


def test_batches_hold_one_shape_and_are_equal_in_size(monkeypatch):
    from hopscale_reproduction import batch

    monkeypatch.setitem(batch.SITES, "cpu", 100 * 6 * 4)
    small = table_cell("bernoulli", 100, "C1", "lbp", "barker", **LENGTH)
    cells = [small.but(seed=i) for i in range(7)] + [small.but(size=50)]
    assert [len(part) for part in split(cells)] == [4, 3, 1]
    assert [cell for part in split(cells) for cell in part] == cells
    assert small.but(sampler="gwg", detail="once").shape != small.shape
    assert small.but(rate=0.3, config="C2", instance=4).shape == small.shape


def test_sites_are_counted_without_the_target():
    cells = [table_cell(m, 100, "C1", "rwm", "") for m in ("bernoulli", "ising", "fhmm", "rbm")]
    cells.append(Cell("identical", 100, "", "rwm", options=(("p", 0.3),)))
    cells.append(Cell("nearly_fair", 100, "", "rwm", options=(("beta", 0.1),)))
    for cell in cells:
        assert cell.num_sites == cell.make_target().num_sites


def test_on_a_gpu_short_batches_share_programs(monkeypatch):
    from hopscale_reproduction import batch

    cell = table_cell("bernoulli", 100, "C1", "lbp", "barker", **LENGTH)
    long = cell.but(warmup=10**9)
    assert [batch.program_size([cell] * n) for n in (3, 9, 17)] == [3, 9, 17]
    monkeypatch.setattr(batch, "platform", lambda: "gpu")
    assert [batch.program_size([cell] * n) for n in (3, 8, 9, 17)] == [3, 8, 10, 20]
    assert [batch.program_size([long] * n) for n in (3, 9, 17)] == [3, 9, 17]
    monkeypatch.setitem(batch.SITES, "gpu", 9 * 600)  # no more than fit
    assert batch.program_size([cell] * 9) == 9


@pytest.mark.parametrize("statistic", ["sum", "site", "pair", "log_prob"])
def test_other_statistics_are_measured(statistic):
    cell = Cell(
        "identical", 12, "", "lbp", "barker", "reversed", scale=3.0,
        options=(("p", 0.25),), statistic=statistic, chains=50, warmup=50, draws=400,
    )  # fmt: skip
    assert 10 < run([cell])[0]["ess"] < 800


def test_nearly_fair_targets_approach_one_half():
    p = np.asarray(instances.nearly_fair(1000, 0.5, key=1).p)
    gap = np.abs(p - 0.5) * 1000**0.5
    assert gap.min() > 0.1
    assert gap.max() < 0.4
    assert 400 < (p > 0.5).sum() < 600
