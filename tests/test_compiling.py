"""Programs compiled ahead of their first call, by several threads."""

import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.engine.compiling import compile_for, compiled

COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def programs():
    """Counts the programs that XLA compiles."""
    names = []

    def heard(event: str, duration_secs: float, **kwargs: str | int) -> None:
        names.append(event)

    jax.monitoring.register_event_duration_secs_listener(heard)
    return lambda: names.count(COMPILED)


def test_a_call_finds_what_was_compiled_for_it(programs):
    function, x = compiled()(lambda x: jnp.sin(x) + 3), jnp.arange(7.0)
    before = programs()
    compile_for(function, x)
    assert programs() == before + 1
    found = function(x)
    assert programs() == before + 1
    assert np.asarray(found)[0] == 3
    function(np.arange(5.0))  # another shape
    assert programs() == before + 2


def test_what_is_traced_may_compile_something_itself():
    def outer(x):
        with jax.ensure_compile_time_eval():
            compile_for(compiled()(lambda y: y + 1), jnp.ones(3))
        return 2 * x

    compile_for(compiled()(outer), jnp.ones(2))


def test_threads_trace_one_after_the_other():
    inside, most = [], []

    def slow(x):
        inside.append(None)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        return x + 1

    with ThreadPoolExecutor(4) as pool:
        sizes = [jnp.zeros(n) for n in range(1, 5)]
        list(pool.map(lambda x: compile_for(compiled()(slow), x), sizes))
    assert len(most) >= 4
    assert max(most) == 1


REGRESSION = np.random.default_rng(0).normal(size=(12, 5))
EVALUATED = {
    "exact ratios": hs.LogDensity(lambda x: jnp.sum(x[1:] * x[:-1]), (5,), ratios="exact"),
    "variable selection": hs.models.VariableSelection(REGRESSION, REGRESSION @ np.arange(5.0)),
}


@pytest.mark.parametrize("name", EVALUATED)
def test_evaluations_outside_of_programs_compile_nothing_again(programs, name):
    target, kernel, key = EVALUATED[name], hs.LBP(), jax.random.key(0)

    def use(x):
        state = kernel.init(target, x)
        state, _ = kernel.step(key, target, state, jnp.asarray(2.0))
        return target.log_prob(x) + target.evaluate(state.x).log_prob

    use(np.zeros(5, np.int8))
    before = programs()
    use(np.array([1, 0, 0, 1, 0], np.int8))
    assert programs() == before


def test_a_run_compiles_few_programs(programs):
    jax.clear_caches()  # others may have compiled single operations
    before = programs()
    run = hs.sample(hs.Bernoulli(np.linspace(0.1, 0.8, 7)), hs.LBP(), chains=4, warmup=20, draws=20)
    assert run.warnings  # judging the run is part of it
    assert programs() - before <= 20
