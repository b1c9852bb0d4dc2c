"""Log Z of a trained model: what the mixture is fitted to, and how long which samples settle."""

import jax
import numpy as np
import pytest

import hopscale as hs
from annealed import SHAPE, model, truth
from hopscale.learn import Mixture, gallery, measure, measure_log_z

OPTIONS = {"chains": 100, "betas": 12, "resample": 0.0}


def samples(number=900):
    p = np.asarray(hs.check.probabilities(model()))
    chosen = np.random.default_rng(2).choice(len(p), number, p=p / p.sum())
    return hs.check.states(model())[chosen]


def test_it_is_log_z_whatever_the_form_of_its_key():
    options = {"components": 4, "settle": 4, "repeats": 9, **OPTIONS}
    found = measure_log_z(model(), None, samples(1_800), key=3, **options)
    assert abs(found.value - truth(model())) < 5 * found.error < 0.5
    same = measure_log_z(model(), None, samples(1_800), key=jax.random.key(3), **options)
    assert same.value == found.value


def test_the_mixture_is_fitted_to_states_from_all_of_the_data(monkeypatch):
    """Which may be in the order of their classes."""
    fitted, fit = [], Mixture.fit
    monkeypatch.setattr(measure, "FITTED_STATES", 60)
    monkeypatch.setattr(Mixture, "fit", lambda x, *a, **b: fitted.append(x) or fit(x, *a, **b))
    ordered = np.repeat(np.eye(12, dtype=np.int8), 50, axis=0).reshape(-1, *SHAPE)
    options = {"components": 4, "settle": 0, "repeats": 1, **OPTIONS}
    measure_log_z(model(), ordered, samples(), **options)
    (x,) = fitted
    assert len(x) == 60
    assert len(np.unique(x, axis=0)) == 12


def test_only_samples_that_chains_begin_at_are_settled(monkeypatch):
    walked = []
    monkeypatch.setattr(measure, "settled", lambda model, x, *_: walked.append(len(x)) or x)
    measure_log_z(model(), samples(), samples(), components=0, repeats=3, **OPTIONS)
    assert walked == [300]


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_samples_settle_for_the_given_number_of_steps(monkeypatch, steps):
    taken, sample = [], gallery.sample

    def counted(*arguments, warmup, draws, **options):
        taken.append(warmup + draws)
        return sample(*arguments, warmup=warmup, draws=draws, **options)

    monkeypatch.setattr(gallery, "sample", counted)
    assert gallery.settled(model(), samples(4), steps, 0).shape == (4, *SHAPE)
    assert taken == [steps]
