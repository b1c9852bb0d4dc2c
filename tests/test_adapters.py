"""At home elsewhere: each adapter against the real package, on models whose answer is known."""

import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import hopscale as hs
from hopscale import check
from small import FALSE_ALARM

SIGMAS = stats.norm.isf(FALSE_ALARM / 2)


# -- BlackJAX. -----------------------------------------------------------------------------------

COUPLINGS = np.triu(0.8 * np.random.default_rng(3).normal(size=(6, 6)), 1).astype("float32")


def log_density(position):
    x = jnp.concatenate([position["a"].ravel(), position["b"]])
    return x @ (jnp.asarray(COUPLINGS) @ x) - 0.3 * jnp.sum(x)


def flat_density(x):
    return log_density({"a": x[:4].reshape(2, 2), "b": x[4:]})


POSITION = {"a": np.zeros((2, 2), "int32"), "b": np.array([1, 0])}


@pytest.fixture(scope="module")
def blackjax():
    return pytest.importorskip("blackjax")


def test_a_step_is_the_kernels_own(blackjax):
    algorithm = hs.blackjax.lbp(log_density, 2.5)
    assert isinstance(algorithm, blackjax.base.SamplingAlgorithm)
    state, key = algorithm.init(POSITION), jax.random.key(4)
    target, kernel = hs.LogDensity(flat_density, (6,)), hs.LBP()
    own = kernel.init(target, jnp.array([0, 0, 0, 0, 1, 0], "int8"))
    step = jax.jit(lambda key, state: algorithm.step(key, state))
    own_step = jax.jit(lambda key, state: kernel.step(key, target, state, jnp.float32(2.5)))
    for i in range(20):
        state, info = step(jax.random.fold_in(key, i), state)
        own, own_info = own_step(jax.random.fold_in(key, i), own)
        row = np.concatenate([np.ravel(state.position["a"]), state.position["b"]])
        np.testing.assert_array_equal(row, own.x)
        assert info.is_accepted == own_info.accepted
        assert state.logdensity == pytest.approx(float(own.log_prob), abs=1e-5)
    assert state.position["a"].dtype == np.int32


def test_blackjax_runs_it_in_its_own_loop(blackjax):
    from blackjax.util import run_inference_algorithm

    warmup = hs.blackjax.scale_adaptation(hs.blackjax.lbp, log_density)
    (state, parameters), info = warmup.run(jax.random.key(0), POSITION, num_steps=300)
    assert info["scale"].shape == (300,)
    assert 1 <= parameters["scale"] <= 3
    steps = 4_000
    _, history = run_inference_algorithm(
        rng_key=jax.random.PRNGKey(1),  # a key of the old kind serves as well
        inference_algorithm=hs.blackjax.lbp(log_density, **parameters),
        num_steps=steps,
        initial_state=state,
        transform=lambda state, info: (state.position, info.acceptance_rate),
    )
    positions, rates = history
    assert positions["a"].shape == (steps, 2, 2)
    assert 0.3 < np.mean(rates) < 1
    target = hs.LogDensity(flat_density, (6,))
    truth = check.probabilities(target) @ check.states(target)
    drawn = np.concatenate([positions["a"].reshape(steps, 4), positions["b"]], axis=1)
    batches = drawn.reshape(20, -1, 6).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(20)
    assert np.all(np.abs(drawn.mean(axis=0) - truth) < 2 * SIGMAS * error)


def test_categories_and_other_algorithms(blackjax):
    def categories(code):  # of shape (3, 4)
        return jnp.sum(code * jnp.arange(4.0)[None, :])

    for algorithm in (hs.blackjax.gwg, hs.blackjax.dmala, hs.blackjax.rwm):
        made = algorithm(categories, 2.0, num_states=4)
        state, _ = jax.jit(lambda x, made=made: made.step(jax.random.key(0), made.init(x)))(
            np.array([0, 3, 1])
        )
        assert state.position.shape == (3,)
    assert state.log_ratios is None


def test_tuning_can_be_compiled(blackjax):
    warmup = hs.blackjax.scale_adaptation(hs.blackjax.lbp, lambda x: 0.3 * jnp.sum(x), chains=4)
    run = jax.jit(lambda key: warmup.run(key, np.zeros(10, int), 20)[0].parameters)
    assert set(run(jax.random.key(0))) == {"scale"}


@pytest.mark.parametrize("name", ["lbp", "rwm"])
def test_sites_of_different_numbers_of_values(blackjax, name):
    """What tuning gives is all that the algorithm needs."""
    table = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)))

    def log_density(code):
        return jnp.sum(table * code)

    algorithm, each, position = getattr(hs.blackjax, name), [2, 4, 3], np.array([1, 0, 2])
    warmup = hs.blackjax.scale_adaptation(algorithm, log_density, num_states=each)
    (state, parameters), _ = warmup.run(jax.random.key(0), position, num_steps=20)
    step = jax.jit(algorithm(log_density, **parameters).step)
    seen = []
    for i in range(60):
        state, _ = step(jax.random.key(i), state)
        seen.append(np.asarray(state.position))
    assert np.max(seen, axis=0).tolist() == [1, 3, 2]


def test_wrong_arguments_say_what_is_right(blackjax):
    with pytest.raises(ValueError, match=r"one for each site, of shape \(3,\); got shape \(2,\)"):
        hs.blackjax.lbp(jnp.sum, 1.0, num_states=[2, 3]).init(np.array([0, 1, 1]))
    with pytest.raises(ValueError, match="a tree like the position's"):
        hs.blackjax.lbp(jnp.sum, 1.0, num_states={"b": 3}).init({"a": np.array([0, 1, 1])})
    with pytest.raises(TypeError, match="holds integers; got dtype float"):
        hs.blackjax.lbp(flat_density, 2.0).init(np.zeros(6))
    with pytest.raises(ValueError, match="R = 9 for 6 sites"):
        hs.blackjax.lbp(flat_density, 9.0).init(np.zeros(6, int))
    with pytest.raises(ValueError, match="lbp, gwg, dmala or rwm"):
        hs.blackjax.scale_adaptation(blackjax.nuts, flat_density)


# -- NumPyro. ------------------------------------------------------------------------------------

POINTS = np.array([-0.6, 0.2, 1.4, 2.1, 0.4, 2.6, 1.0, -1.1, 3.0, 1.8])


@pytest.fixture(scope="module")
def numpyro():
    with jax.numpy_rank_promotion("allow"):  # NumPyro's own code promotes ranks
        yield pytest.importorskip("numpyro")


@pytest.fixture(scope="module")
def mixture(numpyro):
    """One component at 0, one at mu, unknown; `side` belongs to no plate and says which sign."""
    import numpyro.distributions as dist

    def model(points):
        mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
        side = numpyro.sample("side", dist.Categorical(jnp.array([0.3, 0.5, 0.2])))
        shift = jnp.array([0.0, 0.4, -0.3])[side]
        with numpyro.plate("points", len(points)):
            which = numpyro.sample("which", dist.Bernoulli(0.4))
            numpyro.sample("obs", dist.Normal(which * mu + shift, 0.7), obs=points)

    return model


def truth_of_mixture():
    """On a grid of mu, with all else summed over: means of mu, side and each of which."""
    mu = np.linspace(-6, 8, 2801)[:, None, None]
    shift = np.array([0.0, 0.4, -0.3])[None, :, None]
    off = 0.6 * stats.norm.pdf(POINTS, shift, 0.7)
    on = 0.4 * stats.norm.pdf(POINTS, mu + shift, 0.7)
    weight = stats.norm.pdf(mu[..., 0], 1, 2) * np.array([0.3, 0.5, 0.2]) * np.prod(on + off, -1)
    weight /= weight.sum()
    which = np.sum(weight[..., None] * on / (on + off), axis=(0, 1))
    return np.sum(weight * mu[..., 0]), np.sum(weight * np.arange(3)), which


def test_discrete_sites_next_to_nuts(numpyro, mixture):
    from numpyro.infer import MCMC, NUTS

    kernel = hs.numpyro.HMCWithLBP(NUTS(mixture), moves=3)
    mcmc = MCMC(
        kernel,
        num_warmup=300,
        num_samples=2_000,
        progress_bar=False,
    )
    fields = ("block_states.0.tuner.scale", "block_states.0.accept_prob")
    mcmc.run(jax.random.key(0), POINTS, extra_fields=fields)
    drawn = mcmc.get_samples(group_by_chain=True)
    assert drawn["which"].shape == (1, 2_000, 10)
    rows = np.concatenate(
        [drawn["mu"][..., None], drawn["side"][..., None], drawn["which"]], axis=2
    )
    mu, side, which = truth_of_mixture()
    batches = rows.reshape(40, 50, 12).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    off = np.abs(rows.mean(axis=(0, 1)) - np.array([mu, side, *which]))
    assert np.all(off < 2 * SIGMAS * error), off / error
    extra = mcmc.get_extra_fields(group_by_chain=True)
    scale = extra["block_states.0.tuner.scale"]
    assert np.all(scale == scale[:, :1])  # frozen after warm-up
    assert 0.3 < np.mean(extra["block_states.0.accept_prob"]) < 1


def test_ratios_by_plates_are_those_of_the_model(numpyro):
    import numpyro.distributions as dist

    def model(points):
        with numpyro.plate("rows", 2, dim=-2):
            kind = numpyro.sample("kind", dist.Categorical(jnp.full((3,), 1 / 3)))  # (2, 1)
            with numpyro.plate("columns", 3, dim=-1):
                bit = numpyro.sample("bit", dist.Bernoulli(0.2 + 0.2 * kind))  # (2, 3)
                numpyro.sample("obs", dist.Normal(bit - kind, 1.0), obs=points)

    points = np.random.default_rng(0).normal(size=(2, 3))
    block = hs.numpyro.DiscreteBlock(model)
    block.init(jax.random.key(0), 1, None, (points,), {})
    target = block._target((points,), {})
    assert target.layout.frames[0] is not None
    x = jnp.array([1, 0, 0, 1, 1, 0, 2, 1], target.state_dtype)  # bit, then kind, or so
    if target.layout.names[0] == "kind":
        x = jnp.concatenate([x[-2:], x[:-2]])
    sites, values = np.repeat(np.arange(8), 3), np.tile(np.arange(3), 8)

    @jax.jit
    def both(x):
        there = jax.vmap(lambda site, value: target.log_prob(x.at[site].set(value)))
        return target.log_ratios(x), there(sites, values.astype(x.dtype)) - target.log_prob(x)

    ratios, gaps = both(x)
    np.testing.assert_allclose(ratios, gaps.reshape(8, 3), atol=1e-5)


def test_wrong_models_say_what_is_right(numpyro, mixture):
    with pytest.raises(TypeError, match=r"NUTS\(model\) or HMC\(model\)"):
        hs.numpyro.HMCWithLBP(mixture)
    with pytest.raises(ValueError, match="moves must be"):
        hs.numpyro.DiscreteBlock(mixture, moves=0)
    with pytest.raises(TypeError, match="scale must be"):
        hs.numpyro.DiscreteBlock(mixture, scale=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="moves among some states only"):
        hs.numpyro.DiscreteBlock(mixture, kernel=hs.Swap())
    dist = numpyro.distributions
    three = hs.numpyro.DiscreteBlock(
        lambda: numpyro.sample("z", dist.Categorical(np.ones(3) / 3)), kernel=hs.Exchange()
    )
    with pytest.raises(TypeError, match="sites of this SiteDensity have 3 values"):
        three.init(jax.random.key(0), 1, None, (), {})
    sites = {
        "Inhomogeneous total count": dist.Binomial(np.array([2, 4]), 0.3),
        "leave out to_event and use plates": dist.Bernoulli(np.full(3, 0.3)).to_event(1),
    }
    for message, fn in sites.items():
        block = hs.numpyro.DiscreteBlock(lambda fn=fn: numpyro.sample("z", fn))
        with pytest.raises(ValueError, match=f"site 'z' cannot be listed: {message}"):
            block.init(jax.random.key(0), 1, None, (), {})
    block = hs.numpyro.DiscreteBlock(lambda: numpyro.sample("z", dist.Bernoulli(0.3)))
    with pytest.raises(ValueError, match="started one by one"):
        block.init(jax.random.split(jax.random.key(0), 2), 1, None, (), {})


# -- ArviZ and pandas. ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run():
    target = hs.Bernoulli(np.linspace(0.2, 0.8, 9))
    return hs.sample(target, chains=3, warmup=40, draws=60, keep=5, progress=False)


def test_arviz_has_states_and_statistics(run, tmp_path):
    arviz = pytest.importorskip("arviz")
    found = run.to_arviz()
    posterior, steps = found["posterior"], found["sample_stats"]
    assert posterior["x"].shape == (3, 12, 9)
    assert list(posterior["draw"].values[:2]) == [4, 9]
    target = run.target
    lp = [float(target.log_prob(x)) for x in run.draws[0]]
    np.testing.assert_allclose(posterior["log_prob"][0], lp, rtol=1e-4)
    np.testing.assert_allclose(steps["energy"][0], -np.array(lp), rtol=1e-4)
    for name in ("acceptance_rate", "distance", "scale"):
        assert steps[name].shape == (12,)
        assert found["warmup_sample_stats"][name].shape == (40,)
    assert "hamming" in arviz.summary(found, var_names=["hamming", "log_prob"]).index
    found.to_netcdf(str(tmp_path / "run.nc"))
    assert arviz.from_netcdf(str(tmp_path / "run.nc"))["posterior"]["x"].shape == (3, 12, 9)


def test_arviz_from_1_on_has_a_tree_of_the_same_groups(run, monkeypatch):
    """Its `InferenceData` is another name of xarray's tree, which takes no groups by name."""
    xarray = pytest.importorskip("xarray")
    later = types.SimpleNamespace(__version__="1.3.0", InferenceData=xarray.DataTree)
    monkeypatch.setitem(sys.modules, "arviz", later)
    found = run.to_arviz()
    assert set(found.children) >= {"posterior", "sample_stats", "warmup_sample_stats"}
    assert found["posterior"]["x"].shape == (3, 12, 9)
    assert "energy" in found["sample_stats"]


def test_arviz_without_states_has_all_statistics(run):
    pytest.importorskip("arviz")
    import dataclasses

    found = dataclasses.replace(run, draws=None).to_arviz()
    assert found["posterior"]["hamming"].shape == (3, 60)
    assert "x" not in found["posterior"]
    assert found["sample_stats"]["scale"].shape == (60,)


def test_pandas_has_a_row_a_statistic(run):
    pytest.importorskip("pandas")
    table = run.to_pandas()
    assert list(table.index) == list(run.statistics)
    assert table.loc["log_prob", "mean"] == run.statistics["log_prob"].mean


# -- Missing packages. ---------------------------------------------------------------------------


def test_a_missing_package_is_named_with_its_extra():
    code = """
import sys
import types
sys.modules["blackjax.base"] = sys.modules["numpyro"] = sys.modules["arviz"] = None
import hopscale as hs
for name in ("blackjax", "numpyro"):
    try:
        getattr(hs, name)
    except ImportError as error:
        print(error)
assert not {"matplotlib", "typer", "optax", "pandas", "scipy"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "hs.blackjax needs blackjax.base: pip install 'hopscale[blackjax]'" in done.stdout
    assert "hs.numpyro needs numpyro: pip install 'hopscale[numpyro]'" in done.stdout


def test_kept_states_stand_beside_the_statistics_of_their_draws():
    pytest.importorskip("arviz")
    settings = {"chains": 3, "warmup": 5, "draws": 100, "keep": 30, "progress": False}
    target = hs.Bernoulli(np.linspace(0.2, 0.8, 9))
    run = hs.sample(target, record={"ones": lambda state, info: state.x.sum()}, **settings)
    posterior = run.to_arviz()["posterior"]
    np.testing.assert_array_equal(posterior["draw"], [29, 59, 89])
    np.testing.assert_array_equal(posterior["x"].sum("x_dim_0"), posterior["ones"])
