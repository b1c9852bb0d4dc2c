"""The GPU's kernel for residual networks, as far as that can be tested without a GPU.

Its source is compiled for a GPU, and compiled for and run on the CPU (`emulated.py`). Whether a GPU
does the same is what `benchmarks/gpu_check.py` tells.
"""

import ctypes

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest

import hopscale as hs
from emulated import Emulated, describe
from hopscale import native
from hopscale.engine import loop
from hopscale.learn import EBM, ResNet
from hopscale.native import cuda, gpu
from hopscale.native.cuda import residual


def network(precision="highest", seed=3):
    """No convolution is zero, and images have energies of their own."""
    start = ResNet(64, seed, precision, "uniform")
    return jax.tree.map(lambda a: 2.0 * a, start)


def exact_network(seed=3):
    """A network whose weights, as the kernel takes them, are all exact in bfloat16."""
    net = jax.tree.map(lambda a: a.astype(jnp.bfloat16).astype(jnp.float32), network(seed=seed))
    random = np.random.default_rng(seed)
    first = net.blocks[0]
    # Each channel sees one bit, so that a product with the next convolution has few terms.
    bits = np.zeros((10, 64))
    bits[np.arange(64) % 10, np.arange(64)] = random.choice([-0.5, -0.25, 0.25, 0.5], 64)
    parts = (
        random.integers(-3, 4, first.first.weight.shape) / 16,
        random.integers(-3, 4, first.skip.weight.shape) / 16,
        bits[:9].reshape(net.enter.weight.shape),
        bits[9],
    )

    def where(n):
        return n.blocks[0].first.weight, n.blocks[0].skip.weight, n.enter.weight, n.enter.bias

    return eqx.tree_at(where, net, tuple(jnp.asarray(part, jnp.float32) for part in parts))


def image(*shape):
    return jax.random.bernoulli(jax.random.key(2), 0.4, shape).astype(jnp.float32)


by_jax = eqx.filter_jit(lambda net, x: jax.value_and_grad(net)(x))
each_by_jax = eqx.filter_jit(lambda net, x: jax.vmap(jax.value_and_grad(net))(x))


def distance(a, b) -> float:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def assert_alike(found, expected):
    """But for slopes in half precision, what the kernel computes in its wide form is exact."""
    for a, b, tolerance in zip(found, expected, (1e-5, 2e-3), strict=True):
        assert distance(a, b) < tolerance


def test_weights_that_are_exact_in_bfloat16():
    net = exact_network()
    stream = residual.packed(net, jnp.float32).stream
    assert bool(jnp.all(residual.packed(net).stream.astype(jnp.float32) == stream))


@pytest.mark.parametrize("shape", [(28, 28), (27, 26), (13, 9), (3, 28), (1, 1)])
def test_the_kernel_is_the_network(shape, tmp_path):
    """Three images, so that a cluster has one of them twice."""
    net, x = exact_network(), image(3, *shape)
    assert residual.fits(64, shape)
    kernel = Emulated(tmp_path, shape)
    for seed in range(2):
        assert_alike(kernel(x, residual.packed(net), seed), each_by_jax(net, x))


def test_images_and_models_are_mapped_over_separately(tmp_path):
    nets = [exact_network(seed) for seed in (3, 4)]
    x = image(3, 5, 6)
    packed = jax.tree.map(lambda *a: jnp.stack(a), *map(residual.packed, nets))
    kernel = Emulated(tmp_path, (5, 6))
    expected = [each_by_jax(net, x) for net in nets]
    outer = kernel(x[None], jax.tree.map(lambda a: a[:, None], packed))
    inner = kernel(x[:, None], jax.tree.map(lambda a: a[None], packed))
    for i in range(2):
        assert_alike([a[i] for a in outer], expected[i])
        assert_alike([a[:, i] for a in inner], expected[i])


def test_rounded_numbers_are_near(tmp_path):
    net, x = network(), image(2, 28, 28)
    _, slope = Emulated(tmp_path, (28, 28), wide=False)(x, residual.packed(net))
    assert 1e-4 < distance(slope, each_by_jax(net, x)[1]) < 0.02


BROKEN = {
    "a tap reads from another row": (
        "const int shift = (tap / 3 - 1) * PITCH + tap % 3 - 1;",
        "const int shift = (tap / 3 - 1) * PITCH + tap % 3;",
    ),
    "weights are freed while they are used": (
        "wait<1>();\n    if (tap > 0) stream.release(1);",
        "wait<1>();\n    stream.release(0);",
    ),
    "nobody waits for products": ("wait<0>();\n  stream.release(0);", "stream.release(0);"),
    "nobody waits for the last block's maps": (
        "slopes_of(7 + 2 * block));\n    meet();",
        "slopes_of(7 + 2 * block));",
    ),
    "nobody waits for features": (
        "features(maps_b, bits, thread);\n  meet();",
        "features(maps_b, bits, thread);",
    ),
    "features make room while they are read": (
        "meet();  // all have read the features, which make room",
        "",
    ),
    "a member alone frees weights": (
        "WORKERS / 32 * CLUSTER);",
        "WORKERS / 32);",
    ),
    "a gradient is added to what was there": (
        "multiply(rest, shifted(maps_b, phase, 0, 0), MAP_GROUP, high, false);",
        "multiply(rest, shifted(maps_b, phase, 0, 0), MAP_GROUP, high, phase > 0);",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_kernel_is_found_out(what, tmp_path):
    """For some order in which threads take turns."""
    net, x = exact_network(), image(2, 5, 6)
    kernel, weights = Emulated(tmp_path, (5, 6), changes=[BROKEN[what]]), residual.packed(net)
    expected = each_by_jax(net, x)
    for seed in range(5):
        try:
            assert_alike(kernel(x, weights, seed), expected)
        except (AssertionError, RuntimeError):
            return
    pytest.fail("taken for right")


def test_weights_in_another_order_are_found_out(tmp_path):
    net, x = exact_network(), image(1, 5, 6)
    weights = residual.packed(net)
    order = np.arange(len(weights.stream))
    order[[100, 101]] = 101, 100
    swapped = weights._replace(stream=weights.stream[order])
    _, slope = Emulated(tmp_path, (5, 6))(x, swapped)
    assert distance(slope, each_by_jax(net, x)[1]) > 5e-3


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
    each, numbers = describe(images, weights, vectors, batch)
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
    alternating = (2, 1, 2, 1, 2)
    each, _ = describe((1, 2, 1, 2, 1), alternating, alternating, (2,) * 5)
    assert each == 0


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
