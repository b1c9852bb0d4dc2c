"""Moves: which sites change, and to which values."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

State = Int[Array, "*shape"]


class Choice(NamedTuple):
    """A choice of sites, in the order in which they were chosen.

    Attributes:
        sites: indices of sites, of which the first `length` count.
        chosen: whether each site was chosen at all.
        length: how many choices were made.
    """

    sites: Int[Array, " n"]
    chosen: Bool[Array, " n"]
    length: Int[Array, ""]


class Move(NamedTuple):
    """A change of some of the sites drawn.

    Attributes:
        choice: the sites drawn.
        moved: whether each site changes.
        values: the new values, which count only at sites that change; None for bits, which flip.
    """

    choice: Choice
    moved: Bool[Array, " n"]
    values: Int[Array, " n"] | None


def apply(x: State, move: Move) -> State:
    """The state after a move."""
    moved = move.moved.reshape(x.shape)
    if move.values is None:
        return x ^ moved.astype(x.dtype)
    return jnp.where(moved, move.values.reshape(x.shape).astype(x.dtype), x)


def reverse(x: State, move: Move) -> Move:
    """The move that returns to x."""
    values = None if move.values is None else x.reshape(-1)
    return Move(choice=move.choice, moved=move.moved, values=values)
