"""R-hat, effective sample size and Monte Carlo error: ArviZ's numbers, and truths ArviZ lacks."""

import numpy as np
import pytest

import hopscale as hs
from hopscale import diagnostics
from hopscale.engine.pages import Trace
from hopscale.results.statistic import Statistic


def autoregressive(rho, chains, n, seed=0):
    noise = np.random.default_rng(seed).normal(size=(chains, n + 200))
    x = np.zeros_like(noise)
    for t in range(1, n + 200):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    return x[:, 200:]


def traces():
    """Traces by name: continuous, antithetic, with ties, short, odd, apart."""
    smooth = autoregressive(0.9, 4, 1000)
    return {
        "independent": autoregressive(0.0, 4, 1000),
        "slow": smooth,
        "antithetic": autoregressive(-0.7, 4, 1000),
        "very slow": autoregressive(0.999, 4, 500),
        "single precision": smooth.astype(np.float32),
        "ties": np.round(smooth),
        "bits": (smooth > 1.0).astype(np.float64),
        "integers": np.round(20 * smooth).clip(-128, 127).astype(np.int8),
        "odd": autoregressive(0.5, 3, 777),
        "many chains": autoregressive(0.5, 300, 50),
        "apart": smooth + np.arange(4)[:, None],
        "different spreads": smooth * np.array([1.0, 1.0, 1.0, 5.0])[:, None],
        "one chain stuck": np.concatenate([smooth[:3], np.full((1, 1000), 0.3)]),
        **{f"of {n}": autoregressive(0.3, 2, n) for n in range(4, 14)},
    }


@pytest.fixture(scope="module")
def arviz():
    return pytest.importorskip("arviz").stats.diagnostics


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", traces())
def test_r_hat_is_that_of_arviz(name, arviz):
    trace = traces()[name]
    assert diagnostics.r_hat(trace) == pytest.approx(float(arviz._rhat_rank(trace)), rel=1e-6)


@pytest.mark.parametrize("name", [n for n, trace in traces().items() if trace.size > 1000])
def test_effective_sample_sizes_are_about_those_of_arviz(name, arviz):
    trace = traces()[name]
    for ours, theirs in [
        (diagnostics.mean_ess, arviz._ess_mean),
        (diagnostics.mcse_mean, arviz._mcse_mean),
    ]:
        close = ours(trace) == pytest.approx(float(theirs(trace)), rel=0.15)
        assert close == (name != "antithetic"), ours.__name__  # ArviZ's has an upper bound


def test_one_chain_is_compared_with_itself(arviz):
    for name in ("slow", "ties", "odd"):
        trace = traces()[name][:1]
        half = trace.shape[1] // 2
        halves = np.concatenate([trace[:, :half], trace[:, -half:]])
        folded = np.abs(halves - np.median(halves))
        expected = max(arviz._rhat(arviz._z_scale(a)) for a in (halves, folded))
        assert diagnostics.r_hat(trace) == pytest.approx(expected, rel=1e-6)
        assert diagnostics.mean_ess(trace) == pytest.approx(arviz._ess_mean(trace), rel=0.1)
        assert diagnostics.mcse_mean(trace) == pytest.approx(arviz._mcse_mean(trace), rel=0.1)
    drifting = autoregressive(0.0, 1, 1000) + np.linspace(0, 3, 1000)
    assert diagnostics.r_hat(drifting) > 1.1


def test_r_hat_is_one_for_chains_that_agree_and_only_then():
    trace = autoregressive(0.0, 4, 1000)
    assert diagnostics.r_hat(trace) == pytest.approx(1.0, abs=0.005)
    assert diagnostics.r_hat(trace + np.arange(4)[:, None]) > 1.3
    assert diagnostics.r_hat(trace + 0.5 * np.arange(4)[:, None]) > 1.05
    assert diagnostics.r_hat(trace * np.array([1, 1, 1, 5])[:, None]) > 1.05
    assert diagnostics.r_hat(trace + np.linspace(0, 3, 1000)) > 1.1


def test_stuck_chains_never_look_converged():
    stuck = np.repeat([[0.1], [0.1], [0.1]], 100, axis=1)
    everything = (
        diagnostics.r_hat,
        diagnostics.mean_ess,
        diagnostics.mcse_mean,
    )
    for number in everything:
        assert np.isnan(number(stuck)), number.__name__
    apart = stuck + np.array([[0.0], [1.0], [2.0]])
    assert diagnostics.r_hat(apart) == np.inf
    # Each chain jumps once, in the middle: no half moves, and all halves agree in spread.
    assert diagnostics.r_hat(np.repeat([[0.0, 1.0]] * 4, 50, axis=1)) == np.inf
    # One chain that moves is not enough.
    moving = np.concatenate([apart, autoregressive(0.0, 1, 100)])
    assert 1.5 < diagnostics.r_hat(moving) < np.inf


def test_two_values_half_of_the_time_have_no_tail():
    rng = np.random.default_rng(1)
    trace = rng.permuted(np.repeat([[0.0, 1.0]] * 4, 500, axis=1), axis=1)
    assert diagnostics.r_hat(trace) == pytest.approx(1.0, abs=0.01)
    assert diagnostics.r_hat(np.sort(trace, axis=1)[:, ::2] + [[0], [0], [0], [1]]) == np.inf


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_says_nothing(value):
    trace = autoregressive(0.0, 2, 100)
    trace[1, 7] = value
    assert np.isnan(diagnostics.r_hat(trace))
    assert np.isnan(diagnostics.mcse_mean(trace))


def test_the_error_of_numbers_whose_squares_overflow_is_unknown():
    with np.errstate(all="ignore"):
        assert np.isnan(diagnostics.mcse_mean(1e200 * autoregressive(0.0, 4, 100)))


def test_short_traces_say_nothing():
    for n in range(4):
        assert np.isnan(diagnostics.r_hat(np.arange(2.0 * n).reshape(2, n)))
    with pytest.raises(ValueError, match=r"shape \(chains, n\)"):
        diagnostics.r_hat(np.arange(10.0))


def averaged(trace, capacity):
    recorder = Trace((len(trace),), capacity)
    recorder.add(trace.T, 1)
    return recorder.values.T, recorder.block, trace.var(axis=1)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.9])
def test_averages_of_draws_give_the_numbers_of_the_draws(rho):
    trace = autoregressive(rho, 8, 16_384)
    expected = 8 * 16_384 * (1 - rho) / (1 + rho)
    assert diagnostics.mean_ess(trace) == pytest.approx(expected, rel=0.1)
    for capacity in (4096, 512):
        values, block, variance = averaged(trace, capacity)
        assert block >= 8
        size = diagnostics.mean_ess(values, block, variance)
        assert size == pytest.approx(expected, rel=0.15)
        error = diagnostics.mcse_mean(values, block, variance)
        assert error == pytest.approx(diagnostics.mcse_mean(trace), rel=0.1)
        # What it would be if averages were taken for draws.
        assert diagnostics.mean_ess(values) != pytest.approx(expected, rel=0.2)


def test_averages_of_draws_tell_chains_apart_at_least_as_well():
    trace = autoregressive(0.5, 8, 16_384)
    for shift in (0.0, 0.3):
        apart = trace + shift * np.arange(8)[:, None]
        single = diagnostics.r_hat(apart)
        for capacity in (4096, 512):
            assert diagnostics.r_hat(averaged(apart, capacity)[0]) >= single - 1e-3
    assert diagnostics.r_hat(averaged(trace, 512)[0]) < 1.01
    assert diagnostics.r_hat(averaged(apart, 512)[0]) > 1.05


def variance_of_the_mean(matrix, weights, values, n):
    r"""n Var(mean) of a stationary chain: $c_0 + 2 \sum_{k<n} (1 - k / n) c_k$."""
    centred = values - weights @ values
    ahead, total = centred, centred / 2
    for k in range(1, n):
        ahead = matrix @ ahead
        total = total + (1 - k / n) * ahead
    return 2 * (weights * centred) @ total


@pytest.mark.parametrize("sites", [(0,), (1, 3), (1, 2, 3)])
def test_errors_are_those_of_the_transition_matrix(sites):
    """Two sites a step hardly change parity, which other statistics have a small part of."""
    chains, n, rng = 200, 1000, np.random.default_rng(0)
    upper = np.triu(rng.normal(size=(4, 4)) * 0.6, 1)
    target = hs.Pairwise(upper + upper.T, rng.normal(size=4) * 0.3)
    matrix = hs.check.transition_matrix(target, hs.LBP(), 2.0)
    weights, states = hs.check.probabilities(target), hs.check.states(target)
    values = np.prod(2.0 * states[:, list(sites)] - 1.0, axis=1)
    found, steps = [], matrix.cumsum(axis=1)
    for _ in range(5):
        x, trace = rng.choice(len(weights), chains, p=weights), np.empty((n, chains))
        for t in range(n):
            x = (steps[x] < rng.random((chains, 1))).sum(axis=1).clip(max=len(weights) - 1)
            trace[t] = values[x]
        found.append(diagnostics.mcse_mean(trace.T) ** 2 * trace.size)
    expected = variance_of_the_mean(matrix, weights, values, n)
    assert np.mean(found) / expected == pytest.approx(1.0, abs=0.25)


def with_a_slow_part(chains, n, seed, slow=0.998, share=0.01):
    """Independent draws plus an autoregression with 1% of the variance, and n Var(mean)."""
    rng = np.random.default_rng(seed)
    x, noise = rng.normal(size=chains), rng.normal(size=(n, chains)) * np.sqrt(1 - slow**2)
    part = np.empty((n, chains))
    for t in range(n):
        part[t] = x
        x = slow * x + noise[t]
    lags = np.arange(1, n)
    inflated = 1.0 + 2.0 * np.sum((1 - lags / n) * slow**lags)
    trace = np.sqrt(share) * part.T + np.sqrt(1 - share) * rng.normal(size=(chains, n))
    return trace, 1.0 - share + share * inflated


@pytest.mark.parametrize(("chains", "n", "capacity"), [(200, 1000, 1000), (50, 8192, 1024)])
def test_a_slow_part_below_the_noise_of_autocorrelations_is_seen(chains, n, capacity):
    found = []
    for seed in range(6):
        trace, expected = with_a_slow_part(chains, n, seed)
        error = diagnostics.mcse_mean(*averaged(trace, capacity))
        found.append(error**2 * trace.size / expected)
    assert np.mean(found) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("capacity", [8192, 1024])
def test_antithetic_draws_are_worth_many_times_their_number(capacity):
    rho, found = -0.95, []
    for seed in range(6):
        trace = autoregressive(rho, 8, 8192, seed)
        ess = diagnostics.mean_ess(*averaged(trace, capacity))
        found.append(ess / trace.size * (1 + rho) / (1 - rho))
    assert np.mean(found) == pytest.approx(1.0, abs=0.25)


def test_averages_need_the_variance_of_draws():
    trace = autoregressive(0.0, 2, 100)
    with pytest.raises(ValueError, match="give variance, one for each chain"):
        diagnostics.mean_ess(trace, block=4)


def test_entries_that_cancel_exactly_have_the_error_of_rounding():
    """Averages of two are constant up to rounding, which says nothing of the error."""
    for size in (1.0, 1.1, 1e-3):
        trace = np.tile(np.array([3.7 - size, 3.7 + size], np.float32), (50, 200))
        error = diagnostics.mcse_mean(trace)
        assert error == pytest.approx(size / np.sqrt(trace.size * np.log10(trace.size)), rel=0.01)


def test_many_short_chains_have_the_error_of_their_mean():
    """Autocovariances about the mean of each chain would be too small."""
    for n in (12, 20):
        traces = (autoregressive(0.0, 300, n, seed) for seed in range(10))
        found = [diagnostics.mcse_mean(trace) ** 2 * trace.size for trace in traces]
        assert np.mean(found) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_the_papers_ess_of_an_autoregression(rho):
    n = 20_000
    trace = autoregressive(rho, 20, n)
    expected = n * (1 - rho) / (1 + rho)
    # Cutting at the first negative lag leaves a little positive noise in the sum.
    assert diagnostics.effective_sample_size(trace).mean() == pytest.approx(expected, rel=0.06)


def test_the_papers_ess_survives_averaging():
    trace = autoregressive(0.9, 20, 20_000)
    values, block, variance = averaged(trace, 2048)
    assert block > 4
    blocks = diagnostics.effective_sample_size(values, block, variance)
    assert blocks.mean() == pytest.approx(diagnostics.effective_sample_size(trace).mean(), rel=0.1)


def test_many_chains_are_taken_in_parts():
    trace = autoregressive(0.5, 130, 500)
    together = diagnostics.effective_sample_size(trace)
    each = [diagnostics.effective_sample_size(row[None])[0] for row in trace]
    np.testing.assert_allclose(together, each)
    mean = diagnostics.autocovariance(trace).mean(axis=0)
    np.testing.assert_allclose(diagnostics._mean_autocovariance(trace), mean, atol=1e-12)


def test_the_papers_ess_of_a_stuck_chain_is_one():
    assert diagnostics.effective_sample_size(np.full((1, 100), 0.1)).tolist() == [1.0]


@pytest.mark.parametrize("outlier", [0.0, 1e3, 1e6])
def test_outliers_do_not_hide_chains_that_differ(outlier):
    """Half of the chains lie elsewhere; one entry, or a transient, is far from all others."""
    trace = np.random.default_rng(0).normal(size=(10, 1000)).astype(np.float32)
    trace[:5] += 1.5
    plain = diagnostics.r_hat(trace)
    trace[0, 0] += outlier
    statistic = Statistic("x", trace, 1, trace.mean(axis=1), trace.var(axis=1))
    assert statistic.r_hat == pytest.approx(plain, abs=0.01)
    trace[:, :30] += outlier
    statistic = Statistic("x", trace, 1, trace.mean(axis=1), trace.var(axis=1))
    assert statistic.r_hat > 1.1


def test_levels_that_differ_by_rounding_are_one():
    """Each chain has its own rounding of two log-densities, as updates leave it."""
    rng = np.random.default_rng(1)
    trace = np.where(rng.random((8, 1000)) < 0.1, -3.0, -40.0)
    trace = (trace * (1.0 + 1e-7 * rng.normal(size=(8, 1)))).astype(np.float32)
    assert diagnostics.r_hat(trace) > 1.5
    assert Statistic("x", trace, 1, trace.mean(axis=1), trace.var(axis=1)).r_hat < 1.02
