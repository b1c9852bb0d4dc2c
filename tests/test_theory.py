"""The limit theorems' constants and curves, and how well they predict a sampler written here."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom, norm

from hopscale import theory

C1, C2, C3 = (0.25, 0.75), (0.15, 0.85), (0.05, 0.95)
PATHS = ("reversed", "same")


def spaced(interval: tuple[float, float], n: int) -> np.ndarray:
    """Midpoints of n equal cells of the interval."""
    low, high = interval
    return low + (high - low) * (np.arange(n) + 0.5) / n


@dataclass(frozen=True)
class Target:
    p: np.ndarray


@pytest.mark.parametrize(("sampler", "z", "rate"), [("lbp", 1.081, 0.574), ("rwm", 5.670, 0.234)])
def test_optimum_is_the_papers(sampler, z, rate):
    found = theory.optimum(sampler)
    assert found.z == pytest.approx(z, abs=5e-4)
    assert found.rate == pytest.approx(rate, abs=5e-4)


def test_printed_z_of_rwm_is_near_but_not_at_the_maximum():
    def height(z):
        return 2 * z * norm.cdf(-np.sqrt(z) / 2)

    z, printed = theory.optimum("rwm").z, 5.673
    assert height(z) > max(height(printed), height(z - 1e-3), height(z + 1e-3))
    assert height(printed) == pytest.approx(height(z), rel=2e-7)
    assert 2 * norm.cdf(-np.sqrt(printed) / 2) == pytest.approx(0.234, abs=5e-4)


@pytest.mark.parametrize(
    ("interval", "barker", "sqrt"),
    [(C1, 0.303, 0.322), (C2, 0.444, 0.510), (C3, 0.597, 0.826)],
)
def test_lambda_1_of_eq_7(interval, barker, sqrt):
    p = spaced(interval, 6400)
    assert theory.lambda_1(p) == pytest.approx(barker, abs=0.002)
    assert theory.lambda_1(p, "sqrt") == pytest.approx(sqrt, abs=0.002)


def test_lambda_1_of_two_sites_by_hand():
    """sqrt, odds 4 and 1: weights (2, 1/2) and (1, 1), flows 2/5 and 1/2, mean weight 9/10."""
    p = [0.8, 0.5]
    square = (4 / 9) * 1.5**2 / (4 * 0.9**2)
    missing = (4 / 9) * (5 / 9) * 0.5**2 / (12 * 0.9**2)
    assert theory.lambda_1(p, "sqrt") ** 2 == pytest.approx(square, rel=1e-13)
    full = theory.lambda_1(p, "sqrt", complete=True)
    assert full**2 == pytest.approx(square + missing, rel=1e-13)


@pytest.mark.parametrize("balance", ["barker", "sqrt", "min", "max"])
def test_same_order_multiplies_the_variance_by_four_thirds(balance):
    p = spaced(C3, 100)
    reverse, same = (theory.lambda_1(p, balance, path) for path in PATHS)
    assert (same / reverse) ** 2 == pytest.approx(4 / 3, rel=1e-12)
    assert theory.lambda_1(p, balance, "same", complete=True) == same


def test_same_order_costs_barker_nine_percent():
    p = spaced(C2, 800)
    for best in (theory.optimal_scale, theory.optimal_ejd):
        assert best(p, path="same") / best(p) == pytest.approx(0.75 ** (1 / 3), rel=1e-12)


def test_missing_term_vanishes_only_for_barker_or_equal_sites():
    p = spaced(C3, 100)

    def growth(p, balance):
        return theory.lambda_1(p, balance, complete=True) / theory.lambda_1(p, balance)

    assert growth(p, "barker") == pytest.approx(1, abs=1e-12)
    assert growth(np.full(100, 0.9), "sqrt") == pytest.approx(1, abs=1e-12)
    assert all(growth(p, balance) > 1.02 for balance in ("sqrt", "min", "max"))


def test_own_balance_function_is_used_in_float64():
    p = spaced(C3, 50)
    odds = p / (1 - p)
    w_0, w_1 = 1 + odds, 1 + 1 / odds  # g(t) = 1 + t
    expected = np.sqrt(p @ (w_1 * (w_0 - w_1) ** 2) / (4 * np.mean(2 * p * w_1) ** 2 * (p @ w_1)))
    found = theory.lambda_1(p, lambda s: jnp.logaddexp(0.0, s))
    assert found == pytest.approx(expected, rel=1e-13)


def test_lambda_2_of_eq_21():
    p = np.array([0.2, 0.5, 0.6, 0.9])
    expected = 2 / 4 * (0.6 * np.log(4) + 0.2 * np.log(1.5) + 0.8 * np.log(9))
    assert theory.lambda_2(p) ** 2 == pytest.approx(expected, rel=1e-13)
    assert theory.lambda_2(p, beta=0.5) ** 2 == pytest.approx(4 * expected, rel=1e-13)


@pytest.mark.parametrize("sampler", ["lbp", "rwm"])
def test_ejd_peaks_at_the_optimal_scale_and_rate(sampler):
    p = spaced(C1, 6400)
    scale = theory.optimal_scale(p, sampler, balance="sqrt")
    height = theory.optimal_ejd(p, sampler, balance="sqrt")
    rate = theory.optimum(sampler).rate
    assert theory.acceptance(scale, p, sampler, balance="sqrt") == pytest.approx(rate, rel=1e-10)

    scales = scale * np.linspace(0.3, 3, 271)  # holds 1.0 at index 70
    assert np.argmax(theory.ejd(scales, p, sampler, balance="sqrt")) == 70
    rates = np.linspace(0.01, 0.99, 981)
    curve = theory.efficiency_curve(rates, p, sampler, balance="sqrt")
    assert rates[np.argmax(curve)] == pytest.approx(rate, abs=1e-3)
    assert height * (1 - 1e-5) < curve.max() <= height * (1 + 1e-12)


@pytest.mark.parametrize("sampler", ["lbp", "rwm"])
def test_efficiency_curve_inverts_acceptance(sampler):
    p, scale = spaced(C2, 400), np.array([[1.0, 4.0], [9.0, 30.0]])
    rate = theory.acceptance(scale, p, sampler)
    assert rate.shape == scale.shape
    curve = theory.efficiency_curve(rate, p, sampler)
    np.testing.assert_allclose(curve, theory.ejd(scale, p, sampler), rtol=1e-9)


def test_optimal_scale_stays_within_one_and_n():
    fair, frozen = np.full(7, 0.5), np.full(7, 1e-9)
    for sampler in ("lbp", "rwm"):
        assert theory.optimal_scale(fair, sampler) == 7
        assert theory.optimal_ejd(fair, sampler) == 7
        assert theory.optimal_scale(frozen, sampler) == 1


def test_a_target_stands_for_its_p():
    p = spaced(C1, 12)
    assert theory.lambda_1(Target(p.reshape(3, 4))) == theory.lambda_1(p)
    assert theory.optimal_scale(Target(p), "rwm") == theory.optimal_scale(p, "rwm")


def test_rwm_acceptance_approaches_the_sum_over_all_outcomes():
    """Equal sites near 1/2: the log-ratio of R flips is (R - 2K) logit(p), K binomial."""
    p, scale = 0.53, 400
    k = np.arange(scale + 1)
    ratio = np.exp((scale - 2 * k) * np.log(p / (1 - p)))
    exact = binom.pmf(k, scale, p) @ np.minimum(1, ratio)
    predicted = theory.acceptance(scale, [p], "rwm")
    assert predicted == pytest.approx(exact, abs=2e-3)
    without_the_2 = 2 * norm.cdf(-theory.lambda_2([p]) * np.sqrt(scale / 2) / 2)
    assert abs(without_the_2 - exact) > 0.1


def simulate(
    rng: np.random.Generator, p: np.ndarray, log_g, scale: int, draws: int
) -> dict[str, float]:
    """Mean acceptance of Eq. (5) at stationarity, the way back scored in either order.

    The path is the first `scale` arrivals of exponential clocks of rates w: the same law as
    drawing indices one by one without replacement.
    """
    logit = np.log(p / (1 - p))
    w_0, w_1 = np.exp(log_g(logit)), np.exp(log_g(-logit))
    total: dict[str, float] = dict.fromkeys(PATHS, 0.0)
    for _ in range(draws):
        x = rng.random(p.size) < p
        w = np.where(x, w_1, w_0)
        clock = rng.standard_exponential(p.size) / w
        u = np.argpartition(clock, scale)[:scale]
        u = u[np.argsort(clock[u])]
        w_y = np.where(x, w_0, w_1)[u]
        rest = w.sum() - w[u].sum()
        forth = np.log(rest + np.cumsum(w[u][::-1])).sum()
        for path, back in (("reversed", w_y), ("same", w_y[::-1])):
            total[path] += min(1.0, np.exp(forth - np.log(rest + np.cumsum(back)).sum()))
    return {path: total[path] / draws for path in PATHS}


def test_complete_variance_predicts_acceptance_and_eq_7_does_not():
    """g = max, the largest missing term of the four; standard error 0.006."""
    p, tolerance = spaced(C3, 20_000), 0.015
    scale = round(theory.optimal_scale(p, balance="max", complete=False))
    rng = np.random.default_rng(20_220)
    measured = simulate(rng, p, lambda s: np.maximum(0, s), scale, 3_500)
    predicted = {path: theory.acceptance(scale, p, balance="max", path=path) for path in PATHS}
    eq_7 = theory.acceptance(scale, p, balance="max", complete=False)
    assert measured["reversed"] == pytest.approx(predicted["reversed"], abs=tolerance)
    assert measured["same"] == pytest.approx(predicted["same"], abs=tolerance)
    assert abs(measured["reversed"] - eq_7) > tolerance
    assert abs(measured["same"] - predicted["reversed"]) > tolerance


def test_barker_acceptance_depends_on_the_order_as_predicted():
    """Standard error 0.006; at this N the limit is some 0.01 too high for both orders."""
    p, tolerance = spaced(C3, 20_000), 0.03
    scale = round(theory.optimal_scale(p))
    rng = np.random.default_rng(574)
    measured = simulate(rng, p, lambda s: -np.logaddexp(0, -s), scale, 3_000)
    predicted = {path: theory.acceptance(scale, p, path=path) for path in PATHS}
    for path, other in (PATHS, PATHS[::-1]):
        assert measured[path] == pytest.approx(predicted[path], abs=tolerance)
        assert abs(measured[path] - predicted[other]) > tolerance


@pytest.mark.parametrize("p", [[0.0, 0.5], [0.5, 1.0], [0.5, float("nan")], []])
def test_p_outside_the_open_interval_raises(p):
    with pytest.raises(ValueError, match=r"p must hold probabilities strictly inside \(0, 1\)"):
        theory.lambda_1(p)
    with pytest.raises(ValueError, match="p must hold probabilities"):
        theory.lambda_2(p)


@pytest.mark.parametrize("scale", [0, 0.5, float("nan"), [3, 0]])
def test_scale_below_one_raises(scale):
    with pytest.raises(ValueError, match="scale must be at least 1"):
        theory.acceptance(scale, [0.3, 0.4])


@pytest.mark.parametrize("rate", [0.0, 1.0, [0.5, float("nan")]])
def test_rate_outside_the_open_interval_raises(rate):
    with pytest.raises(ValueError, match=r"rate must lie strictly inside \(0, 1\)"):
        theory.efficiency_curve(rate, [0.3, 0.4])


def test_unknown_names_raise_and_list_the_known_ones():
    p = [0.3, 0.4]
    with pytest.raises(ValueError, match="sampler must be 'lbp' or 'rwm'; got 'gwg'"):
        theory.acceptance(3, p, "gwg")
    with pytest.raises(ValueError, match="sampler must be 'lbp' or 'rwm'; got 'mala'"):
        theory.optimum("mala")
    with pytest.raises(ValueError, match="path must be 'reversed' or 'same'; got 'forward'"):
        theory.optimal_scale(p, path="forward")
    with pytest.raises(ValueError, match="balance must be one of"):
        theory.lambda_1(p, "metropolis")


@pytest.mark.parametrize("sampler", ["lbp", "rwm"])
def test_no_efficiency_curve_where_nothing_is_rejected(sampler):
    with pytest.raises(ValueError, match="every p is 1/2"):
        theory.efficiency_curve(0.5, [0.5] * 7, sampler)


def test_other_targets_are_refused():
    import hopscale as hs

    with pytest.raises(TypeError, match="independent bits"):
        theory.optimal_scale(hs.Ising(np.zeros((2, 2)), 0.1))  # pyright: ignore
