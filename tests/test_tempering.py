"""Parallel tempering: its levels, tuned; and right where chains alone fail."""

import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import check
from hopscale.tune import ladder
from runs import same

# -- Betas and reference, tuned. ------------------------------------------------------------------


def test_betas_divide_the_barrier_equally(x64):
    """V Gaussian with deviation s: neighbours reject erf(s (b' - b) / 2), wherever they are."""
    betas, deviation = jnp.linspace(0.0, 1.0, 7) ** 3, 9.0
    for _ in range(2):
        betas = ladder.spread(betas, jax.scipy.special.erf(deviation * jnp.diff(betas) / 2))
    np.testing.assert_allclose(betas, np.linspace(0, 1, 7), atol=1e-6)
    gaps = ladder.barriers(jax.scipy.special.erf(deviation * jnp.diff(betas) / 2))
    np.testing.assert_allclose(gaps.sum(), deviation / np.sqrt(np.pi), rtol=1e-6)


# -- Where chains alone fail. ---------------------------------------------------------------------

FAR, NEAR = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1]), np.array([1, 1, 1, 1, 1, 0, 0, 0, 1, 0])


def two_modes() -> hs.Target:
    """Ten bits around two states, of weights 0.75 and 0.25."""

    def log_density(x):
        far, near = jnp.sum(jnp.abs(x - FAR)), jnp.sum(jnp.abs(x - NEAR))
        return jnp.logaddexp(jnp.log(0.75) - 2.0 * far, jnp.log(0.25) - 2.0 * near)

    return hs.LogDensity(log_density, (10,), ratios="exact")


TWO_MODES = two_modes()  # one for all: runs of it share a program


def second(state, info):
    """Whether a chain is nearer to the second mode."""
    to = [jnp.sum(state.x != jnp.asarray(mode, state.x.dtype)) for mode in (FAR, NEAR)]
    return (to[1] < to[0]).astype(jnp.float32)


SETTINGS = {
    "chains": 20,
    "warmup": 500,
    "draws": 4_000,
    "key": 2,
    "record": {"second": second},
    "progress": False,
}


@pytest.fixture(scope="module")
def tempered() -> hs.Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the scale, if at all
        return hs.sample(TWO_MODES, hs.RWM(), temper=hs.Tempering(levels=8), **SETTINGS)


def test_without_tempering_the_warning_names_it():
    with pytest.warns(hs.ConvergenceWarning, match=r"temper=hs\.Tempering\(\)"):
        hs.sample(TWO_MODES, hs.RWM(), **{**SETTINGS, "draws": 300})


def test_with_it_the_warning_is_gone_and_weights_are_right(tempered):
    states, pi = check.states(TWO_MODES), check.probabilities(TWO_MODES)
    nearer = (states != NEAR).sum(axis=1) < (states != FAR).sum(axis=1)
    found = tempered.statistics["second"]
    assert not any(word in str(tempered.warnings) for word in ("R-hat", "temper", "reference"))
    assert abs(found.mean - pi[nearer].sum()) < 4.5 * found.error
    assert found.error < 0.02


def test_log_z_round_trips_and_barrier_are_reported(tempered):
    target, found = TWO_MODES, tempered.tempering
    assert found is not None
    states = jnp.asarray(check.states(target))
    log_z = float(jax.scipy.special.logsumexp(jax.vmap(target.log_prob)(states)))
    assert abs(found.log_z - log_z) < 4.5 * found.log_z_error < 0.1
    np.testing.assert_array_equal(found.betas[[0, -1]], [0, 1])
    assert np.all(np.diff(found.betas) > 0)
    assert np.ptp(found.rejections) < 0.15
    assert found.barrier == pytest.approx(found.rejections.sum())
    assert found.round_trips > 1_000
    assert found.scales[1] > found.scales[-1]  # bolder where it is warmer
    assert tempered.evaluations == 20 * 8 * 4_501
    for name in ("levels", "barrier", "round trips", "log Z"):
        assert f" {name} " in str(tempered)
    told = json.loads(json.dumps(tempered.summary()["tempering"]["log_z"]))
    assert told == found.log_z


def test_a_tempered_run_goes_on_bit_for_bit(tempered, tmp_path):
    short = hs.sample(
        TWO_MODES, hs.RWM(), temper=hs.Tempering(levels=8), **{**SETTINGS, "draws": 500}, chunk=300
    )
    short.save(tmp_path / "run")
    loaded = hs.load(tmp_path / "run", TWO_MODES, record=SETTINGS["record"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(loaded.extend(3_500, progress=False), tempered)


ROWS, WIDTH = 3, 4


def lattice(kind: str) -> hs.Target:
    """Cold spins; the numbers alone differ, so that runs share a program."""
    rng, shapes = np.random.default_rng(1), [(ROWS - 1, WIDTH), (ROWS, WIDTH - 1)]
    down, right = {
        "below the critical temperature": [np.full(shape, 0.9) for shape in shapes],
        "glass": [2.5 * rng.choice([-1.0, 1.0], shape) for shape in shapes],
        "frustrated": [3.0 * rng.normal(size=shape) for shape in shapes],
    }[kind]
    return hs.Ising(np.full((ROWS, WIDTH), 0.02), (down, right))


def lattice_log_z(target) -> float:
    states = np.arange(2 ** (ROWS * WIDTH))[:, None] >> np.arange(ROWS * WIDTH) & 1
    s = 2.0 * states.reshape(-1, ROWS, WIDTH) - 1.0
    down, right = (np.asarray(a, np.float64) for a in target.coupling)
    log_prob = np.sum(0.02 * s, axis=(1, 2)) + np.sum(down * s[:, 1:] * s[:, :-1], axis=(1, 2))
    return np.logaddexp.reduce(log_prob + np.sum(right * s[:, :, 1:] * s[:, :, :-1], axis=(1, 2)))


@pytest.mark.parametrize("kind", ["below the critical temperature", "glass", "frustrated"])
def test_the_advice_is_right(kind):
    """Without tempering a warning that names it; with it no warning, and the right log Z."""
    target, settings = lattice(kind), {"chains": 20, "warmup": 500, "key": 0, "progress": False}
    with pytest.warns(hs.ConvergenceWarning, match=r"temper=hs\.Tempering\(\)"):
        hs.sample(target, hs.Gibbs(), draws=500, **settings)
    run = hs.sample(target, hs.Gibbs(), temper=hs.Tempering(levels=8), draws=4_000, **settings)
    assert run.warnings == ()
    assert run.tempering is not None
    away = run.tempering.log_z - lattice_log_z(target)
    assert abs(away) < 4.5 * run.tempering.log_z_error < 0.2


def test_the_number_of_levels_is_found():
    target = hs.Bernoulli(np.full(64, 0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"chains": 10, "warmup": 200, "draws": 200, "progress": False}
        run = hs.sample(target, hs.RWM(), temper=hs.Tempering(), **settings)
    assert run.tempering is not None
    assert run.kernel.replicas == run.tempering.betas.size  # 2 x barrier + 1
    assert 0.3 < run.tempering.rejections.mean() < 0.7
    assert abs(run.tempering.log_z) < 5 * run.tempering.log_z_error  # it is normalised


BAD = {
    "at least 2": lambda: hs.Tempering(levels=1),
    "'uniform' or 'fitted'": lambda: hs.Tempering(reference="exact"),
    "the class Tempering": lambda: hs.sample(TWO_MODES, temper=hs.Tempering),  # type: ignore[arg-type]
    "needs a kernel": lambda: hs.sample(TWO_MODES, hs.Tempering()),
    "tempered already": lambda: hs.sample(
        TWO_MODES, hs.Tempering(kernel=hs.LBP()), temper=hs.Tempering()
    ),
    "moves among some states only": lambda: hs.sample(
        TWO_MODES, hs.Swap(ones=1), temper=hs.Tempering(levels=3)
    ),
    "an hs.RBM; got Tempered": lambda: hs.sample(
        TWO_MODES, hs.BlockGibbs(), temper=hs.Tempering(levels=3)
    ),
}


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_work_says_so(words):
    with pytest.raises((ValueError, TypeError), match=words):
        BAD[words]()


def test_log_z_may_be_far_from_zero():
    """The estimates between levels begin at log Z = 0, and move by less than 88 a round."""
    target = hs.LogDensity(lambda x: -1e4 + jnp.sum(x), 6)
    run = hs.sample(target, chains=20, warmup=500, temper=hs.Tempering(6), progress=False)
    tempering = run.tempering
    assert tempering is not None
    assert abs(tempering.log_z - (6 * np.log1p(np.e) - 1e4)) < 0.1
    assert not any("log Z" in sentence for sentence in run.warnings)
