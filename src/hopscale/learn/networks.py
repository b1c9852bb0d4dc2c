"""Networks from an image of zeros and ones to one number, the energy f(x).

An energy-based model takes any callable of one image; these networks are from the literature. They
work on images of shape (height, width), with channels last, the order that convolutions on CPUs and
tensor cores take.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from hopscale import native, validate
from hopscale.native.cuda import residual
from hopscale.target import Preparable
from hopscale.validate import as_key, choice, count

Image = Float[Array, "height width"]
Maps = Float[Array, "height width channels"]

PRECISIONS = {
    "highest": jax.lax.Precision.HIGHEST,  # float32 throughout
    "default": jax.lax.Precision.DEFAULT,  # the device's own choice: TF32 on an NVIDIA GPU
    "bfloat16": jax.lax.Precision.DEFAULT,  # inputs and weights of the convolutions rounded
}

STARTS = ("he", "uniform")


class Conv(eqx.Module):
    r"""A convolution over one image with channels last and zeros beyond the border.

    With n inputs to a site, weights start uniform in $\pm \sqrt{6 / n}$ and biases at 0
    (`start="he"`), or both uniform in $\pm 1 / \sqrt n$ (`start="uniform"`).
    """

    weight: Float[Array, "size size inputs outputs"]
    bias: Float[Array, " outputs"]
    stride: int = eqx.field(static=True)
    precision: str = eqx.field(static=True)

    def __init__(self, inputs, outputs, size=3, stride=1, *, key, precision="default", start="he"):
        check_precision(precision)
        check_start(start)
        fan_in, he = size * size * inputs, start == "he"
        shape, bound = (size, size, inputs, outputs), math.sqrt((6 if he else 1) / fan_in)
        self.weight = jax.random.uniform(key, shape, minval=-bound, maxval=bound)
        self.bias = jnp.zeros(outputs)
        if not he:
            key_bias = jax.random.fold_in(key, 1)
            self.bias = jax.random.uniform(key_bias, (outputs,), minval=-bound, maxval=bound)
        self.stride, self.precision = stride, precision

    def __call__(self, x: Maps) -> Maps:
        weight, border = self.weight, self.weight.shape[0] // 2
        kind = jnp.bfloat16 if self.precision == "bfloat16" else x.dtype
        out = jax.lax.conv_general_dilated(
            x[None].astype(kind),
            weight.astype(kind),
            window_strides=(self.stride, self.stride),
            padding=[(border, border)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            precision=PRECISIONS[self.precision],
        )
        return out[0].astype(x.dtype) + self.bias[None, None]


class Residual(eqx.Module):
    r"""$x \mapsto s(\text{conv}(s(\text{conv}(x))) + \text{skip}(x))$, with s the swish.

    The skip is the identity, or a 1 x 1 convolution where the block halves the image. With
    `start="he"` the second convolution starts at 0, so that a deep network starts as a shallow
    one.
    """

    first: Conv
    second: Conv
    skip: Conv | None

    def __init__(self, channels: int, stride: int = 1, *, key, precision="default", start="he"):
        keys = jax.random.split(key, 3)
        how: Any = {"precision": precision, "start": start}
        self.first = Conv(channels, channels, 3, stride, key=keys[0], **how)
        self.second = Conv(channels, channels, key=keys[1], **how)
        if start == "he":
            self.second = eqx.tree_at(lambda conv: conv.weight, self.second, replace_fn=_zeros)
        self.skip = None
        if stride > 1:
            self.skip = Conv(channels, channels, 1, stride, key=keys[2], **how)

    def __call__(self, x: Maps) -> Maps:
        out = self.second(jax.nn.silu(self.first(x)))
        return jax.nn.silu(out + (x if self.skip is None else self.skip(x)))


def _zeros(array: Array) -> Array:
    return jnp.zeros_like(array)


class ResNet(Preparable):
    """The residual network of Grathwohl et al. (2021), which the paper trains.

    A 3 x 3 convolution, two residual blocks that halve the image, six that keep its size, the
    mean over space, and a linear map to one number.

    Args:
        channels: of every convolution; 64 in the paper.
        key: a seed or a JAX key for the weights.
        precision: of the convolutions: "default" (on an NVIDIA GPU, TF32), "highest" or
            "bfloat16", for which a Hopper GPU has a kernel if there are 64 channels and images are
            not larger than 28 x 28. Everything between convolutions is in single precision.
        start: how the convolutions' weights start: "he", by He's rule, with those that close a
            block at 0; or "uniform", as in the literature's code. An untrained network with
            "uniform" gives all images the same energy to four digits.
    """

    enter: Conv
    blocks: list[Residual]
    leave: eqx.nn.Linear
    packed: residual.Packed | None  # the weights in another order, within programs of many steps

    def __init__(
        self,
        channels: int = 64,
        key: int | Key[Array, ""] = 0,
        precision: str = "default",
        start: str = "he",
    ):
        count("channels", channels, minimum=1)
        keys = jax.random.split(as_key(key), 10)
        strides = (2, 2, 1, 1, 1, 1, 1, 1)
        self.enter = Conv(1, channels, key=keys[0], precision=precision, start=start)
        self.blocks = [
            Residual(channels, stride, key=one, precision=precision, start=start)
            for stride, one in zip(strides, keys[1:9], strict=True)
        ]
        self.leave = eqx.nn.Linear(channels, "scalar", key=keys[9])
        self.packed = None

    def __call__(self, x: Image) -> Float[Array, ""]:
        maps = self.enter(x[..., None])
        for block in self.blocks:
            maps = block(maps)
        return self.leave(jnp.mean(maps, axis=(0, 1)))

    def value_and_slope(self, x: Image) -> tuple[Float[Array, ""], Image]:
        """f(x) and its gradient with respect to x; in bfloat16, a GPU has a kernel for both."""
        packed = (self if self.packed is not None else self.prepared()).packed
        fits = residual.fits(self.channels, x.shape)
        if packed is not None and fits and residual.loads(*x.shape):
            return _value_and_slope(x, packed, _with_packed(self, None))
        return jax.value_and_grad(self)(x)

    def prepared(self) -> "ResNet":
        """This network with its weights also as a GPU's kernel reads them, where there is one."""
        usual = self.enter.precision == "bfloat16" and self.channels == residual.CHANNELS
        if not usual or not native.has_cuda():
            return self
        return _with_packed(self, residual.packed(self))

    @property
    def channels(self) -> int:
        return self.enter.weight.shape[-1]


def _with_packed(network: ResNet, packed: residual.Packed | None) -> ResNet:
    return eqx.tree_at(lambda net: net.packed, network, packed, is_leaf=lambda part: part is None)


@jax.custom_jvp
def _value_and_slope(x: Image, packed: residual.Packed, network: ResNet):
    """f(x) and its gradient, by the kernel where there is one."""
    return native.call("residual_pass", x, packed, network, plain=_plainly)


def _plainly(x: Image, packed: residual.Packed, network: ResNet):
    del packed
    return jax.value_and_grad(network.__call__)(x)


@_value_and_slope.defjvp
def _(primals, tangents):
    _, slopes = jax.jvp(_plainly, primals, tangents)  # kernels have no derivatives of their own
    return _value_and_slope(*primals), slopes


class CNN(eqx.Module):
    """Three convolutions (the last two halve the image), the mean over space, a linear map.

    Args:
        channels: of the first convolution; the others have twice as many.
        key: a seed or a JAX key for the weights.
        precision, start: as for `ResNet`.
    """

    convs: list[Conv]
    leave: eqx.nn.Linear

    def __init__(
        self,
        channels: int = 16,
        key: int | Key[Array, ""] = 0,
        precision: str = "default",
        start: str = "he",
    ):
        count("channels", channels, minimum=1)
        keys = jax.random.split(as_key(key), 4)
        sizes = ((1, channels, 1), (channels, 2 * channels, 2), (2 * channels, 2 * channels, 2))
        self.convs = [
            Conv(inputs, outputs, 3, stride, key=one, precision=precision, start=start)
            for (inputs, outputs, stride), one in zip(sizes, keys[:3], strict=True)
        ]
        self.leave = eqx.nn.Linear(2 * channels, "scalar", key=keys[3])

    def __call__(self, x: Image) -> Float[Array, ""]:
        maps = x[..., None]
        for conv in self.convs:
            maps = jax.nn.silu(conv(maps))
        return self.leave(jnp.mean(maps, axis=(0, 1)))


class MLP(eqx.Module):
    """Fully connected layers over all sites of a state, of any shape.

    Weights and biases start uniform in +-1 / sqrt(inputs), as in the literature's code.

    Args:
        shape: of a state.
        channels: the width of the hidden layers.
        key: a seed or a JAX key for the weights.
        depth: the number of hidden layers.
    """

    layers: eqx.nn.MLP

    def __init__(self, shape, channels: int = 64, key: int | Key[Array, ""] = 0, depth: int = 2):
        count("channels", channels, minimum=1)
        count("depth", depth, minimum=1)
        sites = math.prod(validate.shape(shape))
        self.layers = eqx.nn.MLP(
            sites, "scalar", channels, depth, activation=jax.nn.silu, key=as_key(key)
        )

    def __call__(self, x: Float[Array, "*shape"]) -> Float[Array, ""]:
        return self.layers(x.reshape(-1))


def by_name(
    name: str, shape, channels: int, key=0, precision: str = "default", start: str = "he"
) -> eqx.Module:
    """The network of this name for states of this shape; an mlp has only one start."""
    check_precision(precision)
    check_start(start)
    if name == "mlp":
        return MLP(shape, channels, key)
    if name not in ("resnet", "cnn"):
        raise ValueError(f"network must be resnet, cnn or mlp; got {name!r}.")
    if len(shape) != 2:
        raise ValueError(
            f"a {name} needs images, states of shape (height, width); got shape {tuple(shape)}. "
            "An mlp takes any shape."
        )
    return (ResNet if name == "resnet" else CNN)(channels, key, precision, start)


def fastest_precision(name: str, shape, channels: int) -> str:
    """`bfloat16` where a GPU has a kernel for this network, else `default`."""
    fits = name == "resnet" and residual.fits(channels, tuple(shape)) and native.has_cuda()
    return "bfloat16" if fits else "default"


def check_precision(precision: str) -> None:
    choice("precision", precision, PRECISIONS)


def check_start(start: str) -> None:
    choice("start", start, STARTS)
