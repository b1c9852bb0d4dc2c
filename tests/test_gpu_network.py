"""The GPU's kernel for residual networks, as far as that can be tested without a GPU.

`tiles.py` does in NumPy what the kernel does, from the weights that the kernel reads. The kernel
itself is compiled here; `benchmarks/gpu_check.py` compares what it computes.
"""

import ctypes

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest

import hopscale as hs
from hopscale import native
from hopscale.engine import loop
from hopscale.learn import EBM, ResNet
from hopscale.native import cuda, gpu
from hopscale.native.cuda import residual
from tiles import Tiles

SIZES = [(28, 28), (27, 26), (13, 9), (3, 28), (5, 6), (1, 1)]


def network(precision="highest"):
    """No convolution is zero, and images have energies of their own."""
    start = ResNet(64, 3, precision, "uniform")
    return jax.tree.map(lambda a: 2.0 * a, start)


def image(*shape):
    return jax.random.bernoulli(jax.random.key(2), 0.4, shape).astype(jnp.float32)


def by_tiles(net, x, dtype=jnp.float32):
    weights = residual.packed(net, dtype)
    return Tiles(weights.stream, weights.vectors, x).run()


by_jax = eqx.filter_jit(lambda net, x: jax.value_and_grad(net)(x))


def distance(a, b) -> float:
    return float(np.linalg.norm(np.asarray(a) - np.asarray(b)) / np.linalg.norm(np.asarray(b)))


@pytest.mark.parametrize("shape", SIZES)
def test_tiles_are_the_network(shape):
    net, x = network(), image(*shape)
    energy, slope = by_tiles(net, x)
    expected, slopes = by_jax(net, x)
    assert residual.fits(64, shape)
    assert distance(energy, expected) < 1e-5
    assert distance(slope, slopes) < 1e-4


def test_rounded_weights_are_near():
    net, x = network(), image(28, 28)
    error = distance(by_tiles(net, x, jnp.bfloat16)[1], by_jax(net, x)[1])
    assert 1e-4 < error < 0.02


@pytest.mark.parametrize("which", ["second", "skip", "bias"])
def test_every_part_counts(which):
    """A network with one part changed is told apart."""
    net, x = network(), image(9, 8)
    block = {"second": 5, "skip": 0, "bias": 3}[which]
    name = {"second": "second", "skip": "skip", "bias": "first"}[which]
    leaf = "bias" if which == "bias" else "weight"
    changed = eqx.tree_at(
        lambda n: getattr(getattr(n.blocks[block], name), leaf), net, replace_fn=lambda a: 1.5 * a
    )
    assert distance(by_tiles(changed, x)[1], by_jax(net, x)[1]) > 1e-3
    assert distance(by_tiles(changed, x)[1], by_jax(changed, x)[1]) < 1e-4


def test_weights_in_another_order_are_found_out():
    net, x = network(), image(9, 8)
    weights = residual.packed(net, jnp.float32)
    order = np.arange(len(weights.stream))
    order[[100, 101]] = 101, 100
    _, slope = Tiles(weights.stream[order], weights.vectors, x).run()
    assert distance(slope, by_jax(net, x)[1]) > 1e-3


@pytest.mark.parametrize(
    ("channels", "shape", "fits"),
    [(64, (28, 28), True), (32, (28, 28), False), (64, (29, 28), False), (64, (4, 60), False)],
)
def test_sizes_that_fit(channels, shape, fits):
    assert residual.fits(channels, shape) == fits


def compiler_or_skip():
    try:
        return cuda._compilers()[0]
    except cuda.UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("shape", [(28, 28), (1, 1), (3, 28)])
def test_the_kernel_compiles(shape):
    compiler = compiler_or_skip()
    source = (cuda.FOLDER / "residual.cu").read_text()
    sizes = dict(zip(("HEIGHT", "WIDTH"), shape, strict=True))
    assert cuda.compiled(source, "sm_90a", compiler, **sizes, **cuda.TUNING)[:4] == b"\x7fELF"


def test_a_size_that_does_not_fit_is_an_error_of_the_compiler():
    compiler = compiler_or_skip()
    source = (cuda.FOLDER / "residual.cu").read_text()
    with pytest.raises(cuda.UnavailableError, match="the image is too large"):
        cuda.compiled(source, "sm_90a", compiler, HEIGHT=29, WIDTH=28, **cuda.TUNING)


def launcher_or_skip():
    try:
        return cuda._library()
    except cuda.UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="there is a GPU")
def test_without_a_gpu_nothing_is_loaded():
    """The launcher can be loaded anywhere; asked for a kernel, it says what is missing."""
    library, text = launcher_or_skip(), ctypes.create_string_buffer(100)
    devices = (ctypes.c_int * 1)(0)
    assert library.hopscale_load_residual_pass(b"no kernel", 28, 28, devices, 1, text, 100) == 0
    assert text.value
    assert not cuda.ready()[0]
    assert not native.has_cuda()
    assert network("bfloat16").prepared().packed is None


@pytest.mark.parametrize(
    ("images", "weights", "vectors", "batch"),
    [
        ((), (), (), ()),
        ((5,), (1,), (1,), (5,)),
        ((1,), (5,), (5,), (5,)),
        ((1, 7), (3, 1), (3, 1), (3, 7)),
        ((3, 1), (1, 7), (1, 7), (3, 7)),
        ((2, 3, 7), (2, 3, 1), (2, 3, 1), (2, 3, 7)),
        ((5, 1, 4), (1, 2, 1), (1, 2, 1), (5, 2, 4)),
        ((3, 4), (1, 1), (3, 1), (3, 4)),  # only vectors differ
        ((3, 4), (3, 1), (1, 1), (3, 4)),  # only weights differ
        ((2, 1, 3, 1), (1, 4, 1, 5), (2, 4, 1, 5), (2, 4, 3, 5)),
    ],
)
def test_operands_of_a_batch_are_found(images, weights, vectors, batch):
    """Images and parts of models may be mapped over separately; what is shared is not copied."""
    library, numbers = launcher_or_skip(), (ctypes.c_uint * 16)()
    shapes = [(ctypes.c_int64 * len(s))(*s) for s in (images, weights, vectors, batch)]
    each = library.hopscale_batch(*shapes, ctypes.c_size_t(len(batch)), numbers)
    size, *strides = np.asarray(numbers).reshape(4, 4)
    index, places = np.arange(np.prod(batch, dtype=int)), []
    for stride in strides:
        rest, place = index, np.zeros_like(index)
        for axis in range(4):
            place, rest = place + rest % size[axis] * stride[axis], rest // size[axis]
        places.append(place)
    for place, shape in zip(places, (images, weights, vectors), strict=True):
        own = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        assert np.array_equal(place, np.broadcast_to(own, batch).ravel())
    groups = places[1].reshape(-1, each)
    assert np.all(groups == groups[:, :1])


def test_a_batch_with_too_many_axes_is_refused():
    library, numbers = launcher_or_skip(), (ctypes.c_uint * 16)()
    alternating = (2, 1, 2, 1, 2)
    shapes = [
        (ctypes.c_int64 * 5)(*s) for s in ((1, 2, 1, 2, 1), alternating, alternating, [2] * 5)
    ]
    assert library.hopscale_batch(*shapes, ctypes.c_size_t(5), numbers) == 0


@pytest.fixture
def pretended(monkeypatch):
    """As on a machine with a GPU that has the kernel."""
    monkeypatch.setattr(native, "has_cuda", lambda: True)
    monkeypatch.setattr(cuda, "residual_pass_bytes", lambda height, width: 1024)
    residual.loads.cache_clear()
    yield
    residual.loads.cache_clear()


# Later versions compile while they lower, which needs the CUDA plugin.
@pytest.mark.skipif(
    jaxlib.version.__version_info__ >= (0, 11),
    reason="this version of JAX lowers for CUDA only where there is a GPU",
)
def test_a_walk_orders_weights_once(pretended, monkeypatch):
    """In a program of many steps, weights are packed before the loop and read in it."""
    monkeypatch.setattr(native, "_has_accelerator", lambda: True)
    monkeypatch.setattr(gpu, "ready", lambda: (True, ""))
    model = EBM(network("bfloat16"), hs.Bernoulli(jnp.full((28, 28), 0.3)))
    x = jnp.zeros((4, 28, 28), jnp.int8)

    def passes(model, x):
        model = loop.prepared(model)
        once = jax.vmap(lambda y: model.evaluate(y).log_prob)
        return jax.lax.fori_loop(0, 3, lambda _, y: y.at[:, 0, 0].set(once(y) > 0), x)

    traced = jax.jit(passes).trace(model, x)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    (call,) = [line for line in text.splitlines() if "hopscale.ResidualPass" in line]
    assert "tensor<4x28x28xf32>" in call
    assert "tensor<1x278x8x64x8xbf16>" in call
    before, _, inside = text.partition("stablehlo.while")
    makes = "-> tensor<278x8x64x8xbf16>"
    assert makes in before
    assert makes not in inside


def test_only_what_says_so_is_prepared(pretended):
    """Wherever a network is in a target; a method of that name alone means nothing."""

    class Around(eqx.Module):
        inner: ResNet

        def __call__(self, x):
            return self.inner(x) + jnp.sum(self.inner.enter.bias)

        def prepared(self, x):
            return x

    model = EBM(Around(network("bfloat16")), hs.Bernoulli(jnp.full((8, 8), 0.3)))
    ready = loop.prepared(model)
    assert isinstance(model.network, Around)
    assert isinstance(ready.network, Around)
    assert ready.network.inner.packed is not None
    assert ready.log_prob(jnp.zeros((8, 8), jnp.int8)).shape == ()
    assert model.network.inner.packed is None


def test_a_kernel_that_cannot_be_loaded_is_left_to_xla_with_a_warning(pretended, monkeypatch):
    def fails(height, width):
        raise cuda.UnavailableError("out of memory")

    monkeypatch.setattr(cuda, "residual_pass_bytes", fails)
    net, x = network("bfloat16"), image(8, 8)
    assert net.prepared().packed is not None
    with pytest.warns(RuntimeWarning, match="more slowly: out of memory"):
        found = net.value_and_slope(x)
    assert distance(found[1], by_jax(net, x)[1]) < 0.02


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
    net, x = network("bfloat16"), image(8, 8)

    def of(pass_):
        return jax.grad(lambda weights: jnp.sum(pass_(weights, x)[1] ** 2))(net)

    found = of(lambda net, x: net.value_and_slope(x))
    expected = of(lambda net, x: jax.value_and_grad(net.__call__)(x))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-9)
    assert any(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(found))
