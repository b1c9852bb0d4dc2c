"""The replay buffer: chains that persist while the model learns.

An iteration takes a batch of chains, moves them and puts them back.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from hopscale.learn.ebm import draw_base
from hopscale.target import State
from hopscale.targets import Bernoulli


def take(
    key: Key[Array, ""], buffer: State, base: Bernoulli, number: int, restart: float
) -> tuple[Int[Array, " number"], State]:
    """Take `number` different chains, each restarted from the base with probability `restart`.

    The chains are neighbours in the buffer, beginning at a random one and wrapping around at the
    end. Each is taken equally often, and choosing them needs no sort of the buffer.

    Returns:
        Their slots and their states.
    """
    key_slot, key_restart, key_base = jax.random.split(key, 3)
    first = jax.random.randint(key_slot, (), 0, len(buffer))
    slots = (first + jnp.arange(number)) % len(buffer)
    x = buffer[slots]
    if restart:
        restarted = jax.random.bernoulli(key_restart, restart, (number,))
        restarted = restarted.reshape(-1, *[1] * (x.ndim - 1))
        x = jnp.where(restarted, draw_base(key_base, base, number), x)
    return slots, x


def put(buffer: State, slots: Int[Array, " number"], x: State) -> State:
    """The buffer with the present states of these chains."""
    return buffer.at[slots].set(x, unique_indices=True)


def draw_batch(key: Key[Array, ""], data: Array, number: int) -> State:
    """`number` states of the data, drawn with replacement; grey levels become bits each time."""
    key_rows, key_bits = jax.random.split(key)
    chosen = data[jax.random.randint(key_rows, (number,), 0, len(data))]
    if data.dtype == jnp.uint8:
        threshold = jax.random.randint(key_bits, chosen.shape, 0, 255)
        chosen = chosen.astype(threshold.dtype) > threshold
    return chosen.astype(jnp.int8)
