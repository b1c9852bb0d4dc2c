"""Seeds and memory. What is refused is in test_bad_input*.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import validate
from runs import SETTINGS, TARGET

# -- Seeds. --------------------------------------------------------------------------------------


def test_all_64_bits_of_a_seed_count():
    seeds = [1, 1 + 2**32, 1 + 2**33, 2**32, 0, 2**63, 2**64 - 1]
    last = {hs.sample(TARGET, **{**SETTINGS, "key": seed}).last.tobytes() for seed in seeds}
    assert len(last) == len(seeds)


def test_numpy_seeds_are_seeds():
    for seed in (np.int64(7), np.uint64(7), np.uint8(7)):
        assert validate.as_key(seed) == validate.as_key(7)
    assert validate.as_key(np.uint64(2**64 - 1)) == validate.as_key(2**64 - 1)


def test_other_kinds_of_keys_work():
    run = hs.sample(TARGET, **{**SETTINGS, "key": jax.random.key(0, impl="rbg")})
    assert run.num_draws == 60


# -- Memory. -------------------------------------------------------------------------------------


def test_what_fits_is_not_refused(monkeypatch):
    monkeypatch.setattr(validate, "memory", lambda: 10**6)
    assert hs.sample(TARGET, keep="all", **SETTINGS).draws is not None
    with pytest.raises(MemoryError, match="1 MB are there"):
        hs.sample(TARGET, keep="all", **{**SETTINGS, "draws": 10_000})


def test_more_categories_than_16_bits_hold():
    target = hs.LogDensity(lambda x: jnp.sum(x[:, -1]), (2,), num_states=40_000, ratios="gradient")
    settings = {**SETTINGS, "warmup": 0, "draws": 10, "init": np.full((5, 2), 39_990)}
    run = hs.sample(target, keep="all", **settings)
    assert run.draws is not None
    assert run.draws.dtype == np.int32
    assert 32_768 < run.draws.max() < 40_000
    assert len(np.unique(run.draws)) > 10  # they move, and some to values above 16 bits
