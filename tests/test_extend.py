"""A run that goes on is the run that was that long from the start, bit for bit."""

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import validate
from hopscale.engine import pages
from runs import SETTINGS, TARGET, same
from small import small_rbm
from test_run import EVERYTHING


def settings(draws, **more):
    return {**SETTINGS, **EVERYTHING, "draws": draws, **more}


@pytest.mark.parametrize("chunk", [None, 7])
def test_extended_equals_uninterrupted(chunk):
    whole = hs.sample(TARGET, **settings(300))
    parts = hs.sample(TARGET, chunk=chunk, **settings(100)).extend(200, progress=False)
    same(whole, parts)
    same(whole, hs.sample(TARGET, **settings(100)).extend(50).extend(149, chunk=3).extend(1))


@pytest.mark.parametrize("kernel", [hs.GWG(), hs.RWM()], ids=lambda k: k.name)
def test_any_kernel_and_tuner_go_on(kernel):
    scale = hs.Adaptive(0.4, per_chain=True)
    whole = hs.sample(TARGET, kernel, scale=scale, **settings(90))
    same(whole, hs.sample(TARGET, kernel, scale=scale, **settings(31)).extend(59))


def test_block_gibbs_goes_on():
    whole = hs.sample(small_rbm(), hs.BlockGibbs(), **settings(90))
    same(whole, hs.sample(small_rbm(), hs.BlockGibbs(), **settings(31)).extend(59))


def test_extended_where_traces_are_averaged(monkeypatch):
    monkeypatch.setattr(pages, "page_rows", lambda chains: 16)
    monkeypatch.setattr(pages, "trace_capacity", lambda chains: 8)
    whole = hs.sample(TARGET, **settings(300))
    assert whole.statistics["ones"].block == 64
    for first in (16, 100, 299):
        same(whole, hs.sample(TARGET, **settings(first)).extend(300 - first))


def test_extending_past_an_evaluation_from_scratch():
    long = {**SETTINGS, "draws": 1100}
    same(hs.sample(TARGET, **long), hs.sample(TARGET, **{**long, "draws": 984}).extend(116))


def test_the_shorter_run_stays_as_it_was():
    short, again = (hs.sample(TARGET, **settings(100)) for _ in range(2))
    first, second = short.extend(50), short.extend(50)
    same(short, again)
    same(first, second)


def test_the_broken_twin_differs():
    """Starting again where another run stopped is not going on: the key says so."""
    whole = hs.sample(TARGET, hs.LBP(), **settings(100))
    short = hs.sample(TARGET, hs.LBP(), **settings(50))
    other = hs.sample(
        TARGET, **settings(50, init=short.last, warmup=0), scale=hs.Fixed(short.scale)
    )
    assert not np.array_equal(other.last, whole.last)


def test_an_invalid_proposal_is_found_wherever_the_run_was_cut(monkeypatch):
    """The first of them, in a page that is full, or not, or was begun by another call."""

    def some_nan(x):
        return jnp.where(jnp.all(x == 1), jnp.nan, 0.3 * jnp.sum(x))

    target, start = hs.LogDensity(some_nan, (4,), ratios="exact"), np.zeros(4, int)
    more = {**SETTINGS, "key": 6, "warmup": 0, "scale": hs.Fixed(2), "init": start, "chains": 1}
    plain = hs.sample(target, hs.RWM(), **{**more, "draws": 200})
    assert plain.offender is not None
    assert plain.offender.tolist() == [1, 1, 1, 1]
    first = int(np.flatnonzero(plain.history["invalid"])[0])
    assert first > 2
    same(plain, hs.sample(target, hs.RWM(), **{**more, "draws": 2}).extend(198))
    monkeypatch.setattr(pages, "page_rows", lambda chains: 2)
    paged = hs.sample(target, hs.RWM(), **{**more, "draws": 200})
    assert paged.offender is not None
    assert paged.offender.tolist() == [1, 1, 1, 1]


def test_what_cannot_go_on_says_so(monkeypatch):
    run = hs.sample(TARGET, **settings(60))
    for draws, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="draws"):
            run.extend(draws)  # pyright: ignore
    with pytest.raises(ValueError, match=r"at most .* steps"):
        run.extend(2**31)
    monkeypatch.setattr(validate, "memory", lambda: 10**6)
    with pytest.raises(MemoryError, match="kept states"):
        run.extend(100_000)
    many = hs.sample_many(TARGET, keys=[0, 1], **{k: v for k, v in SETTINGS.items() if k != "key"})
    with pytest.raises(ValueError, match="side by side"):
        many[0].extend(10)
