"""A residual network's weights in the order in which its kernel, `residual.cu`, reads them."""

import functools
import warnings
from itertools import chain
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, BFloat16, Float

from hopscale.native import cuda

CHANNELS = 64
BLOCKS = 8
PER_TAP = 10  # features: nine bits, and whether they are inside
FEATURES = 128  # with zeros
TILE = 64  # pixels, with a line of zeros after each row and after the last


def fits(channels: int, shape: tuple[int, ...]) -> bool:
    """Whether the kernel is for networks of so many channels and images of this shape."""
    if channels != CHANNELS or len(shape) != 2:
        return False
    height, width = (-(-side // 4) for side in shape)
    return width < 15 and (height + 1) * (width + 1) <= TILE


@functools.cache
def loads(height: int, width: int) -> bool:
    """Whether the kernel for images of this size can be used; a warning says why if not."""
    try:
        cuda.residual_pass_bytes(height, width)
    except cuda.UnavailableError as error:
        warnings.warn(
            f"the CUDA kernel for residual networks cannot be used, so XLA computes them, more "
            f"slowly: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


class Packed(NamedTuple):
    """A network's weights as the kernel reads them."""

    stream: BFloat16[Array, "blocks 8 64 8"]
    vectors: Float[Array, "rows 64"]


def packed(network, dtype=jnp.bfloat16) -> Packed:
    """The weights of a network; the kernel takes them in bfloat16 only."""
    return Packed(stream=_stream(network).astype(dtype), vectors=_vectors(network))


def residual_pass(image, weights: Packed, network=None):
    """f(x) and its gradient, of one image."""
    del network  # for implementations that take it as it is
    height, width = image.shape
    size = cuda.residual_pass_bytes(height, width)
    outputs = (
        jax.ShapeDtypeStruct((), jnp.float32),
        jax.ShapeDtypeStruct((height, width), jnp.float32),
        jax.ShapeDtypeStruct((size,), jnp.uint8),
    )
    call = jax.ffi.ffi_call("hopscale.ResidualPass", outputs, vmap_method="expand_dims")
    energy, gradient, _ = call(image, *weights)
    return energy, gradient


def _stream(network):
    """All weights, forwards and then backwards, in blocks of 64 inputs x 64 outputs.

    The first convolution is multiplied into the two that follow it; their inputs are features.
    """
    first, second, *others = network.blocks
    entering, skipping = _through_first(network.enter, first.first, first.skip)
    forth = [_blocks(entering), _blocks(skipping[:CHANNELS]), _forward(first.second)]
    forth += [_forward(second.first), _forward(second.skip), _forward(second.second)]
    forth += chain(*([_forward(block.first), _forward(block.second)] for block in others))
    back = list(chain(*([_backward(b.second), _backward(b.first)] for b in reversed(others))))
    back += [_backward(second.second), _backward(second.first, flip=False), _backward(second.skip)]
    back += [_backward(first.second)]
    back += [_blocks(part.T) for part in (*jnp.split(entering, 2), skipping[:CHANNELS])]
    return jnp.concatenate(forth + back)


def _vectors(network):
    """The biases of all blocks; the last layer's weights, and its bias."""
    rows = []
    for block in network.blocks:
        skip = 0.0 if block.skip is None else block.skip.bias
        rows += [block.first.bias, block.second.bias + skip]
    leave = network.leave.weight.reshape(-1)
    rows += [leave, jnp.full_like(leave, network.leave.bias)]
    return jnp.stack(rows).astype(jnp.float32)


def _blocks(matrix):
    """(inputs, 64 outputs) in blocks: for each 8 inputs, the outputs side by side."""
    parts = matrix.reshape(-1, CHANNELS // 8, 8, matrix.shape[-1])
    return jnp.swapaxes(parts, -1, -2)


def _forward(conv):
    return _blocks(conv.weight.reshape(-1, CHANNELS))


def _backward(conv, flip: bool = True):
    """The transposed convolution: every tap's matrix, the last tap first."""
    taps = conv.weight.reshape(-1, CHANNELS, CHANNELS)
    return _blocks(jnp.swapaxes(taps[::-1] if flip else taps, 1, 2).reshape(-1, CHANNELS))


def _through_first(enter, first, skip):
    """The matrices from features to the outputs of the two convolutions after the first."""
    bits = enter.weight.reshape(9, CHANNELS)
    bits = jnp.concatenate([bits, enter.bias[None]])
    taps = first.weight.reshape(9, CHANNELS, CHANNELS)
    precise = jax.lax.Precision.HIGHEST
    entering = jnp.einsum("ti,pio->pto", bits, taps, precision=precise)
    skipping = jnp.matmul(bits, skip.weight.reshape(CHANNELS, CHANNELS), precision=precise)
    center = np.arange(PER_TAP) + 4 * PER_TAP
    return (
        jnp.zeros((FEATURES, CHANNELS)).at[: 9 * PER_TAP].set(entering.reshape(-1, CHANNELS)),
        jnp.zeros((FEATURES, CHANNELS)).at[center].set(skipping),
    )
