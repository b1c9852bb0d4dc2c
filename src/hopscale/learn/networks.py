"""Networks from an image of zeros and ones to one number, the energy f(x).

An energy-based model takes any callable of one image; these are the ones of the literature. They
work on images of shape (height, width), with channels last, which is the order that convolutions
on CPUs and tensor cores take.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from hopscale import validate
from hopscale.validate import as_key, choice, count

Image = Float[Array, "height width"]
Maps = Float[Array, "height width channels"]

PRECISIONS = {
    "highest": jax.lax.Precision.HIGHEST,  # float32 throughout
    "default": jax.lax.Precision.DEFAULT,  # the device's own choice: TF32 on an NVIDIA GPU
    "bfloat16": jax.lax.Precision.DEFAULT,  # inputs and weights of the convolutions rounded
}


class Conv(eqx.Module):
    """A convolution over one image with channels last, zero beyond the border.

    Weights start by He's rule, with variance 2 / (inputs of a site), and biases at 0.
    """

    weight: Float[Array, "size size inputs outputs"]
    bias: Float[Array, " outputs"]
    stride: int = eqx.field(static=True)
    precision: str = eqx.field(static=True)

    def __init__(self, inputs, outputs, size=3, stride=1, *, key, precision="default"):
        check_precision(precision)
        bound = math.sqrt(6 / (size * size * inputs))
        shape = (size, size, inputs, outputs)
        self.weight = jax.random.uniform(key, shape, minval=-bound, maxval=bound)
        self.bias = jnp.zeros(outputs)
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

    The skip is the identity, or a 1 x 1 convolution where the block halves the image. The second
    convolution starts at 0, so that a deep network is a shallow one at first.
    """

    first: Conv
    second: Conv
    skip: Conv | None

    def __init__(self, channels: int, stride: int = 1, *, key, precision="default"):
        keys = jax.random.split(key, 3)
        self.first = Conv(channels, channels, 3, stride, key=keys[0], precision=precision)
        second = Conv(channels, channels, key=keys[1], precision=precision)
        self.second = eqx.tree_at(lambda conv: conv.weight, second, replace_fn=jnp.zeros_like)
        self.skip = None
        if stride > 1:
            self.skip = Conv(channels, channels, 1, stride, key=keys[2], precision=precision)

    def __call__(self, x: Maps) -> Maps:
        out = self.second(jax.nn.silu(self.first(x)))
        return jax.nn.silu(out + (x if self.skip is None else self.skip(x)))


class ResNet(eqx.Module):
    """The residual network of Grathwohl et al. (2021), which the paper trains.

    A 3 x 3 convolution, two residual blocks that halve the image, six that keep it, the mean over
    space, and a linear map to one number.

    Its first weights are not those of the literature's code, whose network, untrained, gives all
    images the same energy to four digits; see `Conv` and `Residual`.

    Args:
        channels: of every convolution; 64 in the paper.
        key: a seed or a JAX key for the weights.
        precision: of the convolutions: "default" (on an NVIDIA GPU, TF32), "highest" or
            "bfloat16". Everything between convolutions is in single precision.
    """

    enter: Conv
    blocks: list[Residual]
    leave: eqx.nn.Linear

    def __init__(self, channels: int = 64, key: int | Key[Array, ""] = 0, precision="default"):
        count("channels", channels, least=1)
        keys = jax.random.split(as_key(key), 10)
        strides = (2, 2, 1, 1, 1, 1, 1, 1)
        self.enter = Conv(1, channels, key=keys[0], precision=precision)
        self.blocks = [
            Residual(channels, stride, key=one, precision=precision)
            for stride, one in zip(strides, keys[1:9], strict=True)
        ]
        self.leave = eqx.nn.Linear(channels, "scalar", key=keys[9])

    def __call__(self, x: Image) -> Float[Array, ""]:
        maps = self.enter(x[..., None])
        for block in self.blocks:
            maps = block(maps)
        return self.leave(jnp.mean(maps, axis=(0, 1)))


class CNN(eqx.Module):
    """Three convolutions (the last two halve the image), the mean over space, a linear map.

    Args:
        channels: of the first convolution; twice as many in the others.
        key: a seed or a JAX key for the weights.
        precision: as for `ResNet`.
    """

    convs: list[Conv]
    leave: eqx.nn.Linear

    def __init__(self, channels: int = 16, key: int | Key[Array, ""] = 0, precision="default"):
        count("channels", channels, least=1)
        keys = jax.random.split(as_key(key), 4)
        sizes = ((1, channels, 1), (channels, 2 * channels, 2), (2 * channels, 2 * channels, 2))
        self.convs = [
            Conv(inputs, outputs, 3, stride, key=one, precision=precision)
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

    Args:
        shape: of a state.
        channels: the width of the hidden layers.
        key: a seed or a JAX key for the weights.
        depth: how many hidden layers.
    """

    layers: eqx.nn.MLP

    def __init__(self, shape, channels: int = 64, key: int | Key[Array, ""] = 0, depth: int = 2):
        count("channels", channels, least=1)
        count("depth", depth, least=1)
        sites = math.prod(validate.shape(shape))
        self.layers = eqx.nn.MLP(
            sites, "scalar", channels, depth, activation=jax.nn.silu, key=as_key(key)
        )

    def __call__(self, x: Float[Array, "*shape"]) -> Float[Array, ""]:
        return self.layers(x.reshape(-1))


def by_name(name: str, shape, channels: int, key=0, precision: str = "default") -> eqx.Module:
    """The network of that name for states of that shape."""
    check_precision(precision)
    if name == "mlp":
        return MLP(shape, channels, key)
    if name not in ("resnet", "cnn"):
        raise ValueError(f"network must be resnet, cnn or mlp; got {name!r}.")
    if len(shape) != 2:
        raise ValueError(
            f"a {name} needs images, states of shape (height, width); got shape {tuple(shape)}. "
            "An mlp takes any shape."
        )
    return (ResNet if name == "resnet" else CNN)(channels, key, precision)


def check_precision(precision: str) -> None:
    choice("precision", precision, PRECISIONS)
