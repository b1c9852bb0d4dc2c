"""Densities that are not numbers are rejected, counted, shown, and named for what they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from runs import SETTINGS

START = {**SETTINGS, "init": np.zeros(6, int)}


def with_value(value):
    """A density that has this value wherever the first bit is 1."""

    def log_density(x):
        return jnp.where(x[0] == 1, value, jnp.sum(x) * 0.1)

    return hs.LogDensity(log_density, (6,), ratios="exact")


def test_invalid_densities_are_rejected_counted_and_shown():
    with pytest.warns(hs.ConvergenceWarning, match="log-density is nan"):
        run = hs.sample(with_value(jnp.nan), hs.RWM(), keep="all", **START)
    assert run.draws is not None
    assert run.draws[..., 0].max() == 0
    assert 0 < run.invalid < 500
    assert run.offender is not None
    assert run.offender[0] == 1
    assert "INVALID" in str(run)


def test_plus_infinity_is_invalid_and_minus_infinity_is_not():
    with pytest.warns(hs.ConvergenceWarning, match="log-density is inf"):
        assert hs.sample(with_value(jnp.inf), hs.RWM(), **START).invalid > 0
    run = hs.sample(with_value(-jnp.inf), hs.RWM(), **START)
    assert (run.invalid, run.offender) == (0, None)
    assert run.last[:, 0].max() == 0


@jax.custom_jvp
def torn(x):
    """A finite sum whose gradient is NaN wherever the first bit is 1."""
    return 0.1 * jnp.sum(x)


@torn.defjvp
def _(primals, tangents):
    (x,), (dx,) = primals, tangents
    return torn(x), jnp.sum(jnp.where(x[0] == 1, jnp.nan, 0.1) * dx)


def test_a_nan_gradient_is_named_and_the_density_is_not_blamed():
    with pytest.warns(hs.ConvergenceWarning, match=r"log-density is a number .*gradient.* NaN"):
        run = hs.sample(hs.LogDensity(torn, (6,), ratios="gradient"), **START)
    assert run.invalid > 0
    assert run.last[:, 0].max() == 0
    assert run.offender is not None
    assert run.offender[0] == 1
    # A kernel that does not look at the gradient loses nothing.
    assert hs.sample(hs.LogDensity(torn, (6,), ratios="gradient"), hs.RWM(), **START).invalid == 0


def test_a_nan_gradient_at_the_start_is_refused():
    with pytest.raises(ValueError, match=r"log-ratios must be numbers.*chain 0"):
        hs.sample(
            hs.LogDensity(torn, (6,), ratios="gradient"), **{**START, "init": np.ones(6, int)}
        )


def test_the_offender_is_the_first_of_a_long_run():
    """Found after its page of steps is full and the next one has begun."""

    def rare(x):
        return jnp.where(jnp.all(x[:6] == 1), jnp.nan, -0.2 * jnp.sum(x))

    target = hs.LogDensity(rare, (10,), ratios="exact")
    settings = {**SETTINGS, "chains": 2, "warmup": 0, "draws": 5000, "init": np.zeros(10, int)}
    run = hs.sample(target, hs.RWM(), scale=hs.Fixed(2), **settings)
    assert 0 < run.invalid < 200
    assert run.offender is not None
    assert run.offender[:6].min() == 1


@pytest.mark.parametrize("phase", [{"warmup": 0}, {}])
def test_nothing_but_nan_is_an_error(phase):
    def log_density(x):
        return jnp.where(jnp.all(x == 0), 0.0, jnp.nan)

    steps = 5 * (60 + phase.get("warmup", 40))
    with pytest.raises(hs.InvalidDensityError, match=rf"all {steps} proposals, first at x = \["):
        hs.sample(
            hs.LogDensity(log_density, (6,), ratios="gradient"), hs.RWM(), **{**START, **phase}
        )


def test_zero_density_start_is_refused():
    target = hs.LogDensity(lambda x: jnp.where(x[0] == 1, 0.0, -jnp.inf), (6,))
    with pytest.raises(ValueError, match=r"finite where chains start.*chain 0"):
        hs.sample(target, **START)


def between(low, high):
    """Uniform over 12 bits of which so many are one."""

    def log_density(x):
        ones = jnp.sum(x)
        return jnp.where((ones >= low) & (ones <= high), 0.0, -jnp.inf)

    return hs.LogDensity(log_density, (12,), ratios="exact")


def test_a_chain_starts_where_it_can():
    """One random state in five is possible: others are drawn for the chains that need them."""
    target, few = between(2, 4), {"chains": 20, "warmup": 0, "draws": 1, "progress": False}
    run = hs.sample(target, hs.RWM(), key=3, **few)
    ones = run.last.sum(axis=-1)
    assert ((ones >= 2) & (ones <= 4)).all()
    assert run.invalid == 0
    _, again = hs.sample_many(target, hs.RWM(), keys=[2, 3], **few)
    assert (again.last == run.last).all()


def test_chains_share_starts_that_are_hard_to_find():
    """One state in 315 is possible: a hundred tries find some, not one for each chain."""
    few = {"chains": 50, "warmup": 0, "draws": 1, "progress": False}
    runs = hs.sample_many(between(11, 12), hs.RWM(), keys=range(3), scale=hs.Fixed(12), **few)
    for run in runs:
        assert (run.last.sum(axis=-1) >= 11).all()
        assert 1 < len(np.unique(run.last, axis=0)) < 13


def test_starts_that_cannot_be_found_are_an_error():
    with pytest.raises(ValueError, match=r"100 random states were tried for each. Pass starting"):
        hs.sample(between(13, 13), hs.RWM(), chains=3, warmup=2, draws=2, progress=False)


@pytest.mark.parametrize("implementation", ["auto", "reference"])
def test_impossible_moves_are_rejections_not_errors(implementation):
    target = hs.LogDensity(
        lambda x: jnp.where(jnp.all(x[1:] == x[1]), 0.0, -jnp.inf), (4,), ratios="exact"
    )
    kernel = hs.LBP(implementation=implementation, lengths="paper")
    run = hs.sample(target, kernel, scale=hs.Fixed(4), **{**SETTINGS, "init": np.zeros(4, int)})
    assert (run.invalid, run.acceptance) == (0, 0.0)


@pytest.mark.parametrize(
    "around",
    [
        lambda target: hs.clamp(target, [3], [1]),
        lambda target: hs.Tempered(hs.Bernoulli(np.full(8, 0.5)), target, 0.5),
    ],
    ids=["clamped", "tempered"],
)
def test_a_model_of_a_density_with_undefined_neighbours_says_so(around):
    target = hs.LogDensity(
        lambda x: jnp.where(x[1] == 1, jnp.nan, 0.3 * jnp.sum(x)), (8,), ratios="exact"
    )
    target = around(target)
    start = np.zeros(target.shape, int)
    with pytest.warns(hs.ConvergenceWarning, match=r"20 chains ended, the log-density is NaN"):
        run = hs.sample(target, hs.LBP(), **{**SETTINGS, "chains": 20, "init": start})
    assert run.undefined == 20


@pytest.mark.parametrize("sweeps", [1, 3])
@pytest.mark.parametrize(
    "around",
    [
        lambda target: target,
        lambda target: hs.clamp(target, [3], [1]),
        lambda target: hs.Tempered(target, target, 0.5),
    ],
    ids=["itself", "clamped", "tempered"],
)
def test_a_sweep_that_sees_undefined_neighbours_says_so(around, sweeps):
    """At each site but the first, the value 2 is undefined; the last sweep counts, not all."""
    density = hs.LogDensity(lambda x: jnp.where(x[1:, 2].any(), jnp.nan, x[0, 1]), (5,), 3)
    target = around(density)
    settings = {**SETTINGS, "chains": 20, "init": np.zeros(target.shape, int)}
    with pytest.warns(hs.ConvergenceWarning, match=r"last sweep of the 20 chains weighed.* NaN"):
        run = hs.sample(target, hs.Gibbs(sweeps=sweeps), **settings)
    assert run.undefined == 20 * (target.num_sites - 1)
    assert run.invalid == 0


def test_neighbours_of_zero_density_are_no_reason_to_warn():
    target = hs.LogDensity(
        lambda x: jnp.where(jnp.all(x[:2] == 1), -jnp.inf, 0.3 * x[2]), (3,), ratios="exact"
    )
    for kernel in (hs.LBP(), hs.Gibbs()):
        run = hs.sample(target, kernel, **{**SETTINGS, "init": np.zeros(3, int)})
        assert run.undefined == 0
        assert not any("NaN" in sentence for sentence in run.warnings)


def test_states_next_to_an_invalid_one_are_visited():
    """With exact ratios the invalid neighbour has no weight, and the rest is sampled as it is."""

    def log_density(x):
        return jnp.where(jnp.all(x[:2] == 1), jnp.nan, 0.3 * x[2])

    run = hs.sample(
        hs.LogDensity(log_density, (3,), ratios="exact"),
        hs.LBP(lengths="paper"),
        chains=50,
        warmup=0,
        draws=200,
        init=np.array([1, 0, 0]),
        keep=20,
        scale=hs.Fixed(1),
        progress=False,
    )
    assert run.draws is not None
    assert run.invalid == 0
    assert run.undefined == sum(x[0] != x[1] for x in run.last)  # the bit that is 0 may not change
    assert any(f"is NaN or +inf {run.undefined} times" in sentence for sentence in run.warnings)
    assert run.extend(1, progress=False).undefined > 0
    seen = {tuple(x) for x in run.draws.reshape(-1, 3).tolist()}
    assert seen == {(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1) if a + b < 2}


def test_sites_that_cannot_move_do_not_break_the_race():
    """With R beyond the sites of positive weight, the step is rejected, not NaN."""
    target = hs.LogDensity(
        lambda x: jnp.where(jnp.sum(x[:3]) > 0, -jnp.inf, jnp.sum(x) * 0.1), (5,), ratios="exact"
    )
    kernel, start = hs.LBP(lengths="paper"), np.zeros(5, int)
    run = hs.sample(target, kernel, scale=hs.Fixed(3), **{**SETTINGS, "init": start})
    assert (run.invalid, run.acceptance) == (0, 0.0)
