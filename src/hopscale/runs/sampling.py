"""Runs in progress, which `sample` drives chunk by chunk.

`stepping` has the program that takes the steps. This module has the host's side: phases, full
pages, kept states, and everything needed to continue a run.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale.devices import Devices, mesh_of, place
from hopscale.engine import loop, pages
from hopscale.engine.compiling import compile_for
from hopscale.engine.kept import KeptStates, room_on_device
from hopscale.engine.loop import Chains, Program
from hopscale.engine.pages import STEP_NUMBERS, Moments, Page, Totals, Trace
from hopscale.engine.stepping import (
    CHAINS,
    Observed,
    Records,
    Span,
    advance,
    copied,
    records_spec,
    settled,
    stack,
    start,
)
from hopscale.record import Recorder, Statistics
from hopscale.runs import arguments
from hopscale.target import State
from hopscale.tune import TunerState

INVALID = STEP_NUMBERS.index("invalid")


class Begun(NamedTuple):
    """The chains at a row of the current page, so that its steps can be repeated."""

    step: int
    row: int
    chains: Chains


class Sampling:
    """Runs side by side, as a `host.Job`: warm up, freeze the scale, draw.

    Args:
        programs: one for each run, all of one shape.
        x: where chains start, with one more axis in front if there are several runs.
        statistics: one for each run.
        recorders: by name, the same for all runs.
        warmup, draws: steps.
        thin: keep every n-th state; None keeps none.
        compiled: evaluate the first states and compile now. False leaves that to `restore` and to
            the first step.
        devices: over which the chains of a single run are divided; empty: JAX's default.
        others: gives other states to start from, by the number of the attempt, in place of those
            with zero density. None: zero density is an error.
    """

    def __init__(
        self,
        programs: list[Program],
        x: State,
        statistics: list[Statistics],
        recorders: Mapping[str, Recorder],
        warmup: int,
        draws: int,
        thin: int | None,
        compiled: bool = True,
        devices: Devices = (),
        others: Callable[[int], State] | None = None,
    ):
        began = time.perf_counter()
        self.programs, self.many = programs, len(programs) > 1
        self.devices, self.mesh = devices, mesh_of(devices)
        self.program = place(stack(programs) if self.many else programs[0], devices)
        self.target, self.chains_each = programs[0].target, x.shape[int(self.many)]
        self.statistics = place(stack(statistics) if self.many else statistics[0], devices)
        self.names = statistics[0].names
        self.recorders = dict(recorders)
        self.warmup, self.draws, self.thin = warmup, draws, thin
        self.rows = pages.page_rows(self.chains_each * len(programs))
        self.start = (x, self.many)
        self.compiled = compiled
        if compiled:
            compile_for(start, self.program, *self.start, self.mesh)
            self.chains = arguments.begin_where_possible(
                lambda x: start(self.program, x, self.many, self.mesh), self.start[0], others
            )
            arguments.finite_start(self.chains.states, self.target, given=others is None)
        self.step = self.invalid_in_warmup = 0
        self.offender: np.ndarray | None = None
        self.warmup_history: Trace | None = None
        self.run_seconds = 0.0
        self.compile_seconds = time.perf_counter() - began
        self._enter("warm-up" if warmup else "draws")

    # -- What `host.drive` calls. ----------------------------------------------------------------

    @property
    def phases(self) -> dict[str, int]:
        return {"warm-up": self.warmup, "draws": self.draws}

    @property
    def at(self) -> tuple[str, int]:
        return self.phase, self.done

    def room(self) -> int:
        """Steps until the end of the phase, the page or the buffer of states."""
        if self.phase == "warm-up" and self.done >= self.warmup:
            moments, _, self.warmup_history = self.flush()
            self.invalid_in_warmup = invalid_count(moments)
            self.chains = self.chains._replace(tuner=self.settled)
            self._enter("draws")
        left = min(self.phases[self.phase] - self.done, self.rows - self.row)
        if self.records.states is not None and self.thin and self.phase == "draws":
            states_axis = 1 if self.many else 0
            room = (self.records.states.shape[states_axis] - 1) * self.thin
            left = min(left, room - self.done % self.thin)
        return left

    def advance(self, steps: int) -> None:
        """Take at most this many steps, and merge the summary of the previous page."""
        began = time.perf_counter()
        if jax.default_backend() != "cpu":
            steps = loop.to_end_of_page(self.step, steps)
        if not self.compiled:
            self.compile()
        if self.begun is None and self.offender is None and not self.many:
            self.begun = Begun(self.step, self.row, copied(self.chains))
        self._call(steps)
        self._merge()  # while these steps run
        self._fetch_states(steps)
        self.step, self.done, self.row = self.step + steps, self.done + steps, self.row + steps
        if self.row == self.rows:
            self.pending = (self._summarize(), self.rows, self.resolution, self.begun)
            self.begun, self.row = None, 0
        jax.block_until_ready(self.chains)
        self.run_seconds += time.perf_counter() - began

    def status(self) -> dict[str, float]:
        """What the progress bar shows: the scale, and the last step's means."""
        row = (self.row or self.rows) - 1
        numbers = np.asarray(self.records.page.numbers[..., row, :, :])
        shown = dict(zip(STEP_NUMBERS, np.moveaxis(numbers, -2, 0), strict=False))
        scale = {"R": float(np.mean(shown["scale"]))} if self.scales is not None else {}
        return {
            **scale,
            "acceptance": float(np.mean(shown["accept_prob"])),
            "jump": float(np.mean(shown["distance"])),
        }

    @property
    def settled(self) -> TunerState:
        """The tuner as draws would have it if warm-up ended now."""
        return settled(self.program.tuner, self.chains.tuner)

    # -- Internals. ------------------------------------------------------------------------------

    @property
    def scales(self):
        """The range and meaning of the kernel's scale."""
        return self.programs[0].kernel.scale_range(self.target)

    @property
    def resolution(self) -> int:
        """How many steps the device averages into one entry of a trace.

        An accelerator then sends less. On a CPU that would gain nothing, and each number of steps
        is a program of its own.
        """
        if jax.default_backend() == "cpu":
            return 1
        return min(self.totals.trace.block, self.rows)

    def _enter(self, phase: str) -> None:
        """Begin a phase: warm-up or draws."""
        runs, chains = len(self.programs), self.chains_each
        self.phase, self.done, self.row = phase, 0, 0
        self.pending: tuple[pages.Summary, int, int, Begun | None] | None = None
        self.begun: Begun | None = None
        self.totals = Totals.empty(runs, len(self.names), chains)
        self.kept: KeptStates | None = None
        recorders = self._recorders(phase)
        self.observed = Observed(statistics=self.statistics, recorders=recorders)
        self.records = self._empty_records(recorders)
        if self.compiled:
            self.compile()

    def _recorders(self, phase: str) -> dict[str, Recorder]:
        """The recorders of a phase."""
        return {n: r for n, r in self.recorders.items() if phase == "draws" or r.in_warmup}

    def compile(self) -> None:
        """Compile without taking a step."""
        began, self.compiled = time.perf_counter(), True
        compile_for(advance, *self._arguments(0))
        self._call(0)
        jax.block_until_ready((self.chains, self._summarize()))
        self.compile_seconds += time.perf_counter() - began

    def _empty_records(self, recorders: Mapping[str, Recorder]) -> Records:
        target, chains = self.target, self.chains_each
        states = None
        if self.thin:  # in warm-up too, unused, so that both phases share one program
            states = room_on_device(target, chains, len(self.programs), self.rows)
        one = Records(
            page=pages.empty_page(self.statistics, target, chains, self.rows),
            states=states,
            memories={name: r.init(target, chains) for name, r in recorders.items()},
        )
        if not self.many:
            return place(one, self.devices, records_spec(dict(recorders)))
        runs = len(self.programs)
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (runs, *a.shape)).copy(), one)

    def _span(self, first: int, steps: int, row: int) -> Span:
        thin = self.thin or 1
        return Span(
            first=jnp.asarray(first, jnp.int32),
            steps=jnp.asarray(steps, jnp.int32),
            tune=jnp.asarray(self.phase == "warm-up"),
            row=jnp.asarray(row, jnp.int32),
            keep=jnp.asarray(self.phase == "draws"),
            thin=jnp.asarray(thin, jnp.int32),
            in_group=jnp.asarray(self.done % thin, jnp.int32),
        )

    def _arguments(self, steps: int) -> tuple:
        fixed = (self.program, self.observed, self._span(self.step, steps, self.row))
        return fixed, self.chains, self.records, self.many, self.mesh

    def _call(self, steps: int) -> None:
        self.chains, self.records = advance(*self._arguments(steps))

    def _fetch_states(self, steps: int) -> None:
        """Copy the states of the groups that these steps completed to the host."""
        if not self.thin or self.phase != "draws":
            return
        if self.kept is None:
            self.kept = self._room_for_states(self.thin)
        assert self.records.states is not None
        self.kept.fetch(self.records.states, self.done, steps)

    def _room_for_states(self, thin: int) -> KeptStates:
        return KeptStates(self.target, len(self.programs), self.chains_each, self.draws, thin)

    def _summarize(self) -> pages.Summary:
        # On one device, so that sums over chains keep their order.
        numbers = place(self.records.page.numbers, self.devices[:1])
        rows = jnp.asarray(self.row, jnp.int32)
        return pages.summarize(numbers if self.many else numbers[None], rows, self.resolution)

    def _merge(self) -> None:
        """Merge the summary of the last full page, once."""
        if self.pending is None:
            return
        summary, rows, resolution, begun = self.pending
        self.pending = None
        self.totals.add(summary, rows, resolution)
        self._find_offender(summary, rows, begun)

    def _find_offender(self, summary: pages.Summary, rows: int, begun: Begun | None) -> None:
        """Find the first invalid proposal of a page, by repeating its steps up to that one."""
        if self.offender is not None or begun is None:
            return
        invalid = np.asarray(summary.history)[0, begun.row : rows, INVALID] > 0
        if not invalid.any():
            return
        steps = int(np.argmax(invalid))
        fixed = (self.program, self.observed, self._span(begun.step, steps, 0))
        records = self._empty_records(self.observed.recorders)
        chains, _ = advance(fixed, begun.chains, records, self.many, self.mesh)
        step = jnp.asarray(begun.step + steps, jnp.int32)
        x, found = loop.proposals(self.programs[0], place(chains, self.devices[:1]), step)
        self.offender = np.asarray(x[int(np.argmax(found))])

    def flush(self) -> Totals:
        """Moments, trace and history of the phase so far, including the unfinished page.

        The page itself continues: its contents are merged for good only when it is full.
        """
        self._merge()
        totals = self.totals.copy()
        if self.row:
            summary = self._summarize()
            totals.add(summary, self.row, self.resolution)
            self._find_offender(summary, self.row, self.begun)
        return totals

    # -- Saving and continuing. ------------------------------------------------------------------

    def arrays(self) -> dict[str, Any]:
        """Everything that changes during a run, as arrays: with it a run continues bit for bit."""
        self.flush()
        row_axis = 1 if self.many else 0
        numbers = jax.lax.slice_in_dim(self.records.page.numbers, 0, self.row, axis=row_axis)
        tree: dict[str, Any] = {
            "chains": self.chains,
            "numbers": numbers,
            "memories": self.records.memories,
            **self.totals.state(),
            "offender": self.offender,
        }
        if self.kept is not None:
            tree["kept"] = self.kept.of(self.done)
        if self.warmup_history is not None:
            tree["warmup_history"] = self.warmup_history.state()
        return tree

    def shapes(self, phase: str) -> dict[str, Any]:
        """Arrays of the shapes that chains and memories have in a phase, with any values."""
        chains = eqx.filter_eval_shape(start, self.program, *self.start)
        empty = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), chains)
        recorders = self._recorders(phase)
        return {"chains": empty, "memories": self._empty_records(recorders).memories}

    def counters(self) -> dict[str, Any]:
        """The position of the run, and its timings."""
        return {
            "phase": self.phase,
            "step": self.step,
            "done": self.done,
            "row": self.row,
            "invalid_in_warmup": self.invalid_in_warmup,
            "compile_seconds": self.compile_seconds,
            "run_seconds": self.run_seconds,
        }

    def restore(self, counters: Mapping[str, Any], tree: Mapping[str, Any]) -> None:
        """Continue from what `arrays` and `counters` of the same run returned."""
        if counters["phase"] != self.phase:
            self._enter(counters["phase"])
        for name in ("step", "done", "row", "invalid_in_warmup", "run_seconds"):
            setattr(self, name, counters[name])
        self.compile_seconds += counters["compile_seconds"]
        # Copies, because the arguments of the loop are donated.
        self.chains = place(copied(tree["chains"]), self.devices, CHAINS)
        page = self.records.page.numbers
        row_axis = 1 if self.many else 0
        numbers = np.asarray(tree["numbers"], page.dtype)  # from any number of devices
        page = jax.lax.dynamic_update_slice_in_dim(page, jnp.asarray(numbers), 0, axis=row_axis)
        records = Records(Page(page), self.records.states, copied(tree["memories"]))
        self.records = place(records, self.devices, records_spec(self.observed.recorders))
        self.totals.restore(tree)
        self.offender = tree["offender"]
        if tree.get("kept") is not None and self.thin:
            self.kept = self._room_for_states(self.thin)
            self.kept.take_up(tree["kept"])
        if tree.get("warmup_history") is not None:
            self.warmup_history = pages.empty_history(len(self.programs))
            self.warmup_history.restore(tree["warmup_history"])


def invalid_count(moments: Moments) -> int:
    """How many proposals of all chains and runs were invalid."""
    return int(np.rint(np.nansum(moments.mean[:, INVALID]) * moments.count))
