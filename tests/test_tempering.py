"""Parallel tempering: exact, all levels enumerated together; right where chains alone fail."""

import json
import warnings
from functools import cache, cached_property, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.csgraph

import hopscale as hs
from hopscale import check, ladder
from hopscale.kernels.levels import Ladder, swapped
from hopscale.results import describe
from hopscale.targets.independent import Independent
from runs import same
from small import FALSE_ALARM

# -- All levels together, enumerated. -------------------------------------------------------------


@cache  # one for all: what is compiled for it is shared
def bits() -> hs.Target:
    """Two bits that like to be equal."""
    return hs.LogDensity(lambda x: 1.5 * (2 * x[0] - 1) * (2 * x[1] - 1) + 0.4 * x[0], (2,))


@cache
def values() -> hs.Target:
    """Two sites of three values."""
    rng = np.random.default_rng(5)
    field, bond = rng.normal(size=(2, 3)), rng.normal(size=(3, 3))

    def log_density(code):
        return jnp.sum(field * code) + code[0] @ bond @ code[1]

    return hs.LogDensity(log_density, (2,), num_states=3)


CASES = {"bits": (bits, 3), "values": (values, 2)}


def ladder_of(target: hs.Target, levels: int) -> Ladder:
    """A ladder from a reference that is far from uniform."""
    rng = np.random.default_rng(levels)
    weights = jnp.asarray(rng.normal(size=(*target.shape, target.num_states)))
    return Ladder(
        betas=jnp.asarray([0.0, 0.35, 1.0])[jnp.asarray([0, 1, 2][-levels:])].at[0].set(0.0),
        scales=jnp.asarray([1.4, 1.0][: levels - 1]),
        log_probs=jax.nn.log_softmax(weights, axis=-1),
        log_z=jnp.zeros(levels - 1),
    )


class Joint:
    """The states of all levels together, and how a step moves them."""

    def __init__(self, target: hs.Target, kernel: hs.Tempering):
        self.kernel, self.levels = kernel, kernel.replicas
        self.ladder = ladder_of(target, self.levels)
        reference = Independent(self.ladder.log_probs)
        self.path = [hs.Tempered(reference, target, beta) for beta in self.ladder.betas]
        self.pi = [check.probabilities(one) for one in self.path]
        each = jnp.asarray(check.states(target))
        self.size = len(each)
        self.log_target, self.log_reference = (
            np.asarray(jax.vmap(end.log_prob)(each)) for end in (target, reference)
        )
        # Rows: which state each level is in, the reference's changing slowest.
        self.places = np.indices((self.size,) * self.levels).reshape(self.levels, -1).T

    @property
    def stationary(self) -> np.ndarray:
        return self._product([row[None] for row in self.pi])[0]

    def _product(self, matrices) -> np.ndarray:
        found = matrices[0]
        for matrix in matrices[1:]:
            found = np.kron(found, matrix)
        return found

    @cached_property
    def moves(self) -> np.ndarray:
        """A fresh draw at the reference, a step of the kernel at every other level."""
        fresh = np.tile(self.pi[0], (self.size, 1))
        steps = [
            check.transition_matrix(one, self.kernel.inner, float(scale))
            for one, scale in zip(self.path[1:], self.ladder.scales, strict=True)
        ]
        return self._product([fresh, *steps])

    def swaps(self, even: bool) -> np.ndarray:
        """Every outcome of the swaps whose turn it is, by the functions of the step."""
        prob = np.asarray(
            jax.vmap(lambda a, b: self.kernel.swap_prob(self.ladder.betas, a, b))(
                jnp.asarray(self.log_target[self.places]),
                jnp.asarray(self.log_reference[self.places]),
            )
        )
        matrix = np.zeros((len(self.places),) * 2)
        for outcome in np.ndindex(*(2,) * (self.levels - 1)):
            accepted = np.array(outcome, bool)
            turn = (np.arange(self.levels - 1) % 2 == 0) == even
            if np.any(accepted & ~turn):
                continue
            weight = np.prod(np.where(turn, np.where(accepted, prob, 1 - prob), 1.0), axis=1)
            after = np.asarray(swapped(jnp.asarray(self.places.T), jnp.asarray(accepted)))
            to = np.ravel_multi_index(tuple(after), (self.size,) * self.levels)
            np.add.at(matrix, (np.arange(len(matrix)), to), weight)
        return matrix

    def step(self, even: bool) -> np.ndarray:
        return self.moves @ self.swaps(even)


def tempering(name: str, kind: type[hs.Tempering] = hs.Tempering, inner=hs.LBP("sqrt")):
    make, levels = CASES[name]
    return Joint(make(), kind(levels=levels, kernel=inner))


@pytest.mark.parametrize("inner", [hs.LBP("sqrt"), hs.RWM(), hs.Gibbs()], ids=describe)
@pytest.mark.parametrize("name", CASES)
def test_all_levels_together_are_invariant_and_reached(x64, name, inner):
    joint = tempering(name, inner=inner)
    steps = [joint.step(even) for even in (True, False)]
    for matrix in steps:
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
        assert np.abs(joint.stationary @ matrix - joint.stationary).max() < 1e-10
    groups, _ = scipy.sparse.csgraph.connected_components(
        steps[0] @ steps[1] > 0, connection="strong"
    )
    assert groups == 1


class NoReference(hs.Tempering):
    """Swaps by the target alone, as if the reference were uniform."""

    def swap_prob(self, betas, log_target, log_reference):
        return super().swap_prob(betas, log_target, jnp.zeros_like(log_reference))


class NoBetas(hs.Tempering):
    """Swaps whatever the levels have to say."""

    def swap_prob(self, betas, log_target, log_reference):
        return jnp.full(betas.size - 1, 0.7)


@pytest.mark.parametrize("broken", [NoReference, NoBetas])
def test_broken_swaps_fail_that_test(x64, broken):
    joint = tempering("bits", broken)
    assert np.abs(joint.stationary @ joint.step(True) - joint.stationary).max() > 1e-4


def test_a_step_draws_by_those_probabilities():
    """Enumerated in double precision; drawn in single, by the kernels that runs have."""
    with jax.enable_x64(True):
        joint = tempering("bits")
        probabilities = {even: joint.step(even) for even in (True, False)}
    kernel, target, draws = joint.kernel, bits.__wrapped__(), 30_000
    steps = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float32)), joint.ladder)
    levels = jnp.asarray([[0, 1], [1, 0], [1, 1]], jnp.int8)
    at = int(np.ravel_multi_index((1, 2, 3), (4,) * 3))

    @eqx.filter_jit
    def after(keys, even):
        state = kernel.init(target, levels[-1])
        evaluation = jax.vmap(target.evaluate)(levels)
        state = state._replace(
            levels=state.levels._replace(x=levels, evaluation=evaluation), even=even
        )
        step = partial(kernel.step, target=target, state=state, scale=steps)
        found, _ = jax.vmap(lambda key: step(key))(keys)
        return found.levels.x, found.x

    for even, matrix in probabilities.items():
        x, cold = after(jax.random.split(jax.random.key(4), draws), jnp.asarray(even))
        np.testing.assert_array_equal(x[:, -1], cold)
        digits = np.asarray(x).reshape(draws, -1) @ 2 ** np.arange(5, -1, -1)
        expected = draws * matrix[at]
        observed = np.bincount(digits, minlength=64)
        assert not observed[expected < 1e-9].any()
        assert check._chi_square(observed, expected, FALSE_ALARM)


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
