"""The paper's instances."""

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs


def test_bernoulli_lies_on_its_interval():
    for config, (low, high) in {"C1": (0.25, 0.75), "C2": (0.15, 0.85), "C3": (0.05, 0.95)}.items():
        p = np.asarray(hs.paper.bernoulli(4000, config, key=1).p)
        assert low <= p.min() < low + 0.01
        assert high - 0.01 < p.max() <= high
        even = np.asarray(hs.paper.bernoulli(100, config, spacing="even").p)
        np.testing.assert_allclose(np.diff(even), (high - low) / 100, rtol=1e-3)


@pytest.mark.parametrize(("config", "ejd"), [("C1", 0.75), ("C2", 0.65), ("C3", 0.55)])
def test_rwm_1_moves_as_in_the_table(config, ejd):
    """E[2 min(p, 1 - p)], from exact draws and in one step."""
    target = hs.paper.bernoulli(800, config, spacing="even")
    rng = np.random.default_rng(0)
    init = (rng.random((2000, 800)) < np.asarray(target.p)).astype(np.int8)
    run = hs.sample(
        target,
        hs.RWM(),
        chains=2000,
        warmup=0,
        draws=20,
        scale=hs.Fixed(1),
        init=init,
        progress=False,
    )
    assert run.ejd == pytest.approx(ejd, abs=5 * 0.5 / np.sqrt(40_000))


def test_ising_field_follows_the_disc():
    target = hs.paper.ising(100, "C2", key=3)
    field = np.asarray(target.field)
    assert target.coupling[0] == pytest.approx(0.15)
    inside = field[40:60, 40:60]
    outside = field[:10, :10]
    assert (inside >= -0.3).all()
    assert (inside <= 0.6).all()
    assert inside.mean() == pytest.approx(0.15, abs=0.06)
    assert outside.mean() == pytest.approx(-0.15, abs=0.12)
    text = np.asarray(hs.paper.ising(100, "C2", key=3, disc="text").field)
    assert (text >= -0.3).all()
    assert hs.paper.ising(100, "C2", sign="-").coupling[0] == pytest.approx(-0.15)


def test_fhmm_variants():
    written = hs.paper.fhmm(200, "C3")
    assert written.shape == (200, 5)
    assert float(written.stay) == pytest.approx(0.8)
    assert float(written.first) == pytest.approx(0.1)
    assert float(written.sigma) ** 2 == pytest.approx(0.5)
    table = hs.paper.fhmm(200, "C1", variant="table")
    assert float(jnp.sum(table.weights**2)) == pytest.approx(1.15, rel=1e-5)
    assert float(jnp.log(table.stay) - jnp.log1p(-table.stay)) == pytest.approx(0.2, rel=1e-4)
    assert float(table.first) == pytest.approx(0.9)
    assert hs.paper.fhmm(20, "C1", axis="factor").axis == "factor"


def test_hidden_chains_keep_their_value_as_often_as_stated():
    from hopscale.paper.instances import _chains
    from hopscale.validate import as_key

    x = np.asarray(_chains(as_key(0), (5000, 8), 0.8, 0.1, "time"))
    assert set(np.unique(x)) == {0.0, 1.0}
    assert (x[1:] == x[:-1]).mean() == pytest.approx(0.8, abs=0.01)
    starts = np.asarray(_chains(as_key(0), (5000, 8), 0.8, 0.1, "factor"))[:, 0]
    assert starts.mean() == pytest.approx(0.1, abs=0.02)


def test_instances_are_reproducible():
    a, b = hs.paper.ising(8, "C1", key=5), hs.paper.ising(8, "C1", key=5)
    np.testing.assert_array_equal(a.field, b.field)
    assert not np.array_equal(a.field, hs.paper.ising(8, "C1", key=6).field)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: hs.paper.bernoulli(0, "C1"),
        lambda: hs.paper.bernoulli(10, "C4"),
        lambda: hs.paper.bernoulli(10, "C1", spacing="odd"),
        lambda: hs.paper.ising(10, "C1", sign="plus"),
        lambda: hs.paper.fhmm(10, "C1", variant="text"),
        lambda: hs.paper.fhmm(10, "C1", factors=0),
    ],
)
def test_unknown_instances_are_refused(bad):
    with pytest.raises(ValueError, match="must be"):
        bad()
