"""The program of a run: steps that write their records to buffers on the device.

It takes one run, or many of one shape side by side; target, key and tuner then have a leading axis
of runs. The chains of a single run may be divided among devices, along a mesh.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Int

from hopscale.devices import AXIS, BY_CHAIN, SAME, all_chains, own_chains, share
from hopscale.engine import loop, pages
from hopscale.engine.compiling import compiled
from hopscale.engine.loop import Chains, Program
from hopscale.engine.pages import Page
from hopscale.record import Recorder, Statistics
from hopscale.target import State
from hopscale.tune import Tuner, TunerState


class Observed(NamedTuple):
    """What is recorded at every step: statistics, and recorders by name."""

    statistics: Statistics
    recorders: dict[str, Recorder]


class Span(NamedTuple):
    """Which steps to take: `steps` of them from step number `first`, tuning if `tune`.

    Step number `first` goes to row `row` of the page. If `keep`, draw number d goes to row
    d // thin of the kept states; `in_group` is the position of the first of these steps in its
    group of `thin`.
    """

    first: Int[Array, ""]
    steps: Int[Array, ""]
    tune: Bool[Array, ""]
    row: Int[Array, ""]
    keep: Bool[Array, ""]
    thin: Int[Array, ""]
    in_group: Int[Array, ""]


class Records(NamedTuple):
    """Buffers that steps write to: a page of numbers, kept states, the recorders' memories."""

    page: Page
    states: State | None
    memories: dict[str, Any]


CHAINS = Chains(states=BY_CHAIN, tuner=SAME)  # type: ignore[arg-type]


def records_spec(recorders: dict[str, Recorder]) -> Records:
    """Which axis of each buffer is the axis of chains."""
    return Records(
        page=Page(numbers=PartitionSpec(None, None, AXIS)),  # type: ignore[arg-type]
        states=PartitionSpec(None, AXIS),  # type: ignore[arg-type]
        memories={name: BY_CHAIN if r.by_chain else SAME for name, r in recorders.items()},
    )


@compiled(donate="all-except-first")
def advance(
    fixed: tuple[Program, Observed, Span],
    chains: Chains,
    records: Records,
    many: bool,
    mesh: Mesh | None,
) -> tuple[Chains, Records]:
    """Take the steps of the span."""
    programs, observed, span = fixed
    if mesh is not None:
        specs = (CHAINS, records_spec(observed.recorders))
        fixed = (programs._replace(axis=AXIS), observed, span)
        shared = share(lambda fixed, *own: _advance_one(*fixed, *own), mesh, fixed, specs, specs)
        return shared(chains, records)
    if not many:
        return _advance_one(programs, observed, span, chains, records)
    each = eqx.if_array(0)
    axes = (each, Observed(statistics=each, recorders=None), None, 0, 0)  # type: ignore[arg-type]
    return eqx.filter_vmap(_advance_one, in_axes=axes)(programs, observed, span, chains, records)


def _advance_one(program: Program, observed: Observed, span: Span, chains, records):
    whole_pages = jax.default_backend() != "cpu"
    put = jax.lax.dynamic_update_index_in_dim

    def visit(row, active, chains: Chains, info, records: Records) -> Records:
        page, states, memories = records
        scale = chains.tuner.scale
        scale = own_chains(scale, program.axis) if scale.ndim else scale
        found = (chains.states, scale, info)
        numbers = pages.row_of(observed.statistics, *found, page.numbers.dtype)
        # The last row of a buffer is for steps that do not count.
        here = jnp.where(active, span.row + row, len(page.numbers) - 1)
        page = Page(numbers=put(page.numbers, numbers, here, axis=0))
        if states is not None:
            # Each step overwrites its group's row, so the last state of the group stays.
            group = (row + span.in_group) // span.thin
            here = jnp.where(active & span.keep, group, len(states) - 1)
            states = put(states, chains.states.x, here, axis=0)
        updated = {}
        for name, recorder in observed.recorders.items():
            axis = None if recorder.by_chain else program.axis
            seen = all_chains(chains.states, axis), all_chains(info, axis)
            updated[name] = recorder.update(memories[name], *seen)
        if active is not True:
            keep = lambda new, old: jnp.where(active, new, old)  # noqa: E731
            updated = jax.tree.map(keep, updated, memories)
        return Records(page=page, states=states, memories=updated)

    return loop.scan(
        program,
        chains,
        records,
        first=span.first,
        steps=span.steps,
        tune=span.tune,
        visit=visit,
        whole_pages=whole_pages,
    )


@eqx.filter_jit
def start(programs: Program, x: State, many: bool, mesh: Mesh | None = None) -> Chains:
    if mesh is not None:
        return share(loop.start, mesh, programs._replace(axis=AXIS), (BY_CHAIN,), CHAINS)(x)
    if not many:
        return loop.start(programs, x)
    return eqx.filter_vmap(loop.start, in_axes=(eqx.if_array(0), 0))(programs, x)


@eqx.filter_jit
def settled(tuner: Tuner, state: TunerState) -> TunerState:
    """The tuner at the end of warm-up, as one program: operation by operation it compiles each."""
    return tuner.settled(state)


def stack(trees):
    """Stack the arrays of all trees; everything else must be the same."""
    check_alike(trees)
    arrays, rest = eqx.partition(list(trees), eqx.is_array)
    return eqx.combine(jax.tree.map(lambda *a: jnp.stack(a), *arrays), rest[0])


def check_alike(trees) -> None:
    """Raise unless the trees differ only in the numbers of their arrays."""
    kinds = [_kind(*eqx.partition(tree, eqx.is_array)) for tree in trees]
    if any(kind != kinds[0] for kind in kinds):
        raise ValueError(
            "runs side by side must be of one shape: the same kinds of target, tuner and function, "
            "with the same settings and arrays of the same shape; only numbers may differ."
        )


def _kind(arrays, rest):
    """Everything that must agree for a tree to be stacked with others."""
    shapes = [(a.shape, a.dtype) for a in jax.tree.leaves(arrays)]
    return jax.tree.structure(arrays), shapes, jax.tree.structure(rest), jax.tree.leaves(rest)


def copied(tree):
    """A copy of a tree of arrays, made without compiling a program."""
    return jax.device_put(tree, may_alias=False)
