"""A residual network's value and its gradient with respect to the image, in few launches.

XLA uses some ninety kernels for both, most of which run for less time than a launch takes. Here a
convolution and all that follows it are one kernel: 32 launches for a network of eight blocks.
"""

import jax.numpy as jnp

from hopscale.native.pallas.convolution import Term, convolve, swish, swish_slope


def residual_pass(image, network, *, interpret: bool = False):
    """f(x) and its gradient, of one image of shape (height, width).

    Products are taken in the network's precision and summed in single precision.
    """
    kind = jnp.bfloat16 if network.enter.precision == "bfloat16" else jnp.float32
    plan = _Plan(network, image.shape, kind, interpret)
    states = plan.forth(_entered(network.enter, image, kind))
    last, weight = states[-1][1], network.leave.weight.reshape(-1)
    last = last.reshape(-1, weight.size)
    energy = network.leave(jnp.mean(swish(last), axis=0))
    slope = jnp.ravel((weight / len(last))[None, :] * swish_slope(last))
    return energy, _left(network.enter, plan.back(states, slope), image.shape)


def _shifted(maps, tap: int):
    """(height, width) seen through a tap of a 3 x 3 convolution."""
    (height, width), (i, j) = maps.shape, divmod(tap, 3)
    return jnp.pad(maps, 1)[i : i + height, j : j + width]


def _entered(conv, image, kind):
    """The first convolution, which has one input: XLA's product of patches and weights."""
    patches = jnp.stack([_shifted(image, tap) for tap in range(9)], axis=-1)
    weight = conv.weight.reshape(9, -1).astype(kind)
    seen = jnp.matmul(
        patches.reshape(-1, 9).astype(kind), weight, preferred_element_type=jnp.float32
    )
    return (seen + conv.bias[None, :]).astype(kind)


def _left(conv, slope, shape):
    """The gradient with respect to the image, from that with respect to the first convolution."""
    weight = conv.weight.reshape(9, -1).astype(slope.dtype)
    by_tap = jnp.matmul(
        slope.reshape(-1, weight.shape[1]), weight.T, preferred_element_type=jnp.float32
    )
    maps = by_tap.T.reshape(9, *shape)
    return sum(_shifted(maps[tap], 8 - tap) for tap in range(9))


class _Plan:
    """The blocks of a network: the sizes of their images, and where their taps are."""

    def __init__(self, network, shape, kind, interpret: bool):
        self.blocks, self.kind, self.interpret = network.blocks, kind, interpret
        self.shapes, self.firsts, matrices, taps = [shape], [], [], 0
        for block in self.blocks:
            height, width = self.shapes[-1]
            stride = block.first.stride
            self.shapes.append((-(-height // stride), -(-width // stride)))
            self.firsts.append(taps)
            for conv in (block.first, block.second, block.skip):
                if conv is not None:
                    size, _, _, channels = conv.weight.shape
                    matrices.append(conv.weight.reshape(-1, channels, channels))
                    taps += size**2
        self.weight = jnp.concatenate(matrices).astype(kind)

    def _convolve(self, inputs, k: int, names: tuple[str, ...], *, back: bool = False, **more):
        """Some of the convolutions of block k, named "first", "second" and "skip"."""
        before, after = self.shapes[k : k + 2]
        stride = self.blocks[k].first.stride
        terms, firsts = [], []
        for name in names:
            shape, step = (after, 1) if name == "second" else (before, stride)
            given, size = after if back else shape, 1 if name == "skip" else 3
            terms.append(Term(*given, size=size, stride=step))
            firsts.append(self.firsts[k] + {"first": 0, "second": 9, "skip": 18}[name])
        shape = before if back and "first" in names else after
        where = jnp.asarray(firsts, jnp.int32), shape, tuple(terms)
        return convolve(
            tuple(inputs), self.weight, *where, back=back, interpret=self.interpret, **more
        )

    def forth(self, maps):
        """For each block, the inputs of its two swishes."""
        states, before = [], None
        for k, block in enumerate(self.blocks):
            middle, inner = self._convolve([maps], k, ("first",), bias=block.first.bias)
            if block.skip is None:
                more = {"bias": block.second.bias, "add": before, "added": "swish"}
                before, maps = self._convolve([inner], k, ("second",), **more)
            else:
                bias = block.second.bias + block.skip.bias
                before, maps = self._convolve([inner, maps], k, ("second", "skip"), bias=bias)
            states.append((middle, before))
        return states

    def back(self, states, slope):
        """The gradient with respect to what the first block was given."""
        rounded = slope.astype(self.kind)
        for k in reversed(range(len(self.blocks))):
            more: dict = {"back": True, "slope_at": states[k][0], "kept": False}
            _, inner = self._convolve([rounded], k, ("second",), **more)
            more["slope_at"] = states[k - 1][1] if k else None
            more["kept"] = k > 0 and self.blocks[k - 1].skip is None  # to be added there
            if self.blocks[k].skip is None:
                slope, rounded = self._convolve([inner], k, ("first",), add=slope, **more)
            else:
                slope, rounded = self._convolve([inner, rounded], k, ("first", "skip"), **more)
        return rounded
