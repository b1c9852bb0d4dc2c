"""A move: which sites change, and to what."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

State = Int[Array, "*shape"]


class Choice(NamedTuple):
    """Sites in the order they were chosen (the first `length` count), and who was chosen at all."""

    sites: Int[Array, " n"]
    chosen: Bool[Array, " n"]
    length: Int[Array, ""]


class Move(NamedTuple):
    """The sites drawn, those of them that change, and (for more than two values) to what."""

    choice: Choice
    moved: Bool[Array, " n"]
    values: Int[Array, " n"] | None


def apply(x: State, move: Move) -> State:
    """The state a move leads to."""
    moved = move.moved.reshape(x.shape)
    if move.values is None:
        return x ^ moved.astype(x.dtype)
    return jnp.where(moved, move.values.reshape(x.shape).astype(x.dtype), x)


def reverse(x: State, move: Move) -> Move:
    """The move that returns to x."""
    values = None if move.values is None else x.reshape(-1)
    return Move(choice=move.choice, moved=move.moved, values=values)
