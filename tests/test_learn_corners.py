"""Learning and annealing where errors hide: few betas, zero density, crises, precision."""

import itertools

import jax
import numpy as np
import pytest

import hopscale as hs
from hopscale.learn import EBM, MLP, PCD, base_of, log_z, train_ebm

DIGITS = hs.data.load("digits")


def model(**options) -> EBM:
    return EBM(MLP(DIGITS.shape, 16), base_of(DIGITS.train), **options)


def test_the_way_back_moves_by_the_scales_of_the_way_there():
    """Bennett's estimate needs a path and its reverse: with scales of its own, z was below -4."""
    p, base = np.random.default_rng(0).uniform(0.1, 0.9, 30), hs.Bernoulli(np.full(30, 0.5))
    for key in (0, 2):
        states = np.random.default_rng(key).random((10_000, 30)) < p
        found = log_z(
            hs.Bernoulli(p), base, reverse_from=states.astype(np.int8), betas=40, chains=2_000,
            repeats=5, resample=0, key=key,
        )  # fmt: skip
        assert abs(found.value) < 3 * found.error < 0.05
        assert found.upper is not None
        assert found.lower - 0.03 < found.value < found.upper + 0.03


def few_ones() -> tuple[hs.LogDensity, float, np.ndarray]:
    """At most three ones of six: the density, its log Z and draws from it."""
    weights = np.linspace(0.2, 0.7, 6)
    states = np.array(list(itertools.product([0, 1], repeat=6)), np.int8)
    states = states[states.sum(axis=1) <= 3]
    log_prob = states @ weights

    def density(x):
        return jax.numpy.where(x.sum() <= 3, x @ weights, -jax.numpy.inf)

    p = np.exp(log_prob - np.logaddexp.reduce(log_prob))
    drawn = states[np.random.default_rng(0).choice(len(states), 600, p=p)]
    target = hs.LogDensity(density, (6,), ratios="exact")
    return target, float(np.logaddexp.reduce(log_prob)), drawn


@pytest.mark.parametrize("resample", [0.0, 0.5])
def test_several_steps_at_a_beta_where_densities_are_zero(resample):
    target, truth, _ = few_ones()
    options = {"betas": 40, "chains": 200, "repeats": 4, "resample": resample}
    found = log_z(target, hs.Bernoulli(np.full(6, 0.5)), steps=2, **options)
    assert found.value == pytest.approx(truth, abs=0.2)


def test_a_chain_without_weight_is_no_obstacle_to_two_sides():
    target, truth, drawn = few_ones()
    base = hs.Bernoulli(np.full(6, 0.5))
    found = log_z(target, base, reverse_from=drawn, betas=40, chains=100, repeats=5, resample=0)
    assert not np.all(np.isfinite(found.log_weights))
    assert abs(found.value - truth) < 2 * found.error < 1.0


def test_a_crisis_keeps_its_checkpoint_when_resumed(tmp_path):
    settings = PCD(steps=2, rate=1e-2, warmup=10, buffer=200, average=0.9, crisis=0.5)
    for i, end in enumerate((80, 120)):
        found = train_ebm(
            model(), DIGITS.train, iterations=end, settings=settings, directory=tmp_path, every=20,
            resume=i > 0, progress=False,
        )  # fmt: skip
    (crisis,) = found.crises
    assert 40 < crisis.begin < 60
    assert crisis.end is None
    kept = sorted(int(path.stem.rpartition("-")[2]) for path in tmp_path.glob("*.checkpoint"))
    assert kept == [40, 100, 120]


def test_training_uses_the_ratios_of_the_model():
    settings = PCD(steps=4, batch=20, rate=1e-3, warmup=10, buffer=100, average=0.9)
    found = {}
    for ratios in ("gradient", "exact"):
        found[ratios] = train_ebm(
            model(ratios=ratios), DIGITS.train, iterations=20, settings=settings, progress=False
        )
        assert found[ratios].model.ratios == found[ratios].last.ratios == ratios
    one, other = (found[ratios].history["acceptance"] for ratios in found)
    assert not np.allclose(one, other)


def test_the_scale_of_training_is_that_of_all_its_steps():
    """Steps alternate between two scales: the last of four is always at the larger one."""
    settings = {"batch": 50, "rate": 1e-6, "warmup": 10, "buffer": 200, "average": 0.9}
    scales = []
    for steps in (4, 6):
        found = train_ebm(
            model(), DIGITS.train, iterations=200, settings=PCD(steps=steps, **settings),
            progress=False,
        )  # fmt: skip
        scales += [found.scale, np.mean(found.history["scale"][-100:])]
    assert max(scales) < 1.06 * min(scales)


def test_a_model_in_single_precision_is_trained_in_double(x64):
    settings = PCD(steps=2, batch=20, rate=1e-3, warmup=10, buffer=100, average=0.9)
    found = train_ebm(model(), DIGITS.train, iterations=3, settings=settings, progress=False)
    assert found.iterations == 3
    assert log_z(found.model, betas=10, chains=10, repeats=2).value is not None


def test_a_search_does_not_lose_the_state_it_begins_with():
    rng = np.random.default_rng(0)
    target = hs.Pairwise(np.triu(rng.normal(size=(100, 100)), 1), rng.normal(size=100))
    best = hs.optimize(target, seconds=0.3, chains=8, progress=False)
    found = hs.optimize(
        target, seconds=0.01, chains=2, betas=(1e-3, 1e-3), init=best.x, progress=False
    )
    assert found.log_prob == pytest.approx(best.log_prob)
