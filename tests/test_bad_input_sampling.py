"""What `hs.sample` and its kin, targets and recorders refuse, case by case."""

# Wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import check, diagnostics, paper, theory, validate
from refusals import Refused

P = np.full(6, 0.4)
TARGET = hs.Bernoulli(P)
SETTINGS: dict[str, Any] = {"chains": 5, "warmup": 40, "draws": 60, "progress": False}
ISING = hs.Ising(np.zeros((2, 3)), 0.1)
RBM = hs.RBM(np.zeros((3, 6)), np.zeros(6), np.zeros(3))


def sample(target: Any = TARGET, *arguments, **settings):
    return lambda: hs.sample(target, *arguments, **{**SETTINGS, **settings})


def many(targets: Any = TARGET, **settings):
    return lambda: hs.sample_many(targets, **{**SETTINGS, "keys": [0, 1], **settings})


def density(fn, *arguments, **settings):
    return lambda: hs.LogDensity(fn, *arguments, **settings)


def ones(state, info):
    return jnp.sum(state.x)


RUNS = {
    "many steps": Refused(
        sample(warmup=2**30, draws=2**30), ValueError, "at most 2,147,479,552 steps"
    ),
    "2^31 steps": Refused(sample(draws=2**31), ValueError, "at most 2,147,479,552 steps"),
    "R > N": Refused(sample(scale=hs.Fixed(7)), ValueError, "R = 7 for 6 sites"),
    "R > N at one chain": Refused(
        sample(scale=hs.Fixed([1, 2, 3, 4, 7])), ValueError, "R = 7 for 6 sites"
    ),
    "R < 1": Refused(sample(scale=hs.Fixed(0.5)), ValueError, "at least 1; got 0.5"),
    "R for 4 of 5 chains": Refused(
        sample(scale=hs.Fixed([1, 2, 3, 4])), ValueError, "each of 5 chains; got 4"
    ),
    "shape of init": Refused(sample(init=np.zeros(5, int)), ValueError, r"shape \(6,\).*\(5,\)"),
    "chains of init": Refused(sample(init=np.zeros((4, 6), int)), ValueError, r"\(5, 6\), one"),
    "float init": Refused(sample(init=np.zeros(6)), TypeError, "astype"),
    "text init": Refused(sample(init="zeros"), (TypeError, ValueError), "init must"),
    "init of 2": Refused(
        sample(init=np.full(6, 2)), ValueError, r"values 0 ... 1; got values from 2 to 2"
    ),
    "spins as init": Refused(sample(init=np.full(6, -1)), ValueError, "Spins s = -1, 1 are bits"),
    "init of 257": Refused(sample(init=np.full(6, 257)), ValueError, r"got values from 257 to 257"),
    "ragged init": Refused(sample(init=[[0], [0, 1]]), TypeError, "init must"),
    "keep some": Refused(sample(keep="some"), ValueError, "None, 'all', 'last' or n > 0"),
    "keep 0": Refused(sample(keep=0), ValueError, "None, 'all', 'last'"),
    "keep -1": Refused(sample(keep=-1), ValueError, "None, 'all', 'last'"),
    "keep True": Refused(sample(keep=True), ValueError, "None, 'all', 'last'"),
    "keep 1.5": Refused(sample(keep=1.5), ValueError, "None, 'all', 'last'"),
    "keep more than drawn": Refused(sample(keep=61), ValueError, "which is none"),
    "keep an array": Refused(sample(keep=np.array([1, 2])), ValueError, "None, 'all', 'last'"),
    "no device": Refused(sample(devices="cpu"), TypeError, "JAX device.*'cpu'"),
    "no devices": Refused(sample(devices=[]), TypeError, r"a list of them.*got \[\]"),
    "None in a list": Refused(sample(devices=[None]), TypeError, r"a list of them.*got \[None\]"),
    "a device twice": Refused(sample(devices=jax.devices() * 2), ValueError, "each device once"),
    "two kernels": Refused(sample(TARGET, hs.LBP(), sampler=hs.RWM()), TypeError, "two names"),
    "an unknown setting": Refused(sample(burn_in=9), TypeError, "burn_in"),
    "BlockGibbs": Refused(sample(TARGET, hs.BlockGibbs()), TypeError, "an hs.RBM; got Bernoulli"),
    "a scale without one": Refused(
        sample(RBM, hs.BlockGibbs(), scale=hs.Fixed(1)), ValueError, "no scale to tune or fix"
    ),
    "states of 1 TB": Refused(
        sample(hs.Bernoulli(np.full(10_000, 0.4)), chains=100, draws=1_000_000, keep="all"),
        MemoryError,
        r"1\.0 TB for kept states, .* are there\. Keep fewer",
    ),
    "10^9 chains": Refused(
        sample(hs.Bernoulli(np.full(1000, 0.4)), chains=10**9),
        MemoryError,
        r"TB for its chains, .* are there\. Use fewer chains",
    ),
    "10^30 chains": Refused(sample(chains=10**30), MemoryError, "Use fewer chains"),
    "10^15 runs of chains": Refused(many(chains=10**15), MemoryError, "Use fewer chains"),
    "a recorder of 10^12 bytes": Refused(
        sample(hs.Bernoulli(np.full(10**6, 0.4)), record=hs.record.PairMoments()),
        MemoryError,
        "record.* would need|would need .*record",
    ),
    "no keys": Refused(many(keys=[]), ValueError, "each of 0 keys"),
    "keys that are a number": Refused(many(keys=3), TypeError, "keys must"),
    "two targets of three": Refused(many([TARGET] * 2, keys=[0, 1, 2]), ValueError, "2 targets"),
    "one scale of two": Refused(many(scale=[hs.Fixed(1)]), ValueError, "1 scales"),
    "one record of two": Refused(many(record=[ones]), ValueError, "each of 2 runs"),
    "two kinds of target": Refused(
        many([TARGET, hs.Ising(np.zeros(6), 0.1)]), ValueError, "one shape"
    ),
    "two shapes": Refused(many([TARGET, hs.Bernoulli(P[:5])]), ValueError, "one shape"),
    "two kinds of tuner": Refused(
        many(scale=[hs.Fixed(1), hs.Adaptive()]), ValueError, "one shape"
    ),
    "a density among targets": Refused(many([TARGET, jnp.sum]), TypeError, "hs.LogDensity"),
}

RECORDS = {
    "a list": Refused(sample(record=[ones]), (TypeError, ValueError), "by name|each of"),
    "two of a list": Refused(sample(record=[ones, ones]), (TypeError, ValueError), "by name"),
    "a number": Refused(sample(record=3), TypeError, "must be a function of"),
    "text": Refused(sample(record="energy"), TypeError, "must be a function of"),
    "a class": Refused(sample(record=hs.record.SiteMeans), TypeError, "must be a function of"),
    "a taken name": Refused(sample(record={"log_prob": ones}), ValueError, "records itself"),
    "a name of its own": Refused(sample(record={"hamming_9": ones}), ValueError, "records itself"),
    "a number as name": Refused(sample(record={3: ones}), ValueError, "by strings"),
    "a matrix": Refused(
        sample(record={"m": lambda s, i: jnp.zeros((2, 2))}), ValueError, "SiteMeans"
    ),
    "nothing": Refused(sample(record={"n": lambda s, i: None}), ValueError, "at least one number"),
    "complex numbers": Refused(sample(record={"c": lambda s, i: 1j}), ValueError, "real numbers"),
    "one argument": Refused(
        sample(record={"f": lambda s: 0.0}), TypeError, r"record\['f'\].*\(state, info\)"
    ),
    "edges": Refused(lambda: hs.record.Histogram(ones, [0.0]), ValueError, "two rising numbers"),
    "falling edges": Refused(lambda: hs.record.Histogram(ones, [1, 0]), ValueError, "rising"),
    "NaN edges": Refused(lambda: hs.record.Histogram(ones, [0, np.nan]), ValueError, "rising"),
    "text edges": Refused(lambda: hs.record.Histogram(ones, ["a", "b"]), ValueError, "rising"),
    "no function": Refused(lambda: hs.record.Histogram(3, [0, 1]), TypeError, "function"),
}

TARGETS = {
    "p of 0": Refused(lambda: hs.Bernoulli([0.0, 0.5]), ValueError, r"inside \(0, 1\).*left out"),
    "p of 1": Refused(lambda: hs.Bernoulli([1.0, 0.5]), ValueError, r"inside \(0, 1\)"),
    "p of 2": Refused(lambda: hs.Bernoulli([2, 3]), ValueError, r"ranges over \[2, 3\]"),
    "no p": Refused(lambda: hs.Bernoulli([]), ValueError, "each site"),
    "one p": Refused(lambda: hs.Bernoulli(0.5), ValueError, "each site"),
    "no field": Refused(lambda: hs.Ising([], 0.1), ValueError, "each site"),
    "one field": Refused(lambda: hs.Ising(0.5, 0.1), ValueError, "each site"),
    "bonds": Refused(
        lambda: hs.Ising(np.zeros((2, 3)), (np.zeros((2, 3)), 0.1)), ValueError, r"\(1, 3\)"
    ),
    "three bonds of two": Refused(
        lambda: hs.Ising(np.zeros((2, 3)), (1, 2, 3)), ValueError, "2 axes; got 3"
    ),
    "observations": Refused(lambda: hs.FHMM(P[:, None], P, 0, 1), ValueError, "1 axis"),
    "no observations": Refused(lambda: hs.FHMM([], P, 0, 1), ValueError, "at least one obs"),
    "transposed weights": Refused(
        lambda: hs.RBM(np.zeros((4, 3)), np.zeros(4), np.zeros(3)), ValueError, "Transpose"
    ),
    "two hidden biases": Refused(
        lambda: hs.RBM(np.zeros((3, 4)), np.zeros(4), np.zeros((3, 1))), ValueError, "1 axis"
    ),
    "no visible units": Refused(
        lambda: hs.RBM(np.zeros((3, 0)), np.zeros(0), np.zeros(3)), ValueError, "one visible"
    ),
    "another size": Refused(lambda: paper.rbm(300), ValueError, "100, 400 or 1000"),
    "a lattice of 4 TB": Refused(lambda: paper.ising(10**6), MemoryError, "TB.* are there"),
    "10^13 bits": Refused(lambda: paper.bernoulli(10**13), MemoryError, "TB.* are there"),
    "a long series": Refused(lambda: paper.fhmm(10**12), MemoryError, "TB.* are there"),
    "10^13 identical bits": Refused(lambda: paper.identical(10**13, 0.5), MemoryError, "TB"),
    "10^13 fair bits": Refused(lambda: paper.nearly_fair(10**13, 0.5), MemoryError, "TB"),
    "no base": Refused(lambda: hs.Tempered(P, TARGET, 0.5), TypeError, "base must be a"),
    "no end": Refused(lambda: hs.Tempered(TARGET, None, 0.5), TypeError, "target must be a"),
    "another base": Refused(lambda: hs.Tempered(TARGET, ISING, 0.5), ValueError, "agree in shape"),
    "beta of 1.1": Refused(lambda: hs.Tempered(TARGET, TARGET, 1.1), ValueError, r"\[0, 1\]"),
    "many betas": Refused(
        sample(hs.Tempered(TARGET, TARGET, np.linspace(0, 1, 5))), ValueError, "must be one number"
    ),
    "beta of -1": Refused(lambda: hs.Tempered(TARGET, TARGET, -1), ValueError, r"\[0, 1\]"),
    "not a function": Refused(density(3, (3,)), TypeError, "function of one state; got int"),
    "a vector": Refused(density(lambda x: x, (3,)), ValueError, "one real number"),
    "an integer": Refused(density(lambda x: 3, (3,)), ValueError, "one real number"),
    "a complex number": Refused(density(lambda x: x.sum() * 1j, (3,)), ValueError, "one real"),
    "nothing": Refused(density(lambda x: None, (3,)), ValueError, "one real number"),
    "two numbers": Refused(density(lambda x: (1.0, 2.0), (3,)), ValueError, "one real number"),
    "a density of NumPy": Refused(
        density(lambda x: float(np.sum(x)), (3,)), TypeError, "fn .*jax.numpy; .*Concret"
    ),
    "a density of two": Refused(
        density(lambda x, y: x.sum(), (3,)), TypeError, r"fn .*one state of shape \(3,\)"
    ),
    "another shape": Refused(
        density(lambda x: x @ jnp.ones(4), (3,)), (TypeError, ValueError), r"fn .*shape \(3,\)"
    ),
    "no shape": Refused(density(jnp.sum, None), TypeError, "shape must"),
    "text shape": Refused(density(jnp.sum, "ab"), TypeError, "shape must"),
    "an empty shape": Refused(density(jnp.sum, (0,)), ValueError, "positive integers"),
    "a negative shape": Refused(density(jnp.sum, (3, -1)), ValueError, "positive integers"),
    "half a site": Refused(density(jnp.sum, (1.5,)), TypeError, "shape must"),
    "shape True": Refused(density(jnp.sum, True), TypeError, "shape must"),
    "half precision": Refused(density(jnp.sum, 3, dtype=jnp.bfloat16), TypeError, "float32 or"),
    "integers": Refused(density(jnp.sum, 3, dtype=int), TypeError, "float32 or float64"),
    "a dtype in words": Refused(density(jnp.sum, 3, dtype="quick"), TypeError, "float32 or"),
    "float64 unasked": Refused(density(jnp.sum, 3, dtype="float64"), ValueError, "enable_x64"),
}

STATES = {
    "floats": Refused(lambda: TARGET.log_prob(P), TypeError, "astype"),
    "text": Refused(lambda: TARGET.log_prob("zeros"), TypeError, "a state holds integers"),
    "nothing": Refused(lambda: TARGET.log_prob(None), TypeError, "a state holds integers"),
    "ragged": Refused(lambda: TARGET.log_prob([[0], [0, 1]]), TypeError, "a state holds"),
    "five sites": Refused(lambda: TARGET.log_prob(np.zeros(5, int)), ValueError, r"got \(5,\)"),
    "a batch": Refused(lambda: TARGET.log_prob(np.zeros((2, 6), int)), ValueError, "jax.vmap"),
    "spins": Refused(lambda: TARGET.evaluate(np.full(6, -1)), ValueError, "are bits"),
    "2": Refused(lambda: TARGET.log_ratios(np.full(6, 2)), ValueError, "0 ... 1; got.* 2 to 2"),
    "257": Refused(lambda: TARGET.log_ratios(np.full(6, 257)), ValueError, "0 ... 1"),
    "a lattice": Refused(lambda: ISING.log_prob(np.zeros(6, int)), ValueError, r"\(2, 3\)"),
    "an RBM's": Refused(lambda: RBM.log_prob(np.zeros(3, int)), ValueError, r"\(6,\); got \(3,\)"),
    "an RBM's batch": Refused(lambda: RBM.gibbs(0, np.zeros((4, 3), int)), ValueError, "batch"),
    "free energy": Refused(lambda: RBM.free_energy(np.zeros(5)), ValueError, "axes of a batch"),
}

OTHERS = {
    "not balanced": Refused(lambda: hs.LBP(lambda s: s), ValueError, r"g\(t\) = t g\(1/t\)"),
    "NaN balance": Refused(lambda: hs.LBP(lambda s: s * jnp.nan), ValueError, "g\\(t\\) = t"),
    "balance of a shape": Refused(lambda: hs.LBP(jnp.sum), ValueError, r"shape \(49,\)"),
    "R = 7 of 6": Refused(
        lambda: check.transition_matrix(TARGET, hs.LBP(), 7), ValueError, "R = 7 for 6 sites"
    ),
    "too many states": Refused(
        lambda: check.states(hs.Bernoulli(np.full(20, 0.5))), ValueError, "65,536 can be"
    ),
    "no kernel to check": Refused(
        lambda: check.invariance(TARGET, "lbp"), TypeError, "a target and a kernel are needed"
    ),
    "no target to check": Refused(
        lambda: check.invariance("ising", hs.LBP()), TypeError, "a target and a kernel"
    ),
    "Fixed of text": Refused(lambda: hs.Fixed("3"), TypeError, "scale R must be a number"),
    "Fixed of True": Refused(lambda: hs.Fixed(True), TypeError, "scale R must be a number"),
    "Fixed of None": Refused(lambda: hs.Fixed(None), TypeError, "scale R must be a number"),
    "Fixed of a dict": Refused(lambda: hs.Fixed({}), TypeError, "scale R must be a number"),
    "Fixed of 1j": Refused(lambda: hs.Fixed(1j), TypeError, "scale R must be a number"),
    "Fixed of nothing": Refused(lambda: hs.Fixed([]), ValueError, "scale R must"),
    "Fixed of a matrix": Refused(lambda: hs.Fixed([[1]]), ValueError, r"shape \(1, 1\)"),
    "Fixed of NaN": Refused(lambda: hs.Fixed([1, np.nan]), ValueError, "at least 1; got nan"),
    "trace in words": Refused(
        lambda: diagnostics.r_hat("abc"), TypeError, r"array of shape \(chains, n\); got 'abc'"
    ),
    "trace of one axis, for ESS": Refused(
        lambda: diagnostics.effective_sample_size(P), ValueError, r"\(chains, n\); got \(6,\)"
    ),
    "ratios of text": Refused(lambda: check.ratios("ising"), TypeError, "target must be"),
    "a target in words, to load": Refused(
        lambda: hs.load("none", "ising"), TypeError, "target must be .*got 'ising'"
    ),
    "a kernel in words, to load": Refused(
        lambda: hs.load("none", kernel="lbp"), TypeError, "kernel must be .*got 'lbp'"
    ),
    "nothing to load": Refused(lambda: hs.load("none"), FileNotFoundError, "no file none"),
    "trace of one axis": Refused(
        lambda: diagnostics.r_hat(P), ValueError, r"shape \(chains, n\); got \(6,\)"
    ),
    "blocks without a variance": Refused(
        lambda: diagnostics.mean_ess(np.eye(4, 9), 2), ValueError, "variance"
    ),
    "p for theory": Refused(lambda: theory.lambda_1([0.0, 0.5]), ValueError, r"inside \(0, 1\)"),
    "an Ising for theory": Refused(lambda: theory.lambda_1(ISING), TypeError, "independent bits"),
    "scale of 0": Refused(lambda: theory.acceptance(0, P), ValueError, "at least 1, the number"),
    "rate of 1": Refused(lambda: theory.efficiency_curve(1.0, P), ValueError, "end points out"),
    "fair bits": Refused(
        lambda: theory.efficiency_curve(0.5, [0.5, 0.5]), ValueError, "every p is 1/2"
    ),
    "a batch of keys": Refused(
        lambda: validate.as_key(jax.random.split(jax.random.key(0), 3)), TypeError, "one JAX key"
    ),
}

CASES = {
    f"{table}: {name}": case
    for table, cases in {
        "run": RUNS,
        "record": RECORDS,
        "target": TARGETS,
        "state": STATES,
        "other": OTHERS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_work_is_refused(name, monkeypatch):
    for function in ("start", "advance"):
        monkeypatch.setattr(f"hopscale.runs.sampling.{function}", None)  # nothing is compiled
    CASES[name].check()


def test_there_are_more_than_a_thousand():
    import test_bad_input
    import test_bad_input_learning

    assert len({**CASES, **test_bad_input.CASES, **test_bad_input_learning.CASES}) >= 1000
