"""dimod models, and hopscale as a sampler of them."""

import itertools

import numpy as np
import pytest

import hopscale as hs

dimod = pytest.importorskip("dimod")

RNG = np.random.default_rng(2)
NAMES = [*"abcdefghij"]
QUADRATIC = {
    (a, b): float(RNG.normal()) for a, b in itertools.combinations(NAMES, 2) if RNG.random() < 0.4
}
LINEAR = {name: float(RNG.normal()) for name in NAMES}


@pytest.fixture(scope="module", params=["SPIN", "BINARY"])
def bqm(request):
    return dimod.BQM(LINEAR, QUADRATIC, 0.7, request.param)


@pytest.fixture(scope="module")
def found(bqm):
    return hs.dimod.Sampler().sample(bqm, num_reads=20, num_sweeps=200, seed=3)


def test_log_prob_is_minus_the_energy(bqm):
    target = hs.Pairwise.from_dimod(bqm, beta=0.5)
    x = RNG.integers(0, 2, (6, len(NAMES)))
    energies = hs.dimod.sample_set(x, bqm).record.energy
    ours = [float(target.log_prob(state)) for state in x]
    np.testing.assert_allclose(ours, -0.5 * energies, rtol=1e-4, atol=1e-4)
    assert target.bits == (bqm.vartype is dimod.BINARY)


def test_there_and_back(bqm, x64):
    again = hs.Pairwise.from_dimod(bqm).to_dimod()
    assert again.vartype is bqm.vartype
    named = hs.Pairwise.from_dimod(bqm).to_dimod(bqm.variables)
    assert named.is_almost_equal(bqm, places=5)
    x = RNG.integers(0, 2, (4, len(NAMES)))
    values = x if bqm.vartype is dimod.BINARY else 2 * x - 1
    np.testing.assert_allclose(again.energies(values), hs.dimod.sample_set(x, bqm).record.energy)


def test_sample_sets_there_and_back(bqm):
    x = RNG.integers(0, 2, (5, len(NAMES))).astype(np.int8)
    found = hs.dimod.sample_set(x, bqm)
    np.testing.assert_array_equal(hs.dimod.states(found, bqm), x)
    names = list(bqm.variables)
    turned = found.copy().relabel_variables(dict(zip(names, names[::-1], strict=True)))
    np.testing.assert_array_equal(hs.dimod.states(turned, bqm), x[:, ::-1])
    found.record.num_occurrences[:] = [1, 3, 1, 1, 2]
    again = hs.dimod.states(found, bqm)
    np.testing.assert_array_equal(again, x[[0, 1, 1, 1, 2, 3, 4, 4]])
    target = hs.Pairwise.from_dimod(bqm)
    run = hs.sample(target, chains=8, warmup=0, draws=1, init=again, progress=False)
    assert run.last.shape == again.shape


def test_one_import_changes(bqm):
    from hopscale.dimod import Sampler as SimulatedAnnealingSampler

    assert SimulatedAnnealingSampler is hs.dimod.Sampler
    found = SimulatedAnnealingSampler().sample(bqm, num_reads=2, num_sweeps=10, seed=1)
    assert len(found) == 2


def test_samples_are_those_of_the_model_and_reach_the_ground_state(bqm, found):
    assert isinstance(found, dimod.SampleSet)
    assert found.vartype is bqm.vartype
    assert set(found.variables) == set(NAMES)
    assert len(found) == 20
    np.testing.assert_allclose(found.record.energy, bqm.energies(found.samples(sorted_by=None)))
    exact = dimod.ExactSolver().sample(bqm).first.energy
    assert found.first.energy == pytest.approx(exact)


def assignment(n, penalty):
    """Each row and each column of a matrix has one 1, or a penalty twice as large is due."""
    cost, model = RNG.random((n, n)), dimod.BQM("BINARY")
    for i, j in itertools.product(range(n), repeat=2):
        model.add_linear((i, j), cost[i, j] - 2.0 * penalty)
        for k in range(j):
            model.add_quadratic((i, j), (i, k), 2.0 * penalty)
            model.add_quadratic((j, i), (k, i), 2.0 * penalty)
    model.offset = 2.0 * n * penalty
    return model


def five_of_fifty(penalty):
    model = dimod.BQM({i: RNG.random() for i in range(50)}, {}, 0.0, "BINARY")
    terms = [(i, 1.0) for i in range(50)]
    model.add_linear_equality_constraint(terms, lagrange_multiplier=penalty, constant=-5.0)
    return model


PENALTIES = {
    "assignment": (assignment(6, 20.0), 10.0),  # a row or column amiss would cost 20
    "five of fifty": (five_of_fifty(50.0), 10.0),  # a number too many would cost 50
}


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_are_paid_by_next_to_no_read(name):
    model, most = PENALTIES[name]
    energy = hs.dimod.Sampler().sample(model, num_reads=200, num_sweeps=300, seed=1).record.energy
    assert np.mean(energy < most) > 0.93
    assert energy.min() < 0.3 * most


def test_the_same_seed_gives_the_same_samples(bqm, found):
    again = hs.dimod.Sampler().sample(bqm, num_reads=20, num_sweeps=200, seed=3)
    np.testing.assert_array_equal(found.record.sample, again.record.sample)


def test_dimod_itself_is_content():
    dimod.testing.assert_sampler_api(hs.dimod.Sampler())


def test_keywords_of_dwave_samplers_are_taken():
    bqm = dimod.BQM(LINEAR, QUADRATIC, 0.7, "SPIN")
    sampler, names = hs.dimod.Sampler(), list(bqm.variables)
    start = dict.fromkeys(names, 1)
    cold = sampler.sample(  # nothing changes that costs anything
        bqm,
        num_reads=20,
        beta_schedule_type="custom",
        beta_schedule=[1e4] * 100,
        num_sweeps_per_beta=2,
        initial_states=[start],
        initial_states_generator="tile",
        proposal_acceptance_criteria="Gibbs",
        interrupt_function=lambda: False,
        seed=1,
    )
    assert cold.info["beta_range"] == [1e4, 1e4]
    assert np.all(cold.record.energy <= bqm.energy(start) + 1e-4)
    ising = sampler.sample_ising({"a": 1.0}, {("a", "b"): -1.0}, num_sweeps=50, seed=1)
    assert ising.first.sample == {"a": -1, "b": -1}
    in_their_order = sampler.sample(bqm, (0.1, 3.0), 2, 50, seed=1, randomize_order=True)
    assert len(in_their_order) == 2
    unchanged = sampler.sample(bqm, num_sweeps=0, initial_states=[start])
    assert unchanged.first.sample == start
    empty = sampler.sample(dimod.BQM("SPIN"))
    assert len(empty.variables) == 0


def test_annealing_can_be_interrupted():
    bqm = dimod.BQM(LINEAR, QUADRATIC, 0.0, "SPIN")
    asked = []
    stopped = hs.dimod.Sampler().sample(
        bqm, num_sweeps=1000, seed=1, interrupt_function=lambda: asked.append(None) or True
    )
    assert len(asked) == 1  # before the end
    assert len(stopped) == 1


BAD = {
    "criterion": ({"proposal_acceptance_criteria": "heat"}, "proposal_acceptance_criteria"),
    "schedule": ({"beta_schedule_type": "cubic"}, "beta_schedule_type"),
    "no schedule": ({"beta_schedule_type": "custom"}, "beta_schedule is needed"),
    "a schedule too many": ({"beta_schedule": [1.0]}, "beta_schedule is needed"),
    "sweeps": ({"num_sweeps": -1}, "num_sweeps"),
    "parts": ({"num_sweeps": 5, "num_sweeps_per_beta": 2}, "multiple"),
    "zero": ({"beta_range": [0.0, 1.0]}, "positive"),
    "nan": ({"beta_range": [0.1, np.nan]}, "finite"),
}


@pytest.mark.parametrize("name", BAD)
def test_settings_that_cannot_work_are_refused(name):
    settings, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        hs.dimod.Sampler().sample(dimod.BQM(LINEAR, QUADRATIC, 0.0, "SPIN"), **settings)


def test_what_is_not_a_sample_set_is_refused(bqm):
    with pytest.raises(TypeError, match="SampleSet is needed"):
        hs.dimod.states(np.ones((2, 10)), bqm)
    few = dimod.SampleSet.from_samples([{"a": 1}], "SPIN", 0.0)
    with pytest.raises(ValueError, match="say nothing of the model's variable 'b'"):
        hs.dimod.states(few, bqm)


def test_what_is_not_a_model_is_refused():
    with pytest.raises(TypeError, match=r"Use hs\.Pairwise\.from_dimod"):
        hs.Pairwise(dimod.BQM("SPIN"))
    with pytest.raises(ValueError, match="2 sites need as many names; got 1"):
        hs.Pairwise([(0, 1)]).to_dimod("a")
    with pytest.raises(TypeError, match="from_qubo"):
        hs.Pairwise.from_dimod({("a", "b"): 1.0})


def test_states_of_another_width_are_refused():
    model = dimod.BQM({0: 1.0, 1: -1.0, 2: 0.5}, {}, "BINARY")
    with pytest.raises(ValueError, match=r"shape \(..., 3\).*got \(3, 4\)"):
        hs.dimod.sample_set(np.zeros((3, 4), int), model)


def test_spins_are_not_taken_for_states():
    model = dimod.BQM({0: 1.0, 1: -1.0}, {}, "BINARY")
    with pytest.raises(ValueError, match=r"0 and 1.*\(spins \+ 1\) // 2"):
        hs.dimod.sample_set(np.array([[-1, 1]]), model)
