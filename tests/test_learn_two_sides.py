"""Log Z from two sides, and from a mixture, against enumeration."""

import os
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from annealed import ERRORS, SHAPE, model, truth
from hopscale.learn import Mixture, annealing, log_likelihood, log_z
from hopscale.learn.estimation import Estimation
from hopscale.learn.log_weights import bridge, log_mean, two_sides

CHAINS, BETAS, REPEATS = 100, 12, 9  # those of test_learn_ais: the same programs
CHANCE = 0.5  # four standard errors of a bound, from repeats that differ by 0.4


def exact_samples(target, number=CHAINS * (REPEATS + 1)):
    rng = np.random.default_rng(7)
    p = np.asarray(hs.check.probabilities(target))
    return hs.check.states(target)[rng.choice(len(p), number, p=p / p.sum())]


def two(target, samples, **more):
    options = {"chains": CHAINS, "betas": BETAS, "repeats": REPEATS, **more}
    found = log_z(target, reverse_from=samples, **options)
    assert found.upper is not None
    return found, found.upper


def mixture():
    rng = np.random.default_rng(1)
    return Mixture([0.2, 0.5, 0.3], rng.uniform(0.1, 0.9, (3, *SHAPE)))


@pytest.mark.parametrize("resample", [0.0, 0.5])
def test_two_sides_meet_at_log_z(resample):
    target = model(3.0)  # too few betas for one side: it is too low, as the upper side tells
    found, upper = two(target, exact_samples(target), resample=resample)
    z = truth(target)
    assert found.lower - CHANCE < z < upper + CHANCE
    assert abs(found.value - z) < 2 * found.error
    assert found.error >= (upper - found.lower) / 2


def test_two_sides_that_agree_are_a_measurement():
    target = model()
    found, _ = two(target, exact_samples(target), resample=0.0)
    assert abs(found.value - truth(target)) < ERRORS * found.error
    assert found.error < 0.05
    assert found.reliable
    assert "from below, from above" in str(found)
    assert found.upper_by_repeat is not None
    assert len(found.upper_by_repeat) == REPEATS
    assert found.upper_by_repeat.mean() == pytest.approx(found.upper)
    assert log_likelihood(target, exact_samples(target, 5), found).reliable


def test_chains_back_from_states_that_are_not_samples_fail_that_test():
    target = model()
    _, upper = two(target, np.zeros((CHAINS, *SHAPE), np.int8), resample=0.0)
    assert abs(upper - truth(target)) > 0.5


def test_steps_that_are_their_own_reverse_take_bennetts_estimate():
    """Sweeps are not, so their two sides are only known to lie around log Z."""
    target, options = model(), {"betas": 4, "repeats": 2, "resample": 0.0}
    for kernel, own_reverse in ((hs.DMALA(), True), (hs.Gibbs(), False)):
        found, upper = two(target, exact_samples(target), kernel=kernel, **options)
        assert (found.value != pytest.approx((found.lower + upper) / 2, abs=1e-9)) == own_reverse


def test_two_sides_far_apart_are_no_measurement():
    target = model(50.0)
    found, upper = two(target, exact_samples(target), resample=0.5)
    assert upper - found.lower > 2
    assert not found.reliable
    assert "the two sides are" in found.warning


def test_samples_that_miss_a_mode_contradict_the_way_there():
    """Most of the target is a mode apart from those that the samples lie in."""
    base = hs.Bernoulli(np.full(12, 0.5))
    field = np.full(12, 3.0)
    both = hs.LogDensity(
        lambda x: jnp.logaddexp(jnp.sum(field * x), 8.0 + jnp.sum(field * (1 - x))), (12,)
    )
    few = np.ones((200, 12), np.int8)
    found = log_z(both, base, reverse_from=few, chains=100, betas=100, repeats=1, resample=0.0)
    assert found.upper is not None
    assert found.lower > found.upper + 2
    assert found.value == found.lower
    assert not found.reliable
    assert "miss" in found.warning


def test_sides_in_the_wrong_order_are_apart_by_a_positive_number():
    target = model()
    found, _ = two(target, exact_samples(target))
    crossed = found._replace(error=0.7, lower=1.6, upper=1.0)
    assert "the two sides are 0.6 nats apart" in crossed.warning


def test_several_steps_at_each_beta():
    """Three betas with four steps each: the program of twelve betas."""
    target = model(3.0)
    found, upper = two(target, exact_samples(target), betas=3, steps=4, resample=0.0)
    assert found.lower - CHANCE < truth(target) < upper + CHANCE


def test_bennetts_estimate_of_normal_weights():
    """Of log-weights N(m - s^2/2, s^2) the ones back are N(-m - s^2/2, s^2), and log Z is m."""
    rng = np.random.default_rng(3)
    m, s = 40.0, 3.0
    forward = rng.normal(m - s**2 / 2, s, 3_000)
    backward = rng.normal(-m - s**2 / 2, s, 1_000)
    value, error = bridge(forward, backward)
    assert abs(value - m) < ERRORS * error
    assert error < 0.15
    both = two_sides(forward.reshape(10, -1), backward.reshape(10, -1), midpoint=False)
    assert both.value == value
    assert both.error >= error
    assert both.upper > m
    swapped, _ = bridge(backward, forward)
    assert np.isclose(swapped, -value)


def test_a_mixture_is_normalised_and_its_ratios_are_exact():
    target = mixture()
    x = jnp.asarray(hs.check.states(target))
    log_p = np.asarray(jax.vmap(target.log_prob)(x))
    assert abs(np.logaddexp.reduce(log_p)) < 1e-4
    sites = jnp.eye(12, dtype=jnp.int8).reshape(12, *SHAPE)
    for one in x[::701]:
        flipped = jax.vmap(target.log_prob)(one[None] ^ sites)
        needed = (flipped - target.log_prob(one)).reshape(SHAPE)
        np.testing.assert_allclose(target.log_ratios(one), needed, atol=1e-4)


def test_draws_of_a_mixture_have_its_moments():
    target = mixture()
    x = np.asarray(target.draw(jax.random.key(0), 20_000), np.float64).reshape(20_000, -1)
    p, w = np.asarray(target.p, np.float64).reshape(3, -1), np.asarray(target.weights)
    pairs = np.einsum("c,ci,cj->ij", w, p, p)
    off = ~np.eye(12, dtype=bool)
    assert np.abs(x.mean(axis=0) - w @ p).max() < 0.02
    assert np.abs((x.T @ x / len(x) - pairs)[off]).max() < 0.02


def test_a_mixture_is_found_again():
    target = Mixture([0.3, 0.7], np.stack([np.full(SHAPE, 0.1), np.full(SHAPE, 0.9)]))
    x = np.asarray(target.draw(jax.random.key(0), 2_000))
    found = Mixture.fit(x, 2, iterations=20)
    first, second = np.argsort(np.asarray(found.weights))
    np.testing.assert_allclose(found.weights[np.array([first, second])], [0.3, 0.7], atol=0.05)
    np.testing.assert_allclose(found.p[second], np.full(SHAPE, 0.9), atol=0.06)


def test_a_mixture_of_samples_is_a_better_base():
    target = model(3.0)
    samples = exact_samples(target)
    base = Mixture.fit(samples[:500], 8, iterations=30)
    near = log_z(target, base, chains=CHAINS, betas=BETAS, repeats=REPEATS, resample=0.0)
    far = log_z(target, chains=CHAINS, betas=BETAS, repeats=REPEATS, resample=0.0)
    assert abs(near.value - truth(target)) < ERRORS * near.error
    assert near.effective > 2 * far.effective


def test_finished_ways_are_not_computed_again(tmp_path):
    options = {"chains": CHAINS, "betas": BETAS, "resample": 0.0, "keep": tmp_path / "repeats"}
    samples = exact_samples(model())
    one = log_z(model(), reverse_from=samples, repeats=1, **options)
    again = log_z(model(), reverse_from=samples, repeats=1, **options)
    assert (one.value, one.upper) == (again.value, again.upper)
    with pytest.raises(ValueError, match=r"another estimate: .*reverse_from"):
        log_z(model(), reverse_from=1 - samples, repeats=1, **options)


def test_the_first_repeat_back_is_used(monkeypatch):
    starts, start = [], annealing.start
    monkeypatch.setattr(annealing, "start", lambda *a: starts.append(1) or start(*a))
    found, _ = two(model(), exact_samples(model()), repeats=2)
    assert found.upper_by_repeat is not None
    assert len(found.upper_by_repeat) == 2
    assert len(starts) == 1 + 2 + 2  # the scales of the pilot serve both ways


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_fewer_repeats_leave_the_others_in_the_file(tmp_path, monkeypatch):
    options = {"resample": 0.0, "keep": tmp_path / "repeats"}
    samples, advance = exact_samples(model()), Estimation.advance

    def interrupted(job, steps):
        advance(job, steps)
        if job.repeats_done == [3, 0]:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Estimation, "advance", interrupted)
        with pytest.raises(hs.Interrupted, match="3 of 3 repeats to the target and 0 of 3 back"):
            two(model(), samples, repeats=3, **options)
    fewer, _ = two(model(), samples, repeats=1, **options)
    assert fewer.value == two(model(), samples, repeats=1, resample=0.0)[0].value
    starts, start = [], annealing.start
    monkeypatch.setattr(annealing, "start", lambda *a: starts.append(1) or start(*a))
    all_three, _ = two(model(), samples, repeats=3, **options)
    assert len(starts) == 2  # one of the three back was made with the fewer
    assert all_three.value == two(model(), samples, repeats=3, resample=0.0)[0].value


def test_chains_from_one_sample_are_one_draw():
    rng = np.random.default_rng(0)
    forward, back = rng.normal(-2, 2, 2_000), rng.normal(-2, 2, 100)
    again = np.tile(back, 5)
    np.testing.assert_allclose(log_mean(again, samples=100), log_mean(back))
    _, error = bridge(forward, again, samples=100)
    assert error > 1.5 * bridge(forward, again)[1]
    both = two_sides(forward.reshape(5, -1), again.reshape(5, -1), midpoint=False, samples=100)
    assert both.error >= error
    assert both.effective == pytest.approx(log_mean(back)[2])


def test_samples_used_again_do_not_count_again():
    few, _ = two(model(), exact_samples(model(), CHAINS), resample=0.0)
    many, _ = two(model(), exact_samples(model()), resample=0.0)
    assert few.effective <= CHAINS < many.effective


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("at least as many states as there are chains, 100", {"reverse_from": np.zeros((5, 3, 4))}),
        ("target's shape", {"reverse_from": np.zeros((100, 12))}),
        ("steps must be at least 1", {"steps": 0}),
        ("hs.learn.Mixture.fit", {"base": model()}),
    ],
)
def test_what_cannot_work_says_so(words, wrong):
    with pytest.raises((ValueError, TypeError), match=words):
        log_z(model(), **wrong)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("with sum 1", lambda: Mixture([0.5, 0.6], np.full((2, 3), 0.5))),
        ("as many as", lambda: Mixture([1.0], np.full((2, 3), 0.5))),
        ("strictly inside", lambda: Mixture([1.0], np.ones((1, 3)))),
        ("at least 50 states", lambda: Mixture.fit(np.zeros((5, 3)))),
    ],
)
def test_a_mixture_that_cannot_be_says_so(words, wrong):
    with pytest.raises(ValueError, match=words):
        wrong()
