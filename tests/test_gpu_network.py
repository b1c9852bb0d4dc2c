"""A residual network by the GPU's kernels against plain JAX: interpreted on any device."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest

import hopscale as hs
from hopscale.learn import EBM, ResNet
from hopscale.native.pallas import convolution, residual


def network(precision="default", channels=16):
    """No convolution is zero, and images have energies of their own."""
    start = ResNet(channels, 3, precision, "uniform")
    return jax.tree.map(lambda a: 2.0 * a, start)


def images(*shape, number=3):
    return jax.random.bernoulli(jax.random.key(2), 0.4, (number, *shape)).astype(jnp.float32)


@eqx.filter_jit
def by_kernels(net, x):
    return jax.vmap(partial(residual.residual_pass, network=net, interpret=True))(x)


@eqx.filter_jit
def by_jax(net, x):
    return jax.vmap(jax.value_and_grad(net))(x)


@pytest.mark.parametrize("shape", [(12, 12), (13, 9), (5, 6), (1, 1)])
def test_value_and_slope(shape):
    net, x = network(), images(*shape)
    energy, slope = by_kernels(net, x)
    expected, slopes = by_jax(net, x)
    np.testing.assert_allclose(energy, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, slopes, rtol=1e-4, atol=1e-6 * np.abs(slopes).max())


def test_pixels_beyond_a_program(monkeypatch):
    monkeypatch.setattr(convolution, "ROWS", 16)
    jax.clear_caches()
    net, x = network(), images(12, 10)
    found, expected = by_kernels(net, x), by_jax(net, x)
    jax.clear_caches()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6 * np.abs(b).max())


def test_rounding_is_that_of_the_precision():
    """In bfloat16 kernels are as near to full precision as XLA is, and no nearer than can be."""
    net, x = network("bfloat16"), images(12, 12, number=16)
    exact = by_jax(network("highest"), x)
    errors = [
        [
            float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b))
            for a, b in zip(found, exact, strict=True)
        ]
        for found in (by_kernels(net, x), by_jax(net, x))
    ]
    assert errors[0][0] < 2 * errors[1][0] + 1e-6
    assert 1e-4 < errors[0][1] < 2 * errors[1][1]


@pytest.mark.parametrize("which", ["second", "skip", "bias"])
def test_every_part_counts(which):
    """A network with one part changed is told apart."""
    net, x = network(), images(8, 8)
    block = {"second": 5, "skip": 0, "bias": 3}[which]
    name = {"second": "second", "skip": "skip", "bias": "first"}[which]
    leaf = "bias" if which == "bias" else "weight"
    changed = eqx.tree_at(
        lambda n: getattr(getattr(n.blocks[block], name), leaf), net, replace_fn=lambda a: 1.5 * a
    )
    assert not np.allclose(by_kernels(changed, x)[1], by_kernels(net, x)[1], rtol=1e-3)
    np.testing.assert_allclose(
        by_kernels(changed, x)[1], by_jax(changed, x)[1], rtol=1e-3, atol=1e-6
    )


def test_a_model_asks_its_network():
    """A network with a way of its own to value and slope is asked for it."""

    class Known(eqx.Module):
        weight: jax.Array

        def __call__(self, x):
            return jnp.sum(self.weight * x)

        def value_and_slope(self, x):
            return self(x) + 1.0, 2.0 * self.weight

    weight = jnp.asarray([1.0, -2.0, 0.5])
    model = EBM(Known(weight), hs.Bernoulli(jnp.full(3, 0.5)))
    found = model.evaluate(jnp.asarray([1, 0, 1], jnp.int8))
    np.testing.assert_allclose(found.log_prob, 3 * np.log(0.5) - 2.5, rtol=1e-6)
    assert found.log_ratios is not None
    np.testing.assert_allclose(found.log_ratios, [2.0, 4.0, 1.0], rtol=1e-6)


# Later versions compile while they lower, which needs the CUDA plugin.
@pytest.mark.skipif(
    jaxlib.version.__version_info__ >= (0, 11),
    reason="this version of JAX lowers for CUDA only where there is a GPU",
)
def test_lowers_for_cuda(monkeypatch):
    from jax._src.pallas.triton import lowering

    lower, modules = lowering.lower_jaxpr_to_triton_module, []

    def verified(*args, **settings):
        result = lower(*args, **settings)
        assert result.module.operation.verify()
        modules.append(result)
        return result

    monkeypatch.setattr(lowering, "lower_jaxpr_to_triton_module", verified)
    net = ResNet(64, 0, "bfloat16", "uniform")
    passes = jax.jit(jax.vmap(partial(residual.residual_pass, network=net)))
    traced = passes.trace(jnp.zeros((4, 28, 28))).lower(lowering_platforms=("cuda",))
    assert traced.as_text().count("triton") >= 1
    assert len(modules) == 12  # of 32 launches: those that differ in their weights alone are one


@pytest.mark.parametrize("value", [3, jnp.ones(2)])
def test_an_attribute_of_that_name_is_no_method(value):
    class Named(eqx.Module):
        value_and_slope: object

        def __call__(self, x):
            return jnp.sum(x)

    model = EBM(Named(value), hs.Bernoulli(jnp.full(3, 0.5)))
    found = model.evaluate(jnp.asarray([1, 0, 1], jnp.int8))
    np.testing.assert_allclose(found.log_prob, 3 * np.log(0.5) - 2.0, rtol=1e-6)


def test_a_slope_of_another_shape_is_refused():
    class Wrong(eqx.Module):
        def __call__(self, x):
            return jnp.sum(x)

        def value_and_slope(self, x):
            return jnp.sum(x), jnp.ones(2)

    with pytest.raises(ValueError, match=r"gradient, of shape \(3,\)"):
        EBM(Wrong(), hs.Bernoulli(jnp.full(3, 0.5)))


def test_derivatives_are_those_of_plain_jax():
    """Kernels have none: what a loss of one's own differentiates is the formula."""
    net, x = network("bfloat16"), images(8, 8)[0]

    def of(pass_):
        return jax.grad(lambda weights: jnp.sum(pass_(weights, x)[1] ** 2))(net)

    found = of(lambda net, x: net.value_and_slope(x))
    expected = of(lambda net, x: jax.value_and_grad(net.__call__)(x))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-9)
    assert any(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(found))
