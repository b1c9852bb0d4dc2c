"""Sweeps: all sites of a target are drawn in turn, each given the others.

A target that knows more than its log-probability implements `target.sweep()`: the sites that can
be drawn at once, and an operation that draws them. Other targets are swept by evaluating them, one
site after the other.
"""

import abc
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from hopscale import native
from hopscale.graphs.graph import Graph
from hopscale.move import Choice, Move, State, apply
from hopscale.native.sweeps import flip_chance, neighbour_sums, value_chances
from hopscale.target import Evaluation, Target
from hopscale.targets.neighbours import is_defined, with_undefined

KEEP = 1 - 1 / 200  # the largest acceptance probability of a Metropolis step


class Rule(eqx.Module):
    """How a site is drawn, how many sweeps are made, and by which implementation."""

    metropolis: bool = eqx.field(static=True, default=False)
    sweeps: int = eqx.field(static=True, default=1)
    implementation: str = eqx.field(static=True, default="auto")

    @property
    def settings(self):
        return {"metropolis": self.metropolis, "keep": KEEP}


class Sweep(eqx.Module):
    """The order in which the sites of a target are drawn, and how they are drawn."""

    blocks: eqx.AbstractVar[Int[Array, "blocks size"]]

    @abc.abstractmethod
    def begin(self, x: State) -> Evaluation:
        """The evaluation that a chain carries along, at x."""

    @abc.abstractmethod
    def draw(
        self, key: Key[Array, ""], x: State, evaluation: Evaluation, rule: Rule
    ) -> tuple[State, Evaluation]:
        """The state after the sweeps, and its evaluation."""

    @abc.abstractmethod
    def chances(self, x: State, rule: Rule) -> Float[Array, "n values"]:
        """For every site, the probability of each value if the site is drawn at x."""

    def in_order(self) -> "Sweep":
        """The same sweep, but one site after the other."""
        n = self.num_sites
        return eqx.tree_at(lambda s: s.blocks, self, jnp.arange(n, dtype=jnp.int32)[:, None])

    @property
    @abc.abstractmethod
    def num_sites(self) -> int: ...


class PairSweep(Sweep):
    """Sites with pairwise terms, drawn block by block by an operation of `native`.

    All terms have a common factor, the inverse temperature beta.
    """

    target: eqx.AbstractVar[Target]
    graph: eqx.AbstractVar[Graph]
    beta: eqx.AbstractVar[Float[Array, ""]]

    @property
    def num_sites(self) -> int:
        return self.graph.num_sites

    def at(self, beta: Float[Array, ""]) -> "PairSweep":
        """The same sweep at another inverse temperature."""
        return eqx.tree_at(lambda s: s.beta, self, beta)

    def begin(self, x: State) -> Evaluation:
        return Evaluation(log_prob=self.target._log_prob(x), log_ratios=None)

    def draw(self, key, x: State, evaluation: Evaluation, rule: Rule):
        y, gain = self.moved(key, x, self.blocks, rule)
        return y, Evaluation(log_prob=evaluation.log_prob + gain, log_ratios=None)

    def moved(self, key, x: State, blocks, rule: Rule) -> tuple[State, Float[Array, ""]]:
        """The state after the sweeps, and the gain of the log-probability at beta = 1."""
        name, terms = self.operation()
        graph = self.graph
        y, gain = native.call(
            name,
            key,
            x.reshape(-1),
            *terms,
            blocks,
            graph.start,
            graph.neighbour,
            graph.weight,
            implementation=rule.implementation,
            degree=graph.degree,
            sweeps=rule.sweeps,
            **rule.settings,
        )
        return y.reshape(x.shape), gain

    @abc.abstractmethod
    def operation(self) -> tuple[str, tuple[Array, ...]]:
        """The name of the operation, and its arguments between the state and the graph."""

    def sums(self, values: Array) -> Float[Array, "n ..."]:
        """The sum over each site's neighbours of coupling times value."""
        graph, sites = self.graph, jnp.arange(self.num_sites)
        around = (graph.start, graph.neighbour, graph.weight, graph.degree)
        return neighbour_sums(sites, values, *around)


class SpinSweep(PairSweep):
    r"""Bits x whose spins s = 2x - 1 have pairwise terms.

    $$\log \pi(x) = \beta \Big(\sum_{(i,j)} J_{ij} s_i s_j + \sum_i h_i s_i\Big)
      + \gamma \sum_i b_i s_i + \text{const}$$

    The term with $\gamma$ is added by the base of a tempered target.
    """

    target: Target
    graph: Graph
    field: Float[Array, " n"]
    blocks: Int[Array, "blocks size"]
    beta: Float[Array, ""]
    gamma: Float[Array, ""]
    base: Float[Array, " n"]

    def __init__(self, target: Target, graph: Graph, field, beta=None, gamma=None, base=None):
        dtype = field.dtype
        self.target, self.graph, self.field = target, graph, field
        self.blocks = graph.blocks
        self.beta = jnp.ones((), dtype) if beta is None else beta
        self.gamma = jnp.zeros((), dtype) if gamma is None else gamma
        self.base = field if base is None else base

    def operation(self):
        return "spin_sweeps", (self.beta, self.gamma, self.field, self.base)

    def chances(self, x: State, rule: Rule):
        bits = x.reshape(-1)
        s = (2 * bits - 1).astype(self.field.dtype)
        drive = self.beta * (self.field + self.sums(s)) + self.gamma * self.base
        flip = flip_chance(2.0 * s * drive, **rule.settings)
        one = jnp.where(bits == 1, 1.0 - flip, flip)
        return jnp.stack([1.0 - one, one], axis=1)


class PottsSweep(PairSweep):
    r"""Sites with $\log \pi(x) = \beta (\sum_{(i,j)} J_{ij} [x_i = x_j] + \sum_i h_i(x_i))$."""

    target: Target
    graph: Graph
    field: Float[Array, "n values"]
    blocks: Int[Array, "blocks size"]
    beta: Float[Array, ""]

    def __init__(self, target: Target, graph: Graph, field):
        self.target, self.graph, self.field = target, graph, field
        self.blocks, self.beta = graph.blocks, jnp.ones((), field.dtype)

    def operation(self):
        return "potts_sweeps", (self.beta, self.field)

    def chances(self, x: State, rule: Rule):
        values, now = jnp.arange(self.field.shape[1]), x.reshape(-1)
        code = (now[:, None] == values[None, :]).astype(self.field.dtype)
        energy = self.beta * (self.field + self.sums(code))
        found, same = value_chances(energy, now, **rule.settings)
        return jnp.where(same, 1.0 - jnp.sum(found, axis=1, keepdims=True), found)


class EvaluatedSweep(Sweep):
    """Any target, one site after the other: an evaluation for each value a site could take."""

    target: Target
    blocks: Int[Array, "blocks size"]

    def __init__(self, target: Target):
        self.target = target
        self.blocks = jnp.arange(target.num_sites, dtype=jnp.int32)[:, None]

    @property
    def num_sites(self) -> int:
        return self.target.num_sites

    def begin(self, x: State) -> Evaluation:
        return self.target.evaluate(x, ratios=False)

    def draw(self, key, x: State, evaluation: Evaluation, rule: Rule):
        def visit(step, carry):
            (x, evaluation), undefined = carry
            site = step % self.num_sites
            uniform = jax.random.uniform(jax.random.fold_in(key, step), (), self.target.dtype)
            now = x.reshape(-1)[site].astype(jnp.int32)
            others = self._others(x, evaluation, site)
            log_probs = self._log_probs(evaluation, others[1].log_prob, now)
            chances, _ = value_chances(log_probs, now, **rule.settings)
            place = jnp.sum(jnp.cumsum(chances) <= uniform, dtype=jnp.int32)
            stays = (place == now) | (place >= chances.size)
            drawn = jax.tree.map(lambda a: a[(place - now - 1) % chances.size], others)
            after = jax.tree.map(partial(jnp.where, stays), (x, evaluation), drawn)
            seen = jnp.where(site == 0, 0, undefined)  # of this sweep
            return after, seen + jnp.sum(~is_defined(others[1].log_prob), dtype=jnp.int32)

        first = (x, evaluation), jnp.int32(0)
        visits = rule.sweeps * self.num_sites
        (y, there), undefined = jax.lax.fori_loop(0, visits, visit, first)
        return y, there._replace(cache=with_undefined(there.cache, undefined))

    def chances(self, x: State, rule: Rule):
        evaluation = self.begin(x)

        def one(site, now):
            there = self._others(x, evaluation, site)[1].log_prob
            log_probs = self._log_probs(evaluation, there, now.astype(jnp.int32))
            found, same = value_chances(log_probs, now, **rule.settings)
            return jnp.where(same, 1.0 - jnp.sum(found), found)

        return jax.vmap(one)(jnp.arange(self.num_sites), x.reshape(-1))

    def _others(self, x: State, evaluation: Evaluation, site) -> tuple[State, Evaluation]:
        """The states with each other value at the site, from the next one up, evaluated."""
        steps, number = jnp.arange(1, self.target.num_states), self.target.num_states
        values = (x.reshape(-1)[site].astype(jnp.int32) + steps) % number
        return jax.vmap(lambda value: self._changed(x, evaluation, site, value))(values)

    def _log_probs(self, evaluation: Evaluation, others, now) -> Float[Array, " values"]:
        """The log-probability with each value at the site; -inf where it is NaN or +inf."""
        others = jnp.where(is_defined(others), others, -jnp.inf)
        from_now = jnp.concatenate([evaluation.log_prob[None], others])
        return from_now[(jnp.arange(self.target.num_states) - now) % self.target.num_states]

    def _changed(self, x: State, evaluation: Evaluation, site, value):
        """The state with this value at the site, and its evaluation."""
        flat = x.reshape(-1)
        chosen = jnp.arange(flat.size) == site
        moved = chosen & (flat != value)
        values = None
        if self.target.num_states > 2:
            values = jnp.where(chosen, value, flat).astype(jnp.int32)
        sites = jnp.zeros(flat.size, jnp.int32).at[0].set(site.astype(jnp.int32))
        move = Move(
            choice=Choice(sites=sites, chosen=chosen, length=jnp.ones((), jnp.int32)),
            moved=moved,
            values=values,
        )
        return apply(x, move), self.target.update(x, evaluation, move)
