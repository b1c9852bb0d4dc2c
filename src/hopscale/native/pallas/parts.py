"""The building blocks of the kernels: random bits, memory, loops over sites."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

TOGETHER = 4  # tiles


def threefry(key, count):
    """Threefry-2x32, 20 rounds, of (0, count)."""
    keys = *key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA)
    y = jnp.asarray(count).astype(jnp.uint32) + keys[1]
    x = jnp.broadcast_to(keys[0], y.shape)
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn))) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def random_bits(key, count):
    """The 32 bits that `jax.random.bits` has at each index."""
    x, y = threefry(key, count)
    return x ^ y


def fold_in(key, data):
    """`jax.random.fold_in`, for keys as pairs of words."""
    return threefry(key, data)


def unit(bits):
    """The middle of each of 2^32 parts of the unit interval."""
    return (bits.astype(jnp.float32) + 0.5) * 2.0**-32


def uniform_number(bits):
    """The same, below 1."""
    return jnp.minimum(unit(bits), 1.0 - 2.0**-24)


def high_product(a, b):
    """The upper 32 bits of a product of 32-bit words."""
    mask, half = np.uint32(0xFFFF), np.uint32(16)
    low, high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    middle = high * b_low + ((low * b_low) >> half)
    return high * b_high + (middle >> half) + ((low * b_high + (middle & mask)) >> half)


def log_add(a, b):
    """log(exp(a) + exp(b))."""
    most, least = jnp.maximum(a, b), jnp.minimum(a, b)
    return jnp.where(least > -jnp.inf, most + jnp.log1p(jnp.exp(least - most)), most)


def over_tiles(size, tile, body, initial, together=TOGETHER):
    """Fold `body(at, value)` over the places below `size`, a tile at a time.

    `at` may lie beyond `size`. A few tiles are taken together, so that the loads of one do not
    wait for those of another.
    """
    tiles = -(-size // tile)
    together = min(together, tiles)

    def some(turn, value):
        for number in range(together):
            value = body((turn * together + number) * tile + lax.iota(jnp.int32, tile), value)
        return value

    if tiles == together:
        return some(np.int32(0), initial)
    return lax.fori_loop(np.int32(0), np.int32(-(-tiles // together)), some, initial)


def share(programs, size, block, body, initial):
    """Fold `body(start, value)` over this program's share of the blocks of `size` items."""
    program = pl.program_id(0)

    def step(index, value):
        return body((program + index * programs) * block, value)

    blocks = ceil_div(size, block)
    return lax.fori_loop(np.int32(0), ceil_div(blocks - program, programs), step, initial)


def ceil_div(a, b):
    """a / b rounded up, for a above -b."""
    return lax.div(a + (b - 1), jnp.int32(b))


def load(ref, at, mask=None, other=None):
    return plgpu.load(ref.at[at], mask=mask, other=other)


def store(ref, at, value, mask):
    plgpu.store(ref.at[at], value, mask=mask)


def scatter(ref, at, value, mask):
    """Store to places in any order; those outside the mask may coincide with some inside it.

    The compiler distributes places that it knows to be contiguous over threads differently from
    scattered ones. Converting between the two costs more than contiguity gains. Kernels that
    scatter therefore read and write contiguous arrays this way too.
    """
    store(ref, jnp.where(mask, at, ref.shape[0]), value, mask)
