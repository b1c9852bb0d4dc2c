"""The kernel's contract, the convention of keys, and what the loop does for long runs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.engine import loop
from hopscale.tune import fitted
from runs import SETTINGS, TARGET, same
from small import small_rbm

CONTRACT = [
    (TARGET, hs.LBP(), 4.3),
    (TARGET, hs.LBP("sqrt", "same", lengths="paper"), 4.0),
    (TARGET, hs.GWG(), 5.0),
    (TARGET, hs.RWM(), 1.7),
    (small_rbm(), hs.LBP(), 2.0),
    (small_rbm(), hs.BlockGibbs(2), None),
]


@pytest.mark.parametrize(("target", "kernel", "scale"), CONTRACT, ids=lambda v: type(v).__name__)
def test_a_program_of_the_users_own_gives_the_same_chains(target, kernel, scale):
    """init and step inside jit, scan and vmap, with the documented keys."""
    key, chains, draws = jax.random.key(9), 3, 50
    start = np.zeros(target.shape, np.int8)

    @jax.jit
    def mine(key, start):
        _, _, key_run = jax.random.split(key, 3)

        def chain(number):
            def step(state, n):
                key_step = jax.random.fold_in(jax.random.fold_in(key_run, n), number)
                at = jnp.asarray(scale or 1.0, target.dtype)
                state, info = kernel.step(key_step, target, state, at)
                return state, (state.x, info.accept_prob)

            return jax.lax.scan(step, kernel.init(target, start), jnp.arange(draws))[1]

        return jax.vmap(chain)(jnp.arange(chains))

    x, accept_prob = mine(key, start)
    run = hs.sample(
        target,
        kernel,
        scale=None if scale is None else hs.Fixed(scale),
        chains=chains,
        warmup=0,
        draws=draws,
        key=key,
        init=start,
        keep="all",
        record={"accept_prob": lambda state, info: info.accept_prob},
        progress=False,
    )
    np.testing.assert_array_equal(run.draws, x)
    trace = run.statistics["accept_prob"].trace
    np.testing.assert_allclose(trace, accept_prob, rtol=1e-4, atol=1e-6)


def test_info_says_what_happened():
    kernel, scale = hs.LBP(), jnp.float32(3.0)
    state = kernel.init(TARGET, jnp.zeros(TARGET.shape, jnp.int8))
    step = jax.jit(lambda key, state: kernel.step(key, TARGET, state, scale))
    for n in range(40):
        after, info = step(jax.random.key(n), state)
        assert int(info.distance) == int(jnp.sum(after.x != state.x))
        assert bool(info.accepted) == (int(info.distance) > 0)
        assert 0 <= float(info.accept_prob) <= 1
        expected = info.proposal if info.accepted else state.x
        np.testing.assert_array_equal(after.x, expected)
        assert float(after.log_prob) == pytest.approx(float(TARGET.log_prob(after.x)), abs=1e-4)
        state = after


def test_chunks_are_not_compiled_one_by_one():
    """How often the target is traced does not depend on how the run is cut."""

    def traces(chunk):
        traced = []

        def log_density(x):
            traced.append(1)
            return 0.1 * jnp.sum(x)

        hs.sample(hs.LogDensity(log_density, (8,)), chunk=chunk, **SETTINGS)
        return len(traced)

    assert traces(1) == traces(7) == traces(None)


def test_one_evaluation_a_step_and_no_second_compilation():
    traced, evaluated = [], []

    def log_density(x):
        traced.append(1)
        jax.debug.callback(lambda: evaluated.append(1))
        return jnp.sum(x) * 0.1

    target = hs.LogDensity(log_density, (8,), ratios="gradient")
    settings = {"scale": hs.Adaptive(), **SETTINGS, "chains": 1}
    run = hs.sample(target, **settings)
    jax.effects_barrier()
    assert run.evaluations == 101
    compared = 4 * (2 + 8)  # states, with and without ratios, and their neighbours, before the run
    assert len(evaluated) == run.evaluations + compared
    before = len(traced)
    hs.sample(target, **{**settings, "key": 9, "draws": 20, "warmup": 0})
    hs.sample(target, **{**settings, "scale": hs.Adaptive(0.4)})
    assert len(traced) - before == 4  # two a run for the shapes of what is recorded


def test_scales_share_a_program():
    stepped = []

    class Counted(hs.RWM):
        def choose(self, key, target, state, length):
            stepped.append(1)
            return super().choose(key, target, state, length)

    hs.sample(TARGET, Counted(), scale=hs.Fixed(2), **SETTINGS)
    before = len(stepped)
    run = hs.sample(TARGET, Counted(), scale=hs.Fixed(3), **SETTINGS)
    assert len(stepped) - before <= 1
    assert run.scale == 3


def test_parameters_are_arguments_of_the_program():
    """A model whose weights change, as in training, is not compiled again."""
    traced = []

    class Energy(eqx.Module):
        weights: jax.Array

        def __call__(self, x):
            traced.append(1)
            return self.weights @ x

    hs.sample(hs.LogDensity(Energy(jnp.ones(8)), (8,), ratios="gradient"), **SETTINGS)
    before = len(traced)
    hs.sample(hs.LogDensity(Energy(jnp.zeros(8)), (8,), ratios="gradient"), **SETTINGS)
    assert len(traced) - before == 3  # checks of shapes


# -- Evaluations from scratch. -------------------------------------------------------------------


class Drifting(hs.Bernoulli):
    """Fair bits whose updates add 1 to the log-probability, every time."""

    def _update(self, x, evaluation, move):
        after = super()._update(x, evaluation, move)
        return after._replace(log_prob=evaluation.log_prob + 1.0)


def drifting() -> hs.Target:
    return Drifting(np.full(4, 0.5))  # pyright: ignore


CUTS = [(None, 0, 2200), (7, 0, 2200), (1000, 0, 2200), (1024, 0, 2200), (None, 1000, 60)]


def test_updates_that_drift_are_corrected_every_1024_steps():
    """Every move is accepted, so the drift counts the steps since the last correction.

    However the run is cut, and with the steps of the warm-up counted.
    """
    for chunk, warmup, draws in CUTS:
        run = hs.sample(
            drifting(),
            hs.RWM(),
            scale=hs.Fixed(2),
            chains=2,
            warmup=warmup,
            draws=draws,
            chunk=chunk,
            progress=False,
        )
        drift = run.statistics["log_prob"].trace - 4 * np.log(0.5)
        expected = 1 + (warmup + np.arange(draws)) % loop.FRESH_STEPS
        np.testing.assert_allclose(drift, np.stack([expected, expected]), atol=1e-3)


def test_long_scans_of_known_length_are_corrected_too():
    target, kernel = drifting(), hs.RWM()
    tuner = fitted(hs.Fixed(2), kernel.scale_range(target))
    program = loop.Program(key=jax.random.key(0), target=target, kernel=kernel, tuner=tuner)
    x = jnp.zeros((2, 4), jnp.int8)
    for steps in (20, 1030):
        scan = jax.jit(lambda x, n=steps: loop.scan(program, loop.start(program, x), steps=n))
        chains, _ = scan(x)
        drift = np.asarray(chains.states.log_prob) - 4 * np.log(0.5)
        np.testing.assert_allclose(drift, 1 + (steps - 1) % 1024, atol=1e-3)


def test_whole_pages_give_the_same_run(monkeypatch):
    """The loop for GPUs, which idles beyond the last step, on the CPU."""
    settings = {**SETTINGS, "keep": 3, "warmup": 41, "record": {"m": hs.record.SiteMeans()}}
    exact = hs.sample(TARGET, chunk=17, **settings)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.clear_caches()  # the loop asks when it is traced
    same(exact, hs.sample(TARGET, chunk=17, **settings))
    same(exact, hs.sample(TARGET, chunk=1000, **settings))
    monkeypatch.undo()
    jax.clear_caches()


@pytest.mark.parametrize(("first", "size"), [(0, 139), (2_016, 100), (5, 7), (16, 16), (31, 33)])
def test_chunks_end_where_pages_end(first, size):
    """So that a device which takes whole pages takes each of them once."""
    at, end, pages = first, first + 1_000, 0
    while at < end:
        steps = loop.to_end_of_page(at, min(size, end - at))
        assert 1 <= steps <= size
        pages += -(-(at + steps) // loop.NOISE_STEPS) - at // loop.NOISE_STEPS
        at += steps
    once = -(-end // loop.NOISE_STEPS) - first // loop.NOISE_STEPS
    assert at == end
    assert pages == once or size < loop.NOISE_STEPS
