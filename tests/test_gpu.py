"""The GPU kernels against `reference`: interpreted on any device, and lowered for CUDA."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest

from hopscale.native import gpu, reference

CHAINS = 3
KNOBS = gpu.Knobs(interpret=True, shares=2)
SIZES = [(1, 1), (100, 31)]
BALANCES = [None, "barker", "sqrt", "min", "max"]


def case(n, length, spread=2.0):
    keys = jax.random.split(jax.random.key(0), CHAINS)
    x = spread * jax.random.normal(jax.random.key(1), (CHAINS, n))
    # Chains of unequal lengths share one launch.
    lengths = jnp.maximum(length - jnp.arange(CHAINS, dtype=jnp.int32), 1)
    return keys, x, lengths


@cache  # what tests share is compiled once
def chains(function, **settings):
    return jax.jit(jax.vmap(partial(function, **settings)))


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-4)


def check_choice(ours, theirs, lengths):
    """The same sites in the same order, and just these chosen."""
    counted = jnp.arange(ours[0].shape[1])[None, :] < lengths[:, None]
    np.testing.assert_array_equal(ours[0][counted], theirs[0][counted])
    np.testing.assert_array_equal(ours[1], theirs[1])


@pytest.mark.parametrize(
    ("n", "length", "balance"),
    [(1, 1, "barker"), *((100, 31, balance) for balance in BALANCES), (100, 100, None)],
)
def test_race(n, length, balance):
    keys, x, lengths = case(n, length)
    sites, chosen, log_prob = chains(gpu.race, balance=balance, knobs=KNOBS)(keys, x, lengths)
    expected = chains(reference.race, balance=balance)(keys, x, lengths)
    check_choice((sites, chosen), expected, lengths)
    close(log_prob, expected[2])
    settings = {"balance": balance, "backwards": True}
    ours = chains(gpu.order_log_prob, knobs=KNOBS, **settings)(x, sites, chosen, lengths)
    close(ours, chains(reference.order_log_prob, **settings)(x, sites, chosen, lengths))


def test_columns_beyond_a_tile_make_no_difference():
    keys, x, lengths = case(1000, 200)
    settings = {"balance": "barker", "knobs": KNOBS._replace(at_once=64, draws=64)}
    ours = chains(gpu.race, **settings)(keys, x, lengths)
    check_choice(ours, chains(reference.race, balance="barker")(keys, x, lengths), lengths)


@pytest.mark.parametrize(("balance", "length"), [("barker", 700), ("barker", 90), (None, 700)])
def test_long_chains(balance, length):
    """The first draws are made outside the kernel, with all that goes over all sites."""
    keys, x, lengths = case(1000, length)
    knobs = KNOBS._replace(long=100, long_draws=256)
    ours = chains(gpu.race, balance=balance, knobs=knobs)(keys, x, lengths)
    theirs = chains(reference.race, balance=balance)(keys, x, lengths)
    check_choice(ours, theirs, lengths)
    close(ours[2], theirs[2])
    settings = {"balance": balance, "backwards": True}
    path = x, *ours[:2], lengths
    found = chains(gpu.order_log_prob, knobs=knobs, **settings)(*path)
    close(found, chains(reference.order_log_prob, **settings)(*path))


def test_knobs_change_nothing():
    keys, x, lengths = case(100, 31)
    knobs = {
        "shares": 7,
        "rows": 16,
        "columns": 16,
        "stride": 128,
        "block": 128,
        "draws": 64,
        "at_once": 256,
    }

    ours = chains(gpu.race, balance="sqrt", knobs=KNOBS)(keys, x, lengths)
    others = chains(gpu.race, balance="sqrt", knobs=KNOBS._replace(**knobs))(keys, x, lengths)
    check_choice(ours, others, lengths)
    close(ours[2], others[2])


@pytest.mark.parametrize(("n", "length"), [(1, 1), (100, 90)])
def test_uniform(n, length):
    keys, _, lengths = case(n, length)
    sites, chosen = chains(gpu.uniform, n=n, knobs=KNOBS)(keys, lengths)
    expected, flags = chains(reference.uniform, n=n)(keys, lengths)
    counted = jnp.arange(n)[None, :] < lengths[:, None]
    np.testing.assert_array_equal(sites[counted], expected[counted])
    np.testing.assert_array_equal(chosen, flags)


@pytest.mark.parametrize(("n", "length"), SIZES)
def test_repeated(n, length):
    keys, x, lengths = case(n, length)
    sites, chosen, log_prob = chains(gpu.repeated, balance="sqrt", knobs=KNOBS)(keys, x, lengths)
    expected = chains(reference.repeated, balance="sqrt")(keys, x, lengths)
    check_choice((sites, chosen), expected, lengths)
    close(log_prob, expected[2])
    odd = chains(gpu.odd, knobs=KNOBS)(sites, lengths)
    np.testing.assert_array_equal(odd, jax.vmap(reference.odd)(sites, lengths))


@pytest.mark.parametrize(("values", "balance", "spread"), [(3, "barker", 2.0), (5, "max", 60.0)])
def test_values(values, balance, spread):
    """Sites and the values they take; some have one value left, some none."""
    n = 300
    keys, _, lengths = case(n, 150)
    ratios = spread * jax.random.normal(jax.random.key(2), (CHAINS, n, values))
    ratios = ratios.at[:, :20, 1:].set(-jnp.inf).at[0, 20:30].set(-jnp.inf)
    here = jax.random.randint(jax.random.key(3), (CHAINS, n), 0, values).astype(jnp.int8)
    sites, chosen, drawn, log_prob = chains(gpu.race_values, balance=balance, knobs=KNOBS)(
        keys, ratios, here, lengths
    )
    settings = {"balance": balance}
    totals = chains(reference.value_totals, **settings)(ratios, here)
    expected = chains(reference.race, balance=None)(keys, totals, lengths)
    check_choice((sites, chosen), expected, lengths)
    values = chains(reference.draw_values, **settings)(keys, ratios, here, sites, lengths)
    np.testing.assert_array_equal(drawn[chosen], values[chosen])
    of_values = chains(reference.values_log_prob, **settings)(ratios, here, totals, values, chosen)
    close(log_prob, expected[2] + of_values)


@pytest.mark.parametrize("balance", BALANCES)
@pytest.mark.parametrize(("offset", "spread"), [(0.0, 300.0), (-400.0, 30.0), (400.0, 30.0)])
def test_extreme_weights(balance, offset, spread):
    """Rounds and clocks take part; where all sites are wanted, some without weight are too."""
    n = 100
    keys, x, _ = case(n, n, spread=spread)
    x = (x + offset).at[:, :5].set(-jnp.inf)
    lengths = jnp.asarray([n, 40, 0], jnp.int32)
    ours = chains(gpu.race, balance=balance, knobs=KNOBS)(keys, x, lengths)
    theirs = chains(reference.race, balance=balance)(keys, x, lengths)
    check_choice(ours, theirs, lengths)
    np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-3, atol=1e-3)
    assert (ours[2][2] == 0.0, bool(jnp.any(ours[1][2]))) == (True, False)


@pytest.mark.parametrize("kind", ["nothing", "nan", "infinite"])
def test_weights_without_a_sum_end_in_a_choice(kind):
    keys, x, lengths = case(100, 20)
    x = {"nothing": jnp.full_like(x, -jnp.inf), "nan": x.at[:, 7].set(jnp.nan),
         "infinite": x.at[:, 7].set(jnp.inf)}[kind]  # fmt: skip
    for name in ("race", "repeated"):
        ours = chains(getattr(gpu, name), balance="sqrt", knobs=KNOBS)(keys, x, lengths)
        theirs = chains(getattr(reference, name), balance="sqrt")(keys, x, lengths)
        check_choice(ours, theirs, lengths)
        assert not np.isfinite(ours[2]).any()


@pytest.mark.parametrize("where", [3, 77])
def test_nan_shows_in_the_probability(where):
    keys, x, lengths = case(100, 20)
    sites, chosen, _ = chains(reference.race, balance=None)(keys, x, lengths)
    bad = x.at[:, where].set(jnp.nan)
    settings = {"balance": "barker", "backwards": True, "knobs": KNOBS}
    assert np.all(np.isnan(chains(gpu.order_log_prob, **settings)(bad, sites, chosen, lengths)))


@pytest.mark.parametrize("balance", ["barker", "min", None])
def test_nan_beside_weights_that_underflow(balance):
    """Such paths are scored by logarithms, which must not pass over it."""
    x = jnp.tile(-100 + jnp.arange(100.0), (CHAINS, 1)).at[:, 30:].set(-100.0).at[:, 3].set(jnp.nan)
    keys, _, lengths = case(100, 20)
    ours = chains(gpu.race, balance=balance, knobs=KNOBS)(keys, x, lengths)
    assert np.all(np.isnan(ours[2]))
    sites, chosen, _ = chains(reference.race, balance=None)(keys, x.at[:, 3].set(-jnp.inf), lengths)
    settings = {"balance": balance, "backwards": True}
    found = chains(gpu.order_log_prob, knobs=KNOBS, **settings)(x, sites, chosen, lengths)
    assert np.all(np.isnan(found))


@pytest.mark.parametrize("path", ["backwards", "forwards", "repeated"])
def test_settle(path):
    """One chain accepts, one stays, one is at a proposal that cannot be judged."""
    keys, ratios, lengths = case(100, 31)
    sites, chosen, forward = chains(reference.race, balance="barker")(keys, ratios, lengths)
    there = jnp.asarray([3.0, 0.0, jnp.nan]), ratios + 0.1, chosen.reshape(CHAINS, 10, 10)
    here = jnp.asarray([0.0, 3.0, 0.0]), ratios, jnp.zeros((CHAINS, 10, 10), bool)
    arrays = jnp.full(CHAINS, 0.5), forward, jnp.full(CHAINS, -0.01), lengths, there[1], sites
    settings = {"balance": "barker", "path": path}
    ours = chains(gpu.settle, knobs=KNOBS, **settings)(*arrays, chosen, there, here)
    theirs = chains(reference.settle, **settings)(*arrays, chosen, there, here)
    jax.tree.map(close, ours, theirs)
    assert ours[1].tolist() == [path != "repeated", False, False]
    assert ours[2].tolist() == [False, False, True]


# Later versions compile while they lower, which needs the CUDA plugin.
@pytest.mark.skipif(
    jaxlib.version.__version_info__ > (0, 10, 2) and jax.default_backend() != "gpu",
    reason="this version of JAX lowers for CUDA only where there is a GPU",
)
@pytest.mark.parametrize("n", [100, 100_000])
def test_lowers_for_cuda(n, monkeypatch):
    from jax._src.pallas.triton import lowering

    lower = lowering.lower_jaxpr_to_triton_module

    def verified(*args, **settings):
        result = lower(*args, **settings)
        assert result.module.operation.verify()  # types that do not fit raise here
        return result

    monkeypatch.setattr(lowering, "lower_jaxpr_to_triton_module", verified)
    key = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 4))
    x = jax.ShapeDtypeStruct((4, n), jnp.float32)
    sites = jax.ShapeDtypeStruct((4, n), jnp.int32)
    chosen = jax.ShapeDtypeStruct((4, n), bool)
    length = jax.ShapeDtypeStruct((4,), jnp.int32)
    number = jax.ShapeDtypeStruct((4,), jnp.float32)
    state = number, x, jax.ShapeDtypeStruct((4, n // 10, 10), jnp.int8)
    settled = number, number, number, length, x, sites, chosen, state, state
    ratios = jax.ShapeDtypeStruct((4, n, 5), jnp.float32)
    values = jax.ShapeDtypeStruct((4, n), jnp.int8)
    whole = jax.ShapeDtypeStruct((4, 2, n // 2), jnp.int32)
    graph = whole, jax.ShapeDtypeStruct((4, n + 1), jnp.int32), sites, x
    rule = {"metropolis": True, "keep": 0.995, "sweeps": 2, "degree": 9}
    back = {"balance": "barker", "backwards": True}
    for function, settings, arrays in (
        (gpu.race, {"balance": "barker"}, (key, x, length)),
        (gpu.order_log_prob, back, (x, sites, chosen, length)),
        (gpu.uniform, {"n": n}, (key, length)),
        (gpu.repeated, {"balance": "sqrt"}, (key, x, length)),
        (gpu.repeated_log_prob, {"balance": "sqrt"}, (x, sites, length)),
        (gpu.odd, {}, (sites, length)),
        (gpu.settle, {"balance": "sqrt", "path": "backwards"}, settled),
        (gpu.race_values, {"balance": "sqrt"}, (key, ratios, values, length)),
        (gpu.spin_sweeps, rule, (key, values, number, number, x, x, *graph)),
        (gpu.potts_sweeps, rule, (key, values, number, ratios, *graph)),
    ):
        traced = chains(function, **settings).trace(*arrays)
        assert "triton" in traced.lower(lowering_platforms=("cuda",)).as_text()
