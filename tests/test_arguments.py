"""Arguments that cannot work are refused in words, before anything is compiled."""

import jax
import numpy as np
import pytest

import hopscale as hs
from hopscale import validate
from runs import SETTINGS, TARGET
from small import small_rbm

BAD = {
    "no chains": ({"chains": 0}, ValueError, "chains must be at least 1; got 0"),
    "no draws": ({"draws": 0}, ValueError, "draws must be at least 1"),
    "negative warm-up": ({"warmup": -1}, ValueError, "warmup must be at least 0"),
    "half a draw": ({"draws": 1.5}, TypeError, "integer"),
    "many steps": ({"warmup": 2**30, "draws": 2**30}, ValueError, "at most 2,147,479,552 steps"),
    "R > N": ({"scale": hs.Fixed(37)}, ValueError, "R = 37 for 36 sites"),
    "no tuner": ({"scale": 3}, TypeError, r"hs.Adaptive\(\) or hs.Fixed\(R\)"),
    "shape": ({"init": np.zeros((6, 5), int)}, ValueError, r"shape \(6, 6\)"),
    "chains' shape": ({"init": np.zeros((4, 6, 6), int)}, ValueError, r"\(5, 6, 6\)"),
    "dtype": ({"init": np.zeros((6, 6))}, TypeError, "astype"),
    "support": ({"init": np.full((6, 6), 2)}, ValueError, r"values 0 ... 1.*\[2, 2\]"),
    "spins": ({"init": np.full((6, 6), -1)}, ValueError, "Spins"),
    "keep": ({"keep": "some"}, ValueError, "'all', 'last'"),
    "keep 0": ({"keep": 0}, ValueError, "'all', 'last'"),
    "keep True": ({"keep": True}, ValueError, "'all', 'last'"),
    "keep too few": ({"keep": 61}, ValueError, "which is none"),
    "many keeps": ({"keep": np.array([1, 2])}, ValueError, "'all', 'last'"),
    "long seed": ({"key": 2**64}, ValueError, "64 bits"),
    "low seed": ({"key": -(2**63) - 1}, ValueError, "64 bits"),
    "text": ({"key": "seed"}, TypeError, "integer seed or one JAX key"),
    "half a seed": ({"key": 0.5}, TypeError, "integer seed"),
    "True": ({"key": True}, TypeError, "integer seed"),
    "no key": ({"key": None}, TypeError, "integer seed"),
    "numbers": ({"key": np.zeros(2)}, TypeError, "integer seed"),
    "many keys": ({"key": jax.random.split(jax.random.key(0), 3)}, TypeError, "one JAX key"),
    "chunk": ({"chunk": 0}, ValueError, "chunk must be at least 1"),
    "negative chunk": ({"chunk": -1}, ValueError, "chunk must be at least 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused(name, monkeypatch):
    monkeypatch.setattr("hopscale.sampling._start", None)  # nothing is compiled
    settings, error, message = BAD[name]
    with pytest.raises(error, match=message):
        hs.sample(TARGET, **{**SETTINGS, **settings})


def test_a_class_instead_of_a_kernel_is_refused():
    with pytest.raises(TypeError, match="the class LBP"):
        hs.sample(TARGET, hs.LBP, **SETTINGS)  # pyright: ignore


def test_a_function_instead_of_a_target_is_refused():
    with pytest.raises(TypeError, match="Wrap a function"):
        hs.sample(lambda x: x.sum(), **SETTINGS)  # pyright: ignore


def test_block_gibbs_needs_blocks():
    with pytest.raises(TypeError, match=r"an hs\.RBM; got Ising"):
        hs.sample(TARGET, hs.BlockGibbs(), **SETTINGS)
    with pytest.raises(ValueError, match="pairs must be"):
        hs.BlockGibbs(0)
    assert hs.sample(small_rbm(), hs.BlockGibbs(), **SETTINGS).num_draws == 60


@pytest.mark.parametrize("setting", [{"lengths": "short"}, {"implementation": "kernels"}])
def test_unknown_settings_of_kernels_are_refused(setting):
    (name,) = setting
    for kernel in (hs.LBP, hs.GWG, hs.RWM):
        with pytest.raises(ValueError, match=f"{name} must be"):
            kernel(**setting)


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


def test_too_much_to_keep_is_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr("hopscale.sampling._start", None)
    target = hs.Bernoulli(np.full(10_000, 0.4))
    with pytest.raises(MemoryError, match=r"1\.0 TB for kept states; .* are there\. Keep fewer"):
        hs.sample(target, chains=100, draws=1_000_000, keep="all", progress=False)


def test_too_many_chains_are_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr("hopscale.sampling._start", None)
    target = hs.Bernoulli(np.full(1000, 0.4))
    with pytest.raises(MemoryError, match=r"TB for its chains .* are there\. Use fewer chains"):
        hs.sample(target, chains=10**9, progress=False)


def test_what_fits_is_not_refused(monkeypatch):
    monkeypatch.setattr(validate, "memory", lambda: 10**6)
    assert hs.sample(TARGET, keep="all", **SETTINGS).draws is not None
    with pytest.raises(MemoryError, match="1 MB are there"):
        hs.sample(TARGET, keep="all", **{**SETTINGS, "draws": 10_000})
