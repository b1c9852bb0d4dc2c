"""Swaps of ones and zeros, which keep the number of ones."""

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from hopscale import balance as balancing
from hopscale import select
from hopscale.kernels import grouped
from hopscale.kernels.kernel import ChainState, ScaleRange
from hopscale.kernels.metropolis import Metropolis
from hopscale.move import Choice, Move, State
from hopscale.select import Weights
from hopscale.target import Target


class Swap(Metropolis):
    r"""Swap R ones with R zeros; the number of ones in each group of sites never changes.

    With weights $w_i(x) = g(\pi(x^{(i)}) / \pi(x))$ as for `LBP`, ones $i_1, \dots, i_R$ are drawn
    one after the other by weight among all ones. For each $i_r$ a zero $j_r$ is drawn likewise,
    among the zeros of its group:

    $$q(u \mid x) = \prod_r \frac{w_{i_r}}{\sum_{i:\, x_i = 1} w_i - \sum_{s < r} w_{i_s}} \cdot
      \frac{w_{j_r}}{\sum_{j:\, x_j = 0,\, j \sim i_r} w_j - \sum_{s < r,\, j_s \sim i_r} w_{j_s}}$$

    The way back draws the pairs in reverse order. The product $g(t_i)\, g(t_j)$ takes the place of
    the weight of a pair, whose own ratio is not computed; the acceptance step corrects for this.
    With g = sqrt the choice does not depend on how much the density favours ones overall, which is
    irrelevant if the sum is fixed.

    Chains must start with the sums that they are to keep. Give `ones` to start from random states
    with these sums, or pass such states as `init`.

    Args:
        groups: a label for each site, of the target's shape. Sites with the same label form a group
            whose ones are counted. None: all sites form one group.
        ones: the number of ones in each group: one number for all, one for each group in the order
            of labels, or a dictionary {label: number}. None: as in the starting states.
        balance: the balancing function g, as for `LBP`. None draws pairs uniformly, without
            log-ratios. Use None if the density is zero for all other sums: each single change
            leads to such a state.
    """

    groups: Int[Array, " n"] | None = None
    ones: tuple[int, ...] | None = eqx.field(static=True, default=None)
    balance: str | balancing.LogBalance | None = eqx.field(static=True, default="sqrt")
    sizes: tuple[int, ...] | None = eqx.field(static=True, default=None, repr=False)  # of groups

    name: ClassVar[str] = "swap"
    replacement: ClassVar[bool] = False

    def __init__(
        self,
        groups: Any = None,
        ones: Any = None,
        balance: str | balancing.LogBalance | None = "sqrt",
        *,
        lengths: str = "mixed",
        implementation: str = "auto",
    ):
        if isinstance(ones, Mapping):
            ones = _by_label(ones, groups)
        self.groups = None if groups is None else _labels(groups)
        self.sizes = None
        if self.groups is not None:
            self.sizes = tuple(np.bincount(np.asarray(self.groups)).tolist())
        self.ones = None if ones is None else _counts(ones, len(self.sizes or (1,)))
        self.balance = None if balance is None else balancing.by_name(balance)
        self.lengths, self.implementation = lengths, implementation

    def __check_init__(self):
        if self.balance is not None:
            balancing.resolve(self.balance)

    @property
    def informed(self) -> bool:  # type: ignore[override]
        return self.balance is not None

    # -- Where chains start. ----------------------------------------------------------------------

    def check(self, target: Target) -> None:
        if target.num_states != 2:
            raise TypeError(
                f"hs.Swap() keeps the number of ones of bits; this target has {target.num_states} "
                "values a site. Use hs.LBP() there."
            )
        if self.groups is not None and self.groups.size != target.num_sites:
            raise ValueError(
                f"groups must have a label for each of {target.num_sites} sites; got "
                f"{self.groups.size}."
            )
        if self.ones is None:
            return
        sizes = self._sizes(target)
        if np.any(np.asarray(self.ones) > sizes) or min(self.ones) < 0:
            raise ValueError(
                f"ones must lie between 0 and the number of sites of its group, {sizes.tolist()}; "
                f"got {list(self.ones)}."
            )

    def starts(self, key: Key[Array, ""], target: Target, chains: int) -> State:
        if self.ones is None:
            raise ValueError(
                "hs.Swap() keeps the number of ones that chains start with: say how many, "
                "hs.Swap(ones=k), or pass starting states, init=."
            )
        labels, ones = jnp.asarray(self._labels(target)), jnp.asarray(self.ones)
        first = jnp.asarray(np.concatenate([[0], np.cumsum(self._sizes(target))[:-1]]))

        def one(key):
            order = jnp.lexsort((jax.random.uniform(key, labels.shape), labels))
            place = jnp.zeros_like(order).at[order].set(jnp.arange(order.size))
            return place - first[labels] < ones[labels]

        x = jax.vmap(one)(jax.random.split(key, chains))
        return x.reshape(chains, *target.shape).astype(target.state_dtype)

    def check_starts(self, target: Target, x: np.ndarray) -> None:
        labels = self._labels(target)
        flat = x.reshape(len(x), -1)
        found = np.stack([np.bincount(labels, weights=row) for row in flat]).astype(int)
        needed = np.asarray(self.ones) if self.ones is not None else found[0]
        other = np.flatnonzero(np.any(found != needed, axis=1))
        of = "" if self.groups is None else ", by group"
        if other.size:
            which = int(other[0])
            raise ValueError(
                f"chains must start with {needed.tolist()} ones{of}, which swaps keep; chain "
                f"{which} starts with {found[which].tolist()}. Change init, or leave it out and "
                "give hs.Swap(ones=k)."
            )
        sizes = self._sizes(target)
        if np.all((needed == 0) | (needed == sizes)):
            raise ValueError(
                f"there is nothing to swap: starting states have {needed.tolist()} ones{of}, "
                f"all or none of {sizes.tolist()} sites."
            )

    def _labels(self, target: Target) -> np.ndarray:
        if self.groups is None:
            return np.zeros(target.num_sites, int)
        return np.asarray(self.groups)

    def _sizes(self, target: Target) -> np.ndarray:
        return np.asarray(self.sizes or (target.num_sites,))

    # -- Steps. -----------------------------------------------------------------------------------

    def scale_range(self, target: Target) -> ScaleRange:
        """The range of the number of pairs, tuned up to that of a fresh draw with the same sums."""
        high, fresh = target.num_sites // 2, target.num_sites / 4
        if self.ones is not None:
            ones, sizes = np.asarray(self.ones), self._sizes(target)
            high = int(np.minimum(ones, sizes - ones).sum())
            fresh = float(np.sum(ones * (sizes - ones) / sizes))
        high = max(high, 1)
        return ScaleRange(
            unit="pairs",
            low=1.0,
            high=float(high),
            tuned_high=float(np.clip(fresh, 1.0, high)),
            start=1.0,
            rate=0.234 if self.balance is None else 0.574,
        )

    def choose(self, key, target: Target, state: ChainState, length):
        key_ones, key_zeros = jax.random.split(key)
        n, is_one = target.num_sites, state.x.reshape(-1) == 1
        length = jnp.minimum(length, _most_pairs(is_one))
        choice, log_ones = select.race(
            key_ones, self._weights(state, is_one), length, implementation=self.implementation
        )
        zeros = self._weights(state, ~is_one)
        if self.groups is None:
            partners, log_zeros = select.race(
                key_zeros, zeros, length, implementation=self.implementation
            )
            chosen = choice.chosen | partners.chosen
            sites = jnp.stack([choice.sites, partners.sites], axis=1).reshape(-1)[:n]
            both = Choice(sites=sites, chosen=chosen, length=2 * length)
            return Move(choice=both, moved=chosen, values=None), log_ones + log_zeros
        log_weights = balancing.apply(zeros.balance, zeros.values)
        drawn = grouped.partners(key_zeros, log_weights, ~is_one, self.groups, choice)
        move = _move(jnp.stack([choice.sites, drawn], axis=1), length, n)
        return move, self.score(target, state, move, way_back=False)

    def score(self, target: Target, state: ChainState, move: Move, way_back: bool):
        n, flat = target.num_sites, state.x.reshape(-1)
        length, is_one = move.choice.length // 2, flat == 1
        pairs = move.choice.sites[: n // 2 * 2].reshape(-1, 2)
        pairs = jnp.pad(pairs, ((0, n - len(pairs)), (0, 0)))
        first = is_one[pairs[0, 0]]  # at x the first site of each pair is its one, at y its zero
        ones = jnp.where(first, pairs[:, 0], pairs[:, 1])
        zeros = jnp.where(first, pairs[:, 1], pairs[:, 0])

        def order(weights, sites, counted):
            choice = Choice(sites=sites, chosen=move.moved & counted, length=length)
            return select.order_log_prob(
                weights, choice, way_back, implementation=self.implementation
            )

        log_ones = order(self._weights(state, is_one), ones, is_one)
        weights = self._weights(state, ~is_one)
        if self.groups is None:
            return log_ones + order(weights, zeros, ~is_one)
        log_weights = balancing.apply(weights.balance, weights.values)
        log_zeros = grouped.order_log_prob(log_weights, zeros, length, self.groups, way_back)
        apart = (self.groups[ones] != self.groups[zeros]) & (jnp.arange(n) < length)
        return jnp.where(jnp.any(apart), -jnp.inf, log_ones + log_zeros)

    def _weights(self, state: ChainState, counted) -> Weights:
        """The weights of the sites counted, ones or zeros; other sites have weight 0."""
        ratios = state.log_ratios
        if self.balance is None or ratios is None:
            values = jnp.zeros(counted.shape, state.log_prob.dtype)
            return Weights(jnp.where(counted, values, -jnp.inf), balance=None)
        return Weights(jnp.where(counted, ratios.reshape(-1), -jnp.inf), self.balance)

    # -- By enumeration. --------------------------------------------------------------------------

    def transitions(self, target: Target, x: State, scale):
        """Every sequence of pairs that could be drawn, evaluated by the functions of a step."""
        state, n = self.init(target, x), target.num_sites
        is_one = x.reshape(-1) == 1
        labels = jnp.zeros(n, jnp.int32) if self.groups is None else self.groups
        most, pairs = _most_pairs(is_one), n // 2
        shares = self.length_probabilities(scale, pairs)
        # A step that is longer than the number of pairs is cut to that number.
        shares = jnp.append(jnp.cumsum(shares[::-1])[::-1], 0.0)
        sequences, lengths = _pair_sequences(n)

        def follow(sequence, length):
            counted = jnp.arange(pairs) < length
            one, zero = sequence[:, 0], sequence[:, 1]
            fits = is_one[one] & ~is_one[zero] & (labels[one] == labels[zero])
            move = _move(jnp.pad(sequence, ((0, n - pairs), (0, 0))), length, n)
            y, prob = self.followed(target, state, move)
            last = length == most
            share = jnp.where(last, shares[length - 1], shares[length - 1] - shares[length])
            taken = jnp.all(fits | ~counted) & (length <= most)
            return y, jnp.where(taken, share * prob, 0.0)

        return jax.vmap(follow)(sequences, lengths)


def _most_pairs(is_one) -> Int[Array, ""]:
    ones = jnp.sum(is_one, dtype=jnp.int32)
    return jnp.minimum(ones, is_one.size - ones)


def _move(pairs: Int[Array, "n 2"], length, n: int) -> Move:
    """The move that swaps the first `length` pairs: their sites one after the other."""
    sites = pairs.reshape(-1)[:n].astype(jnp.int32)
    choice = select.listed(sites, 2 * length)
    return Move(choice=choice, moved=choice.chosen, values=None)


def _pair_sequences(n: int) -> tuple[Array, Array]:
    """Every sequence of 1 to n // 2 pairs of different sites, padded, and how many pairs each."""
    padded, lengths = [], []
    for length in range(1, n // 2 + 1):
        for path in itertools.permutations(range(n), 2 * length):
            rest = tuple(set(range(n)) - set(path))
            padded.append(np.reshape((*path, *rest)[: n // 2 * 2], (-1, 2)))
            lengths.append(length)
    return jnp.asarray(np.array(padded), jnp.int32), jnp.asarray(lengths, jnp.int32)


def _labels(groups: Any) -> Int[Array, " n"]:
    """Labels as numbers 0, 1, ... in the order of labels."""
    given = np.asarray(groups)
    if given.size == 0 or given.dtype.kind not in "iubUS":
        raise TypeError(f"groups must be a label for each site, integers; got {groups!r:.80}.")
    return jnp.asarray(np.unique(given, return_inverse=True)[1].reshape(-1), jnp.int32)


def _by_label(ones: Mapping, groups: Any) -> list[Any]:
    """The numbers of a dictionary, in the order of labels."""
    labels = [] if groups is None else np.unique(np.asarray(groups)).tolist()
    if set(ones) != set(labels):
        raise ValueError(
            f"ones must have a number for each label of groups, {labels!r:.80}; got {ones!r:.80}."
        )
    return [ones[label] for label in labels]


def _counts(ones: Any, groups: int) -> tuple[int, ...]:
    given = np.asarray(ones)
    if not np.issubdtype(given.dtype, np.integer) or given.shape not in ((), (groups,)):
        raise ValueError(
            f"ones must be an integer, or one for each of {groups} groups; got {ones!r}."
        )
    return tuple(int(k) for k in np.broadcast_to(given, (groups,)))
