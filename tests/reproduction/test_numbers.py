"""The report's numbers, on stores filled by hand."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from stores import by_theory, fill, plain, put

import hopscale as hs
from hopscale import theory
from hopscale_reproduction import printed
from hopscale_reproduction.cells import Cell
from hopscale_reproduction.criteria import BEYOND, NOT_RUN, UNJUDGED, WITHIN
from hopscale_reproduction.experiments import (
    EXPERIMENTS,
    finite,
    instances,
    jumps,
    near_fair,
    order,
)
from hopscale_reproduction.experiments.near_fair import RATES
from hopscale_reproduction.experiments.sampling import comparison, curves
from hopscale_reproduction.experiments.sampling.reasons import Reasons
from hopscale_reproduction.experiments.sampling.sources import best_of
from hopscale_reproduction.fits import slope
from hopscale_reproduction.places import ALBP, ARWM, Column, Method
from hopscale_reproduction.report.markdown import render as as_markdown
from hopscale_reproduction.report.writing import build, claims
from hopscale_reproduction.snapshot import Snapshot
from hopscale_reproduction.store import Store
from hopscale_reproduction.values import Value, mean

RWM_1 = Method("rwm", "", "fixed-1")
GRWM = Method("rwm", "", "grid")
SMALL = Column("bernoulli", 100, "C2")


def test_printed_numbers_of_the_small_tables():
    assert [printed.sites("half", e) for e in finite.EPSILONS["half"]] == [10, 40, 160, 640]
    assert [printed.sites("zero", e) for e in finite.EPSILONS["zero"]] == [50, 100, 200, 400]
    where = ("fhmm", 1000, "lbp", "barker", "adaptive")
    assert printed.value(where[0], where[1], "Table 1", *where[2:], "ess") == 129.28
    assert printed.value(where[0], where[1], "C2", *where[2:], "seconds") == 129.28


def test_printed_numbers():
    assert printed.value("bernoulli", 800, "C2", "lbp", "barker", "adaptive", "ejd") == 78.63
    assert printed.value("ising", 50, "C2", "rwm", "", "fixed-1", "ejd") == 0.64
    assert printed.value("ising", 51, "C2", "rwm", "", "fixed-1", "ejd") is None
    assert printed.steps("static-mnist", "barker", "fixed-1") == 90


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
    table = comparison.table(Snapshot(store, "paper"), "bernoulli")
    assert len(table.columns) == 9
    assert len(table.methods) == 15
    counts = comparison.count(table.all())
    assert counts == {"within": 0, "beyond": 0, "not run": 9 * 15 * 3, "unjudged": 0}


def test_small_bernoulli_is_judged_on_the_mean_over_draws_of_p(store):
    for i, ejd in enumerate((0.60, 0.62, 0.64, 0.66)):
        chosen = ("rwm", None, i)
        put(store, "instances", lambda c, s=chosen: (c.sampler, c.rate, c.instance) == s, ejd=ejd)
    put(store, "bernoulli", lambda c: c.sampler == "rwm" and c.rate is None, ejd=0.1)
    entry = comparison.table(Snapshot(store, "quick"), "bernoulli").entries[SMALL, RWM_1, "ejd"]
    assert entry.ours is not None
    assert entry.ours.mean == pytest.approx(0.63)
    assert entry.ours.count == 4
    assert entry.source == "instances"
    assert entry.paper == 0.66
    assert entry.ratio == pytest.approx(0.63 / 0.66)
    assert entry.verdict == WITHIN  # 4.5% of 6%


@pytest.mark.parametrize(("ejd", "verdict"), [(0.66, "within"), (0.62, "beyond")])
def test_ising_is_judged_at_three_per_cent(store, ejd, verdict):
    put(store, "ising", lambda c: c.sampler == "rwm" and c.rate is None, ejd=ejd)
    column = Column("ising", 20, "C2")
    table = comparison.table(Snapshot(store, "quick"), "ising")
    assert table.entries[column, RWM_1, "ejd"].paper == 0.65
    assert table.entries[column, RWM_1, "ejd"].verdict == verdict
    assert table.entries[column, ARWM, "ejd"].verdict == NOT_RUN


def test_ess_is_relative_to_albp(store):
    put(store, "ising", lambda c: c.sampler == "lbp" and c.rate == 0.574, ess=300.0)
    put(store, "ising", lambda c: c.sampler == "rwm" and c.rate is None, ess=15.0)
    column = Column("ising", 20, "C2")
    table = comparison.table(Snapshot(store, "quick"), "ising")
    entry = table.entries[column, RWM_1, "ess"]
    assert entry.ours is not None
    assert entry.ours.mean == pytest.approx(0.05)
    assert entry.paper == pytest.approx(13.7 / 394.65)
    assert entry.verdict == BEYOND
    assert table.entries[column, ALBP, "ess"].verdict == UNJUDGED
    assert entry.implied == pytest.approx(394.65 / 0.2)


@pytest.mark.parametrize(
    ("ess", "error", "reason"),
    [
        (14.0, 0.1, "A slow chain: 14 effective draws of 1,500 here, 14 of about 1,973 in print."),
        (14.0, 2.0, "Within chance: by Monte Carlo error alone"),
        (19.0, 0.1, "Not explained"),  # further off than the chains' lengths are
        (7.0, 0.1, "Not explained"),  # the shorter chain counts for less
    ],
)
def test_lengths_explain_slow_chains_so_far_and_no_further(store, ess, error, reason):
    put(store, "ising", lambda c: c.sampler == "lbp" and c.rate == 0.574, ess=300.0)
    put(store, "ising", lambda c: c.sampler == "rwm" and c.rate is None, ess=ess, ess_error=error)
    snapshot = Snapshot(store, "quick")
    entry = comparison.table(snapshot, "ising").entries[Column("ising", 20, "C2"), RWM_1, "ess"]
    assert entry.verdict == BEYOND
    assert Reasons(snapshot).of(entry).startswith(reason)
    assert Reasons(snapshot).explained(entry) == (not reason.startswith("Not"))


@pytest.mark.parametrize(("last", "found"), [(0.5, True), (2.0, False)])
def test_no_rate_is_best_where_all_sites_at_once_move_furthest(store, last, found):
    """The lowest rate cannot be had: its scale stops at N, off the curve."""

    def chosen(rate):
        return lambda c: (c.size, dict(c.options)["beta"], c.rate) == (100, 0.3, rate)

    for rate in RATES:
        ejd = rate * norm.ppf(rate / 2) ** 2
        put(store, "near-fair", chosen(rate), acceptance=rate, scale=50.0, ejd=ejd)
    top = max(rate * norm.ppf(rate / 2) ** 2 for rate in RATES)
    with Store(store.path.with_name("stopped.sqlite")) as stopped:
        stopped.add_all(store.rows())
        stopped._db.execute("DELETE FROM cells WHERE settings LIKE ?", (f'%"rate": {RATES[0]}%',))
        put(stopped, "near-fair", chosen(RATES[0]), acceptance=0.2, scale=100.0, ejd=last * top)
        best = near_fair.curves(Snapshot(stopped, "quick"))[0].best
    if found:
        assert best == pytest.approx(0.234, abs=0.006)
    else:
        assert best is None


def test_ess_is_over_as_many_draws_as_the_printed_sizes_imply(store):
    put(store, "lengths", lambda c: c.sampler == "lbp" and c.rate == 0.574, ess=500.0)
    put(store, "lengths", lambda c: c.sampler == "rwm" and c.rate is None, ess=20.0)
    put(store, "bernoulli", lambda c: c.sampler == "lbp" and c.rate == 0.574, ess=300.0)
    put(store, "bernoulli", lambda c: c.sampler == "rwm" and c.rate is None, ess=15.0)
    entry = comparison.table(Snapshot(store, "quick"), "bernoulli").entries[SMALL, RWM_1, "ess"]
    assert (entry.source, entry.draws) == ("lengths", 2000)
    assert entry.ours is not None
    assert entry.stated is not None
    assert entry.ours.mean == pytest.approx(20 / 500)
    assert entry.stated.mean == pytest.approx(15 / 300)


def test_a_grid_is_the_best_of_all_rates_once_its_neighbours_are_there(store):
    put(store, "ising", lambda c: c.sampler == "rwm" and c.rate is None, ejd=0.65, acceptance=0.65)
    put(store, "ising", lambda c: c.rate == 0.234, ejd=1.6)
    column = Column("ising", 20, "C2")

    def grid():
        return comparison.table(Snapshot(store, "quick"), "ising").entries[column, GRWM, "ejd"].ours

    assert grid() is None
    put(store, "ising", lambda c: c.rate == 0.25, ejd=1.7)
    assert grid() is None
    assert put(store, "ising", lambda c: c.rate in (0.17, 0.21, 0.29), ejd=1.5)
    assert grid() is None  # the top may be further up
    assert put(store, "ising", lambda c: c.rate == 0.33, ejd=1.4)
    value = grid()
    assert value is not None
    assert value.mean == 1.7
    assert put(store, "ising", lambda c: c.sampler == "rwm" and c.rate == 0.05, ejd=1.8)
    assert grid() is None  # one far off is the best so far: nothing is known about its neighbours


@pytest.mark.parametrize(("top", "known"), [(0, True), (3, True), (4, True), (5, False)])
def test_the_best_rate_may_be_the_first_but_not_beside_one_that_is_missing(top, known):
    cells = [Cell("ising", 20, "C2", "rwm", rate=0.1 * k) for k in range(8)]
    runs = [(cell, plain(ejd=9.0 - abs(k - top))) for k, cell in enumerate(cells)]
    assert best_of(runs, "ejd") == [runs[top]]
    assert best_of([*runs[:7], (cells[7], None)], "ejd") == ([runs[top]] if known else [])


def test_profiles_in_one_store_do_not_mix(store):
    fill(store, "quick", lambda cell: plain())
    assert (
        comparison.count(comparison.table(Snapshot(store, "quick"), "ising").all())["not run"] == 0
    )
    table = comparison.table(Snapshot(store, "paper"), "ising")
    assert comparison.count(table.all())["not run"] == len(table.all())
    runs = len(store.rows("run"))
    assert build(Snapshot(store, "quick")).facts[:2] == ["quick profile", f"{runs:,} runs"]
    shared = set(Snapshot(store, "quick").cells("lengths")) & set(
        Snapshot(store, "paper").cells("lengths")
    )
    assert build(Snapshot(store, "paper")).facts[1] == f"{len(shared)} runs"


def test_what_a_reading_gains_is_measured(store):
    """Nothing is said before both readings are there."""

    def text():
        return as_markdown(build(Snapshot(store, "quick")))

    put(store, "readings", lambda c: c.detail == "same", ejd=20.0)
    assert "The other reading's" not in text()
    put(store, "readings", lambda c: c.detail == "reversed" and c.model == "bernoulli", ejd=22.0)
    put(store, "readings", lambda c: c.detail == "reversed" and c.model == "ising", ejd=20.4)
    said = "jump distance, relative to the tables' one: Bernoulli 1.10, Ising 1.02."
    assert f"The other reading's {said}" in text()


@pytest.mark.parametrize(("profile", "more"), [("quick", ""), ("paper", " all")])
def test_the_command_that_makes_it_again_runs_all_that_is_shown(store, profile, more):
    """In the paper's profile the RBM has to be asked for."""

    def text():
        return as_markdown(build(Snapshot(store, profile)))

    def first(experiment):
        plan = next(e for e in EXPERIMENTS if e.name == experiment)
        cell = next(iter(plan.cells(profile, lambda c: None)))
        store.put(cell.settings(), plain(), cell.kind)

    first("ising")
    assert f"`hopscale reproduce --profile {profile}`" in text()
    first("rbm")
    assert f"`hopscale reproduce{more} --profile {profile}`" in text()


@pytest.mark.parametrize(("sizes", "status"), [((), "not run"), ((100,), "too short"),
                                               ((100, 200, 400), "yes")])  # fmt: skip
def test_what_is_too_short_to_judge_is_told_from_what_was_not_run(store, sizes, status):
    for cell in order.cells("quick", lambda c: None):
        if cell.model == "bernoulli" and cell.size in sizes:
            store.put(cell.settings(), plain(scale=cell.size ** (2 / 3)))
    (claim,) = (c for c in claims(Snapshot(store, "quick")) if c.name == "scale-order")
    assert claim.status == status
    assert bool(claim.found) == bool(sizes)


def test_a_slope_with_a_wide_error_is_not_judged(store):
    scattered = {100: 10.0, 200: 40.0, 400: 30.0}
    for cell in order.cells("quick", lambda c: None):
        if cell.model == "bernoulli" and cell.size in scattered:
            store.put(cell.settings(), plain(scale=scattered[cell.size]))
    (claim,) = (c for c in claims(Snapshot(store, "quick")) if c.name == "scale-order")
    assert claim.status == "too short"


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.0), (0.9, 0.05)])
def test_the_variance_of_coupled_sites_is_found_from_the_scales(a, b):
    square = (2 * norm.ppf(0.287)) ** 2
    sites = [100, 400, 1600, 6400]
    scales: list = [
        brentq(lambda r, n=n: a * r**3 / n**2 + b * r**2 / n - square, 1, n) for n in sites
    ]
    values = [Value(scale, 0.0) for scale in scales]
    fit = slope(sites, scales)
    found = order.coupled(order.Growth("ising", order.LBP_SCALE, sites, values, fit, None))
    assert found[:2] == pytest.approx((a, b), abs=1e-6)
    assert found.misfit < 1e-6
    assert (found.misfit_of_power > 0.01) == (b > 0)


@pytest.mark.parametrize("target", [hs.paper.ising(6, "C3"), hs.paper.fhmm(6, "C3")])
def test_with_sqrt_weights_pairs_that_change_together_cancel(target):
    """The log-probability of a model of pairs follows from the log-ratios at both ends."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, target.shape)
    flipped = rng.random(target.shape) < 0.4
    start, end = (target.evaluate(jnp.asarray(s)) for s in (x, np.where(flipped, 1 - x, x)))
    change = 0.5 * np.sum((start.log_ratios - end.log_ratios)[flipped])
    assert float(end.log_prob - start.log_prob) == pytest.approx(float(change), abs=1e-3)


@pytest.mark.parametrize(("sampler", "rate"), [("lbp", 0.574), ("rwm", 0.234)])
def test_peaks_of_the_theory_are_found(sampler, rate):
    rates = np.arange(0.03, 0.97, 0.02)
    values = theory.efficiency_curve(rates, [0.2], sampler)
    points = [
        curves.Measured(Cell("ising", 20, "C2", sampler), plain(acceptance=a, ejd=v))
        for a, v in zip(rates, values, strict=True)
    ]
    top = curves.peak(points)
    assert top is not None
    assert top.mean == pytest.approx(rate, abs=0.01)
    assert curves.peak(points[:4]) is None


def test_slopes_are_exact_on_a_power_law():
    sizes = [50, 100, 400, 1600]
    fit = slope(sizes, [3.0 * n ** (2 / 3) for n in sizes])
    assert fit is not None
    assert fit.slope == pytest.approx(2 / 3)
    assert fit.factor == pytest.approx(3.0)
    assert fit.error == pytest.approx(0.0, abs=1e-9)
    assert slope([1, 2], [1.0, 2.0]) is None


def test_proportional_jumps_have_correlation_one(store):
    fill(store, "quick", by_theory)
    found = jumps.jumps(Snapshot(store, "quick"))
    assert len(found) == 5
    for jump in found:
        assert jump.correlation == pytest.approx(1.0)
        assert jump.misfit == pytest.approx(0.0, abs=1e-9)
    assert found[0].factor == pytest.approx(0.3 * 100 / found[0].runs[0][0].draws)


def test_the_spread_over_draws_of_p_is_that_of_the_average_behind_it():
    """The relative deviation of an average of N terms, by their moments."""
    p = np.linspace(0.15, 0.85, 100_001)
    terms = (2 * p - 1) * np.log(p / (1 - p))
    by_moments = terms.std() / terms.mean() / math.sqrt(800)
    assert instances.predicted(Column("bernoulli", 800, "C2"), ARWM) == pytest.approx(
        by_moments, rel=0.05
    )
    assert instances.predicted(SMALL, Method("lbp", "sqrt", "fixed-1")) == 0.0


def test_one_draw_of_p_explains_what_is_within_three_deviations(store):
    reasons = Reasons(Snapshot(store, "quick"))

    def entry(ejd):
        ours = Value(ejd, 0.001)
        where = {"column": Column("bernoulli", 800, "C2"), "method": ARWM}
        return comparison.Entry(
            **where, metric="ejd", printed=1.7, paper=1.7, measured=ours, ours=ours
        )

    assert entry(1.8).verdict == BEYOND
    said = "Within chance: over draws of p, the standard deviation is 3."
    assert said in reasons.of(entry(1.8))
    assert reasons.explained(entry(1.8))
    assert not reasons.explained(entry(2.4))


def test_the_spread_of_fields_falls_with_the_side_of_the_lattice():
    ours = Value(1.6, 0.01, 0.04, 16)
    drawn = instances.Spread(Column("ising", 20, "C2"), ARWM, 1.7, ours, [], math.nan)
    assert instances.spread_at([drawn], Column("ising", 50, "C2"), ARWM) == pytest.approx(0.016)
    assert instances.spread_at([drawn], Column("ising", 50, "C2"), GRWM) == pytest.approx(0.016)
    assert math.isnan(instances.spread_at([drawn], Column("ising", 50, "C3"), ARWM))
    assert drawn.z == pytest.approx(
        0.0625 / math.hypot(0.04 * math.sqrt(17 / 16), 0.0018), rel=1e-3
    )
