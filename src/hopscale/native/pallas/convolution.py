"""Convolutions over one image, channels last, each fused with all that follows up to the next one.

A program computes some pixels of the output, with all their channels. Patches are not copied: for
each tap, the rows of the input that it sees are loaded and multiplied by a matrix. The backward
pass, the gradient with respect to the input, is the same with matrices transposed. If it leads to
an image of twice the side, pixels are taken by their parity, so that no tap is computed that sees
nothing.
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from hopscale.native.pallas import parts

ROWS = 128  # pixels of a program, at most
FEWEST_ROWS = 16  # the fewest that can be multiplied
WARP_ROWS = 16  # pixels for every warp
STAGES = 3  # taps in flight: the inputs of the next ones are loaded meanwhile


class Term(NamedTuple):
    """One convolution of a sum."""

    height: int  # of its input
    width: int
    size: int  # 3 for 3 x 3
    stride: int

    def offset(self, tap, back: bool):
        """By how many rows and columns a tap is offset from a pixel, not counting strides."""
        down = lax.div(tap, jnp.int32(self.size)) - self.size // 2
        right = lax.rem(tap, jnp.int32(self.size)) - self.size // 2
        return (-down, -right) if back else (down, right)

    def seen_from(self, phase: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
        """Backward, with strides: taps that see something from pixels of a parity, with offsets."""
        for tap in range(self.size**2):
            down = phase[0] + self.size // 2 - tap // self.size
            right = phase[1] + self.size // 2 - tap % self.size
            if down % self.stride == 0 and right % self.stride == 0:
                yield tap, down // self.stride, right // self.stride


class Layer(NamedTuple):
    """What is fixed when a kernel is compiled."""

    height: int  # of the output
    width: int
    channels: int
    terms: tuple[Term, ...]
    back: bool  # the gradient with respect to the input
    has_bias: bool
    added: str  # "": nothing is added; "as it is"; "swish" of it
    has_slope: bool  # times the derivative of the swish there
    kept: bool  # whether the result is given in single precision too

    @property
    def phases(self) -> int:
        """The step in which rows and columns of the output are taken: one parity at a time."""
        return self.terms[0].stride if self.back else 1

    @property
    def pixels(self) -> tuple[int, int]:
        """Rows and columns of one parity, at most."""
        return -(-self.height // self.phases), -(-self.width // self.phases)

    @property
    def tiles(self) -> int:
        """The number of programs."""
        return -(-self.pixels[0] * self.pixels[1] // ROWS)

    @property
    def own(self) -> int:
        """Pixels of one parity that a program computes: an even share."""
        return -(-self.pixels[0] * self.pixels[1] // self.tiles)

    @property
    def rows(self) -> int:
        """The same, rounded up to a number that kernels take."""
        return max(FEWEST_ROWS, pl.next_power_of_2(self.own))


def swish(x):
    return x / (1.0 + jnp.exp(-x))


def swish_slope(x):
    sigmoid = 1.0 / (1.0 + jnp.exp(-x))
    return sigmoid * (1.0 + x * (1.0 - sigmoid))


def _convolve(*refs, layer: Layer):
    """One program: some pixels of each parity."""
    given, results = refs[: -1 - layer.kept], refs[-1 - layer.kept :]
    first_ref, weight_ref, *given = given
    inputs, given = given[: len(layer.terms)], given[len(layer.terms) :]
    inputs = [(x_ref, first_ref[k]) for k, x_ref in enumerate(inputs)]
    height, width = layer.pixels
    place, before = lax.iota(jnp.int32, layer.rows), pl.program_id(0) * layer.own
    here = (place < layer.own) & (before + place < height * width)
    place = before + place
    pixel = lax.div(place, jnp.int32(width)), lax.rem(place, jnp.int32(width)), here
    for row in range(layer.phases):
        for column in range(layer.phases):
            _some_pixels(layer, (row, column), pixel, inputs, weight_ref, given, results)


def _some_pixels(layer: Layer, phase, pixel, inputs, weight_ref, given, results):
    """Pixels of one parity: convolved, finished, stored."""
    row, column, here = pixel
    channel = lax.iota(jnp.int32, layer.channels)
    total = jnp.zeros((row.size, layer.channels), jnp.float32)
    for (x_ref, first), term in zip(inputs, layer.terms, strict=True):

        def add(tap, offset, total, x_ref=x_ref, first=first, term=term):
            seen = _seen(x_ref, term, offset, pixel, layer)
            weight = _matrix(weight_ref, first + tap, layer)
            return total + jnp.dot(seen, weight, preferred_element_type=jnp.float32)

        if layer.phases > 1:
            for tap, *offset in term.seen_from(phase):
                total = add(tap, offset, total)
        else:  # a loop, so that the compiler loads ahead

            def turn(tap, total, add=add, term=term):
                return add(tap, term.offset(tap, layer.back), total)

            total = lax.fori_loop(jnp.int32(0), jnp.int32(term.size**2), turn, total)
    row, column = row * layer.phases + phase[0], column * layer.phases + phase[1]
    mask = _both(here & (row < layer.height) & (column < layer.width), layer.channels)
    at = (row * layer.width + column)[:, None] * layer.channels + channel[None, :]
    for value in _finished(layer, total, at, mask, channel, iter(given)):
        ref, *results = results
        parts.store(ref, at, value.astype(ref.dtype), mask)


def _seen(x_ref, term: Term, offset, pixel, layer: Layer):
    """What one tap of a convolution sees: a row of channels for each pixel."""
    row, column, here = pixel
    step, size = 1 if layer.back else term.stride, layer.channels
    row, column = row * step + offset[0], column * step + offset[1]
    inside = here & (row >= 0) & (row < term.height) & (column >= 0) & (column < term.width)
    at = jnp.where(inside, row * term.width + column, 0)[:, None] * size
    return parts.load(x_ref, at + lax.iota(jnp.int32, size)[None, :], _both(inside, size), 0.0)


def _matrix(weight_ref, number, layer: Layer):
    """The matrix of a tap; backward, transposed."""
    size, channel = layer.channels, lax.iota(jnp.int32, layer.channels)
    down, right = (1, size) if layer.back else (size, 1)
    at = channel[:, None] * down + channel[None, :] * right
    return parts.load(weight_ref, number * (size * size) + at)


def _finished(layer: Layer, total, at, mask, channel, given) -> Iterator[Any]:
    """Everything after the products: forward, the swish; backward, its derivative."""
    if layer.has_bias:
        total = total + parts.load(next(given), channel)[None, :]
    if layer.added:
        value = parts.load(next(given), at, mask, 0.0)
        total = total + (swish(value) if layer.added == "swish" else value)
    if layer.has_slope:
        total = total * swish_slope(parts.load(next(given), at, mask, 0.0))
    if layer.kept:
        yield total
    yield total if layer.back else swish(total)


def _both(mask, channels: int):
    """A mask of pixels, for all channels."""
    return jnp.broadcast_to(mask[:, None], (mask.size, channels))


@functools.partial(
    jax.jit, static_argnames=("shape", "terms", "back", "added", "kept", "interpret")
)
def convolve(
    inputs, weight, firsts, shape, terms, *, back=False, bias=None, add=None, added="as it is",
    slope_at=None, kept=True, interpret=False,
):  # fmt: skip
    """A sum of convolutions, and what follows it.

    Forward: h = sum of convolutions + bias + added; returns h and its swish. Backward: (sum of
    transposed convolutions + added) times the derivative of the swish; returns that twice. The
    first result is in single precision. The second is in the precision of the inputs, which is also
    that of the products.

    Args:
        inputs: for each term, (pixels, channels), or the same flattened.
        weight: (taps, channels, channels) of a whole network, in the inputs' precision.
        firsts: for each term, the number of its first tap. An array, so that layers that differ
            in nothing else are compiled once.
        shape: height and width of the output.
        terms: the convolution of each input.
        add: (pixels, channels) of the output; `added` says how.
        slope_at: where the derivative is taken, of the same shape.
        kept: whether the first result is wanted; else None.
    """
    channels = weight.shape[-1]
    layer = Layer(
        height=shape[0],
        width=shape[1],
        channels=channels,
        terms=terms,
        back=back,
        has_bias=bias is not None,
        added="" if add is None else added,
        has_slope=slope_at is not None,
        kept=kept,
    )
    size, kind = shape[0] * shape[1] * channels, inputs[0].dtype
    first = [jax.ShapeDtypeStruct((size,), jnp.float32)] if kept else []
    call = pl.pallas_call(
        functools.partial(_convolve, layer=layer),
        grid=(layer.tiles,),
        out_shape=[*first, jax.ShapeDtypeStruct((size,), kind)],
        compiler_params=plgpu.CompilerParams(num_warps=layer.rows // WARP_ROWS, num_stages=STAGES),
        interpret=interpret,
    )
    more = [array for array in (bias, add, slope_at) if array is not None]
    results = call(firsts, *map(jnp.ravel, [weight, *inputs, *more]))
    return results if kept else (None, results[0])
