"""Gradient ratios are compared with exact ones, and do not mislead in silence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from diabetes import NAMES, diabetes, masked
from hopscale.targets import ratios
from runs import errors_away, most_errors

SHORT = {"chains": 40, "warmup": 300, "draws": 500, "progress": False}


def bent(x):
    """Bits that enter squared: up is better by 3, and the slope at 0 says worse by 3."""
    return jnp.sum(6.0 * x**2 - 3.0 * x)


def straight(x):
    return 3.0 * jnp.sum(x)


def smooth(x):
    """Bends a little, as the free energy of a network does."""
    return jnp.sum(jax.nn.softplus(0.3 * x - 0.1)) + 0.05 * jnp.sum(x[1:] * x[:-1])


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")
def test_variable_selection_is_right_by_default():
    target = masked(*diabetes())
    assert target.ratios == "exact"
    record = {"in": lambda state, info: state.x}
    run = hs.sample(target, record=record, **SHORT)
    by_chain = np.stack([run.statistics[f"in[{i}]"].mean_by_chain for i in range(10)], axis=1)
    truth = hs.check.probabilities(target) @ hs.check.states(target)
    assert truth[NAMES.index("bmi")] > 0.999
    assert truth[NAMES.index("s5")] > 0.999
    vary = by_chain.std(axis=0) > 0
    np.testing.assert_allclose(by_chain.mean(axis=0)[~vary], truth[~vary], atol=1e-3)
    assert errors_away(by_chain[:, vary], truth[vary]) < most_errors(10, SHORT["chains"])


def test_many_variables_are_decided_by_comparing():
    target = masked(*diabetes(interactions=True))
    assert (target.num_sites, target.ratios) == (64, "auto")
    start = jnp.zeros((2, 64), jnp.int8)
    decided, caution = ratios.settle(target, start)
    assert (decided.ratios, caution) == ("exact", None)


@pytest.mark.parametrize(
    ("density", "settled"), [(bent, "exact"), (straight, "gradient"), (smooth, "gradient")]
)
def test_auto_takes_the_gradient_where_it_agrees(density, settled):
    target, x = hs.LogDensity(density, (400,)), jnp.zeros((3, 400), jnp.int8)
    decided, caution = ratios.settle(target, x)
    assert (decided.ratios, caution) == (settled, None)
    both = hs.Tempered(hs.Bernoulli(np.full(400, 0.5)), target, 0.8)
    assert both.ratios == "auto"
    assert ratios.settle(both, x)[0].ratios == settled


def sparse(p: int, n: int, columns: int, seed: int) -> hs.LogDensity:
    """Mask x Gram x mask, where few of many columns matter and all have the same penalty."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    truth = rng.choice(p, columns, replace=False)
    y = x[:, truth].sum(axis=1) + rng.normal(size=n)
    x, y = x - x.mean(axis=0), y - y.mean()
    return masked(np.sqrt(n) * x / np.linalg.norm(x, axis=0), np.sqrt(n) * y / np.linalg.norm(y))


@pytest.mark.parametrize(("problem", "dear"), [((100, 300, 1, 0), False), ((200, 500, 3, 1), True)])
def test_a_few_columns_that_matter_among_many_are_not_overlooked(problem, dear):
    """The penalty that all columns share is right, and says nothing of which of them matter."""
    target = sparse(*problem)
    start = np.random.default_rng(0).integers(0, 2, (4, target.num_sites)).astype(np.int8)
    few = ratios.compare(target, jnp.asarray(start), jax.random.key(4), each=1e9)
    assert few.exact.size == 64
    assert few.error < 0.5 * few.size
    assert few.error_between > 0.9 * few.spread
    assert not few.agree
    assert "from site to site these differ by" in str(few)
    decided, caution = ratios.settle(target, jnp.asarray(start))
    assert decided.ratios == "exact"
    assert (caution is not None) == dear


def test_what_sites_share_is_no_disagreement():
    """Slopes are off by the same number at all sites, which says nothing wrong of any of them."""
    fields = jnp.linspace(-1.0, 1.0, 80)

    def squared(x):
        return jnp.sum(x * fields + 0.3 * x**2 - 3.3 * x)

    found = hs.check.ratios(hs.LogDensity(squared, (80,)))
    np.testing.assert_allclose(found.error, 0.3, rtol=1e-4)
    assert found.error_between < 1e-5
    np.testing.assert_allclose(found.spread, np.std(np.asarray(fields)), rtol=0.1)
    assert found.agree


def test_every_site_is_compared_where_evaluations_are_cheap():
    def few_bent(x):
        return -3.0 * jnp.sum(x) + jnp.sum(20.0 * x[:2] ** 2 - 10.0 * x[:2])

    target = hs.LogDensity(few_bent, (250,))
    found = hs.check.ratios(target)
    assert set(found.sites) == set(range(250))
    assert found.error < 0.5 * found.size
    assert not found.agree
    for number, states in ((256, 1), (256, 3), (64, 4)):
        each = ratios.MOST / number
        x = jnp.zeros((states, 1000), jnp.int8)
        found = ratios.compare(hs.LogDensity(straight, (1000,)), x, jax.random.key(0), each)
        assert found.exact.size == len(set(found.sites)) == number + -number % states


def scaled(x):
    return jnp.eye(60) * x[:, None]


def repeated(x):
    def once(i, total):
        return total + jnp.sum(jnp.linalg.cholesky(scaled(x)))

    return jax.lax.fori_loop(0, 5, once, 0.0)


FACTORISED = {
    "solve": (lambda x: jnp.sum(jnp.linalg.solve(scaled(x), x)), 2 / 3 * 60**3),
    "slogdet": (lambda x: jnp.linalg.slogdet(scaled(x))[1], 2 / 3 * 60**3),
    "inverse": (lambda x: jnp.sum(jnp.linalg.inv(scaled(x))), (2 / 3 + 2) * 60**3),
    "many": (
        lambda x: jnp.sum(jnp.linalg.cholesky(jnp.stack([scaled(x)] * 7))),
        7 / 3 * 60**3,
    ),
    "in a loop": (repeated, 5 / 3 * 60**3),
    "eigenvalues": (lambda x: jnp.sum(jnp.linalg.eigvalsh(scaled(x))), 9 * 60**3),
    "rectangle": (
        lambda x: jnp.sum(jnp.linalg.qr(scaled(x)[:, :20])[1]),
        8 / 3 * 60 * 20**2,
    ),
}


@pytest.mark.parametrize("name", FACTORISED)
def test_factorisations_are_counted(name):
    density, expected = FACTORISED[name]
    found = ratios.operations(hs.LogDensity(density, (60,)))
    assert expected < found < expected + 12 * 7 * 60**2


def test_expensive_exact_ratios_say_what_they_cost():
    target = sparse(130, 300, 2, 0)
    decided, caution = ratios.settle(target, jnp.zeros((4, 130), jnp.int8))
    assert decided.ratios == "exact"
    assert caution is not None
    assert "130 evaluations a step of each chain, 210 million operations, 21 ms at" in caution
    assert "hs.models.VariableSelection(X, y)" in caution


def test_solves_of_many_sites_are_not_taken_for_cheap():
    target = sparse(250, 500, 2, 0)
    assert (
        ratios.neighbours(target) * ratios.operations(target) > 250 * 2 / 3 * 250**3 > ratios.MOST
    )
    decided, caution = ratios.settle(target, jnp.zeros((4, 250), jnp.int8))
    assert decided.ratios == "gradient"
    assert caution is not None
    assert "250 evaluations a step of each chain, 2.7 billion operations" in caution
    assert "hs.models.VariableSelection(X, y)" in caution


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")
def test_a_run_says_which_ratios_it_used():
    short = {"chains": 4, "warmup": 20, "draws": 30, "progress": False}
    bits = hs.Bernoulli(np.full(400, 0.5))
    for density, kind in ((bent, "exact"), (straight, "gradient")):
        for target in (
            hs.LogDensity(density, (400,)),
            hs.Tempered(bits, hs.LogDensity(density, (400,)), 0.8),
        ):
            run = hs.sample(target, **short)
            assert run.summary()["ratios"] == run.ratios == kind
            assert f"log-ratios {kind}" in " ".join(str(run).split())
    for target, kernel in (
        (hs.LogDensity(bent, (40,)), hs.RWM()),
        (hs.Pairwise([(0, 1)]), hs.LBP()),
    ):
        run = hs.sample(target, kernel, **short)
        assert run.ratios is None
        assert "log-ratios" not in str(run).split("!")[0]


def test_slopes_of_nothing_are_found_out_whatever_the_size():
    """A table has slope 0 everywhere: all wrong, however small the differences are."""
    for size in (0.2, 0.95):
        target = hs.LogDensity(lambda x, size=size: jnp.sum(jnp.where(x > 0.5, size, 0.0)), (400,))
        found = ratios.settle(target, jnp.zeros((2, 400), jnp.int8))
        assert (found[0].ratios, found[1]) == ("exact", None)


def test_no_seed_has_a_part_in_what_auto_decides():
    """About as many sites bend as are allowed to: some states would say yes, others no."""
    rng, n = np.random.default_rng(3), 600
    weights, bent = jnp.asarray(2 * rng.normal(size=n)), jnp.asarray(rng.random(n) < 0.25)
    target = hs.LogDensity(lambda x: jnp.sum(weights * jnp.where(bent, jnp.round(x), x)), (n,))
    cost = ratios.neighbours(target) * ratios.operations(target)
    assert ratios.CHEAP < 0.8 * cost < cost < ratios.MOST
    by_state = {hs.check.ratios(target, key=k).agree for k in range(10)}
    assert by_state == {True, False}
    found = {
        hs.sample(
            target, hs.LBP(), chains=c, warmup=0, draws=1, key=k, progress=False
        ).target.ratios
        for k, c in ((0, 1), (1, 2), (2, 7), (3, 7))
    }
    assert len(found) == 1


def test_auto_is_decided_by_what_evaluations_cost():
    """As many neighbours: exact ratios of a sum are cheap, those of a network are not."""
    layers = jnp.ones((300, 50)) / 300

    def network(x):
        return jnp.sum(jnp.tanh(layers @ x))

    x, found = jnp.zeros((2, 50), jnp.int8), {}
    for density in (straight, network):
        target = hs.LogDensity(density, (50,))
        found[density] = ratios.operations(target)
        expected = "exact" if density is straight else "gradient"
        assert ratios.settle(target, x)[0].ratios == expected
    assert found[straight] < 400
    assert found[network] > 300 * 50
    ebm = hs.learn.EBM(network, np.full(50, 0.5), ratios="auto")
    assert ratios.settle(ebm, x)[0].ratios == "gradient"


def test_exact_ratios_of_an_ebm_are_differences(x64):
    weights = jnp.linspace(-1.0, 1.0, 5)
    base = np.linspace(0.2, 0.7, 5)
    for kind, most in (("exact", 1e-12), ("gradient", 2.0)):
        target = hs.learn.EBM(lambda x: jnp.sin(3 * weights @ x), base, ratios=kind)
        assert hs.check.ratios(target).error <= most
    assert hs.check.ratios(target).error > 0.1
    with pytest.raises(ValueError, match="ratios must be"):
        hs.learn.EBM(jnp.sum, base, ratios="all")


def test_categories_are_compared():
    target = hs.LogDensity(lambda code: jnp.sum((code @ jnp.arange(3.0)) ** 2), (20,), 3)
    found = hs.check.ratios(target)
    assert found.exact.size == 4 * 20  # every site of every state
    exact = hs.check.ratios(hs.LogDensity(target.fn, (20,), 3, ratios="exact"))
    np.testing.assert_allclose(exact.given, exact.exact, atol=1e-4)
    np.testing.assert_allclose(found.exact, exact.exact)
    assert np.abs(found.given - found.exact).max() > 0.5


def test_too_many_neighbours_are_a_warning():
    target = hs.LogDensity(bent, (int(ratios.MOST**0.5),))
    start = jnp.zeros((1, *target.shape), jnp.int8)
    decided, caution = ratios.settle(target, start)
    assert decided.ratios == "gradient"
    assert caution is not None
    assert "off by 6" in caution


def test_a_gradient_that_misleads_is_a_warning(tmp_path):
    target = hs.LogDensity(bent, (40,), ratios="gradient")
    short = {"chains": 4, "warmup": 20, "draws": 30, "progress": False}
    with pytest.warns(hs.ConvergenceWarning) as issued:
        run = hs.sample(target, **short)
    said = [str(one.message) for one in issued]
    assert sum("Gradient ratios mislead here" in sentence for sentence in said) == 1
    assert "log-ratios are off by 6 (root mean square)" in said[0]
    assert 'ratios="exact"' in said[0]
    assert run.warnings[0] == said[0]
    assert run.summary()["warnings"][0] == said[0]
    run.save(tmp_path / "run")
    assert hs.load(tmp_path / "run", target).warnings[0] == said[0]


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")
def test_a_run_decides_and_its_file_remembers(tmp_path):
    target = hs.LogDensity(bent, (40,))
    run = hs.sample(target, chains=4, warmup=20, draws=30, progress=False)
    assert run.target.ratios == "exact"
    assert not any("mislead here" in sentence for sentence in run.warnings)
    run.save(tmp_path / "run")
    assert hs.load(tmp_path / "run", target).target.ratios == "exact"
    assert hs.load(tmp_path / "run", hs.LogDensity(bent, (40,), ratios="exact")).num_draws == 30
    with pytest.raises(hs.FileError, match="ratios"):
        hs.load(tmp_path / "run", hs.LogDensity(bent, (40,), ratios="gradient"))


def test_kernels_that_do_not_look_at_ratios_are_not_checked():
    target = hs.LogDensity(bent, (40,), ratios="gradient")
    from hopscale.runs.plan import Plan

    assert Plan.of([target], hs.RWM(), [0], [None], 2, 1, 1).cautions == ()
    assert len(Plan.of([target], hs.LBP(), [0], [None], 2, 1, 1).cautions) == 1


def test_many_neighbours_go_in_batches():
    n = 300
    weights = jnp.linspace(-1.0, 1.0, n)
    target = hs.LogDensity(lambda x: x @ weights, (n,), ratios="exact")
    x = np.arange(n) % 2
    np.testing.assert_allclose(target.log_ratios(x), (1 - 2 * x) * weights, atol=2e-5)


def test_as_many_values_as_a_state_can_hold():
    """128 values are the most that eight bits hold; the largest is among those that sites have."""
    table = jax.random.normal(jax.random.key(0), (128,))
    target = hs.LogDensity(lambda x: jnp.sum(x @ table), (300,), 128, ratios="gradient")
    x = jnp.full((4, 300), 127, target.state_dtype)
    found = ratios.compare(target, x, jax.random.key(1), each=1.0)
    assert found.before.max() == 127
    assert found.error_between < 1e-4
    assert found.agree


def test_nothing_to_compare_is_no_number():
    target = hs.LogDensity(lambda x: jnp.nan * jnp.sum(x), (5,), ratios="gradient")
    found = ratios.compare(target, jnp.zeros((1, 5), jnp.int8), jax.random.key(0), each=1.0)
    assert all(np.isnan(n) for n in (found.error, found.size, found.error_between, found.spread))
