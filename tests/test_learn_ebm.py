"""Networks, and energy-based models as targets."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale.learn import CNN, EBM, MLP, ResNet, base_of
from hopscale.learn.ebm import draw_base
from hopscale.learn.networks import Conv, Residual, by_name


def image(shape=(8, 8), seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.int8)


def plain_conv(conv, x):
    """The convolution by loops."""
    size, stride = conv.weight.shape[0], conv.stride
    border = size // 2
    padded = np.pad(x, ((border, border), (border, border), (0, 0)))
    height, width = (-(-n // stride) for n in x.shape[:2])
    out = np.zeros((height, width, conv.weight.shape[3]))
    for i in range(height):
        for j in range(width):
            patch = padded[i * stride : i * stride + size, j * stride : j * stride + size]
            out[i, j] = np.einsum("abc,abcd->d", patch, conv.weight) + conv.bias
    return out


@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (1, 2)])
def test_convolution_agrees_with_loops(size, stride):
    conv = Conv(2, 3, size, stride, key=jax.random.key(1))
    x = np.random.default_rng(2).normal(size=(5, 7, 2)).astype(np.float32)
    np.testing.assert_allclose(conv(jnp.asarray(x)), plain_conv(conv, x), rtol=1e-4, atol=1e-5)


def test_residual_block_adds_what_came_in():
    block = Residual(3, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (4, 4, 3))
    np.testing.assert_allclose(block(x), jax.nn.silu(x), rtol=1e-6)
    changed = eqx.tree_at(lambda b: b.second.bias, block, jnp.array([1.0, 2.0, 3.0]))
    shift = jnp.broadcast_to(jnp.array([1.0, 2.0, 3.0]), x.shape)
    np.testing.assert_allclose(changed(x), jax.nn.silu(x + shift), rtol=1e-6)


def test_an_untrained_resnet_tells_images_apart():
    x = jnp.asarray(np.stack([image(seed=seed) for seed in range(20)]), jnp.float32)
    energies = eqx.filter_jit(lambda network, x: jax.vmap(network)(x))(ResNet(8), x)
    assert 1e-3 < np.std(energies) < 1.0


def test_weights_start_by_hes_rule_or_uniform():
    he, uniform = (
        Conv(4, 300, key=jax.random.key(0), start=start).bias.std() for start in ("he", "uniform")
    )
    assert he == 0
    assert np.isclose(uniform, 1 / np.sqrt(36) / np.sqrt(3), rtol=0.1)
    weights = {
        start: Residual(3, key=jax.random.key(0), start=start).second.weight
        for start in ("he", "uniform")
    }
    assert not weights["he"].any()
    assert 0.9 < np.abs(weights["uniform"]).max() * np.sqrt(27) <= 1
    first = [Conv(4, 300, key=jax.random.key(0), start=start) for start in ("he", "uniform")]
    np.testing.assert_allclose(first[0].weight, np.sqrt(6) * first[1].weight, atol=1e-6)


def test_resnet_has_the_weights_of_the_literature():
    network = eqx.filter_eval_shape(ResNet, 64)
    conv, shortcut = 64 * 64 * 9 + 64, 64 * 64 + 64
    needed = (9 * 64 + 64) + 8 * 2 * conv + 2 * shortcut + 65
    assert sum(leaf.size for leaf in jax.tree.leaves(network)) == needed
    maps = eqx.filter_eval_shape(
        lambda n, x: n.blocks[1](n.blocks[0](n.enter(x))),
        network,
        jax.ShapeDtypeStruct((28, 28, 1), jnp.float32),
    )
    assert maps.shape == (7, 7, 64)


@pytest.mark.parametrize("name", ["resnet", "cnn", "mlp"])
def test_a_network_is_one_number_and_its_key_decides(name):
    x = jnp.asarray(image(), jnp.float32)
    energy = eqx.filter_jit(lambda network, x: network(x))
    a, b, c = (energy(by_name(name, (8, 8), 3, key), x) for key in (1, 1, 2))
    assert a.shape == ()
    assert a == b != c


def test_bfloat16_is_near_and_not_the_same():
    x = jnp.asarray(image(), jnp.float32)
    exact, rounded = (eqx.filter_jit(CNN(2, 0, kind))(x) for kind in ("highest", "bfloat16"))
    assert exact != rounded
    assert rounded.dtype == jnp.float32
    assert abs(exact - rounded) < 0.02


def test_log_prob_and_ratios_are_those_of_network_and_base():
    network, p = MLP((3, 2), 5, key=3), np.random.default_rng(1).uniform(0.1, 0.9, (3, 2))
    model, x = EBM(network, p), image((3, 2))
    base = np.sum(x * np.log(p) + (1 - x) * np.log1p(-p))
    log_prob, log_ratios = model.evaluate(x).log_prob, model.log_ratios(x)
    code = jnp.asarray(x, jnp.float32)
    assert np.isclose(log_prob, base - network(code), rtol=1e-5)
    slope = jax.grad(network)(code)
    needed = (1 - 2 * x) * (np.log(p) - np.log1p(-p) - np.asarray(slope))
    np.testing.assert_allclose(log_ratios, needed, rtol=1e-4, atol=1e-5)
    assert (model.shape, model.num_states, model.ratios) == ((3, 2), 2, "gradient")


def test_ratios_of_a_linear_network_are_exact():
    w = jnp.asarray(np.random.default_rng(4).normal(size=(2, 3)), jnp.float32)
    model, x = EBM(lambda x: jnp.sum(w * x), np.full((2, 3), 0.3)), image((2, 3))
    for i in range(6):
        flipped = x.reshape(-1).copy()
        flipped[i] ^= 1
        change = model.log_prob(flipped.reshape(2, 3)) - model.log_prob(x)
        assert np.isclose(model.log_ratios(x).reshape(-1)[i], change, atol=1e-5)


def test_lbp_leaves_a_model_invariant(x64):
    kernel, model = hs.LBP("sqrt"), EBM(MLP((2, 2), 6, key=1), np.array([[0.2, 0.5], [0.6, 0.9]]))
    pi = hs.check.probabilities(model)
    for scale in (1, 3):
        moved = pi @ hs.check.transition_matrix(model, kernel, scale)
        assert np.abs(moved - pi).max() < 1e-10


@pytest.mark.filterwarnings("ignore::hopscale.ConvergenceWarning")  # a short run
def test_a_model_can_be_sampled():
    model = EBM(MLP((2, 3), 4), np.full((2, 3), 0.4))
    run = hs.sample(
        model,
        hs.LBP("sqrt"),
        chains=20,
        warmup=50,
        draws=300,
        record={"ones": lambda state, info: jnp.sum(state.x)},
    )
    mean = hs.check.probabilities(model) @ hs.check.states(model).sum(axis=(1, 2))
    ones = run.statistics["ones"]
    assert abs(ones.mean - mean) < 5 * ones.error


def test_base_has_the_means_of_the_data_within_a_margin():
    data = np.zeros((10, 2, 2), np.int8)
    data[:5, 0, 0] = data[:, 1, 1] = 1
    np.testing.assert_allclose(base_of(data, 0.1).p, [[0.5, 0.1], [0.1, 0.9]], rtol=1e-6)
    np.testing.assert_array_equal(base_of(data.astype(np.uint8), 0.1).p, base_of(data, 0.1).p)
    grey = np.full((3, 2, 2), 51, np.uint8)
    np.testing.assert_allclose(base_of(grey, 0.1).p, np.full((2, 2), 0.1 + 0.8 * 0.2), rtol=1e-6)


def test_draws_of_the_base_have_its_means():
    p = np.array([0.1, 0.5, 0.95])
    x = draw_base(jax.random.key(0), hs.Bernoulli(p), 20_000)
    assert np.all(np.abs(np.mean(np.asarray(x), axis=0) - p) < 5 * np.sqrt(p * (1 - p) / 20_000))
