"""The settings of a run, or of many side by side: checked, and turned into a job."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from hopscale import record as record_module
from hopscale import validate
from hopscale.devices import Devices
from hopscale.engine import loop, pages
from hopscale.engine.loop import Program
from hopscale.engine.stepping import check_alike
from hopscale.kernels import ChainState, Info, Kernel, Tempering
from hopscale.record import Hamming, Recorder, Statistics
from hopscale.results import tempering
from hopscale.results.run import MAIN
from hopscale.runs import arguments
from hopscale.runs.sampling import Sampling
from hopscale.target import State, Target
from hopscale.targets import ratios
from hopscale.tune import Tuner, fitted

RESERVED = ("log_prob", tempering.NAME)
DIRECTIONS = 3  # random states; distances to them show whether chains agree

Record = Callable | Recorder | Mapping[str, Callable | Recorder]


@dataclasses.dataclass(frozen=True)
class Plan:
    """All settings of one run, or of many side by side, checked."""

    targets: tuple[Target, ...]
    kernel: Kernel
    keys: tuple[Key[Array, ""], ...]
    tuners: tuple[Tuner, ...]
    functions: tuple[Mapping[str, Callable], ...]
    recorders: Mapping[str, Recorder]
    chains: int
    warmup: int
    draws: int
    init: Any
    keep: str | int | None
    defaults: bool = True  # whether to record the default statistics
    cautions: tuple[str, ...] = ()  # warnings from before the first step
    reason: str = ""  # why this kernel, if the user gave none
    devices: Devices = ()  # where it runs; not part of the run's identity

    @staticmethod
    def of(
        targets: Sequence[Target],
        kernel: Kernel,
        keys: Sequence[Any],
        scales: Sequence[Tuner | None],
        chains: int,
        warmup: int,
        draws: int,
        record: Any = None,
        init: Any = None,
        keep: str | int | None = None,
        chunk: int | None = None,
        defaults: bool = True,
        devices: Any = None,
    ) -> "Plan":
        for target, scale in zip(targets, scales, strict=True):
            arguments.check(target, kernel, scale, chains, warmup, draws, chunk)
        listed = arguments.devices(devices, chains)
        arguments.thinning(keep, draws)
        each = record if isinstance(record, list | tuple) else [record] * len(targets)
        if len(each) != len(targets):
            raise ValueError(f"record must hold one entry for each of {len(targets)} runs.")
        split = [split_record(one) for one in each]
        if isinstance(record, list | tuple) and len(each) > 1 and any(own for _, own in split):
            raise ValueError(
                "recorders are the same for all runs side by side: give one record for all; only "
                "functions may differ from run to run."
            )
        plan = Plan(
            targets=tuple(targets),
            kernel=kernel,
            keys=tuple(map(validate.as_key, keys)),
            tuners=tuple(
                kernel.tuner_for(target, fitted(scale, kernel.scale_range(target)))
                for target, scale in zip(targets, scales, strict=True)
            ),
            functions=tuple(functions for functions, _ in split),
            recorders=split[0][1],
            chains=chains,
            warmup=warmup,
            draws=draws,
            init=init,
            keep=keep,
            defaults=defaults,
            cautions=targets[0].cautions(),
            devices=listed,
        )
        for target, tuner in zip(plan.targets, plan.tuners, strict=True):
            span: Any = kernel.scale_range(target)
            jax.eval_shape(partial(tuner.init, span, chains, target.dtype))  # raises if unfit
        plan.check_memory()
        return plan.with_ratios()

    def with_ratios(self) -> "Plan":
        """The plan with the kind of ratios decided for all targets, by those of the first."""
        target = self.targets[0]
        if not self.kernel.informed or target.ratios == "exact":
            return self
        x = arguments.states_to_compare(target, self.kernel, self.init, self.chains)
        first, caution = ratios.settle(target, x)
        others = [other.decided(first.ratios) for other in self.targets[1:]]
        found = self.cautions if caution is None else (*self.cautions, caution)
        return dataclasses.replace(self, targets=(first, *others), cautions=found)

    @property
    def thin(self) -> int | None:
        return arguments.thinning(self.keep, self.draws)

    def check_memory(self) -> None:
        """Raise if the run needs more memory than there is."""
        target, runs = self.targets[0], len(self.targets)
        states = runs * self.chains * target.num_sites
        # A state, its log-ratios at x and at y, and about as much again while a step is computed.
        values = max(target.num_states, 1) if target.num_states > 2 else 1
        needed = self.kernel.replicas * states * (4 * target.state_dtype.itemsize + 6 * 4 * values)
        needed += runs * self._recorded_bytes()
        kept = states * (self.draws // self.thin) * target.state_dtype.itemsize if self.thin else 0
        # Each of several accelerators holds a part; the devices of a CPU share one memory.
        apart = len(self.devices) if self.devices and self.devices[0].platform != "cpu" else 1
        needed, kept = needed // apart, kept // apart
        memories = runs * sum(
            _size(r, target, self.chains) // (apart if r.by_chain else 1)
            for r in self.recorders.values()
        )
        advice = "Use fewer chains."
        if kept > needed + memories:
            advice = "Keep fewer of them (keep=n for every n-th), or record statistics instead."
        elif memories > needed:
            advice = "Record less: hs.record.SiteMeans(), or a function of (state, info)."
        parts = {"its chains": needed, "kept states": kept, "what is recorded": memories}
        listed = [f"{validate.in_words(n)} for {what}" for what, n in parts.items() if n]
        validate.fits(f"the run, with {' and '.join(listed)},", needed + kept + memories, advice)

    def _recorded_bytes(self) -> int:
        """Bytes of the statistics of one run: a page on the device, and traces on the host."""
        statistics = (1 + DIRECTIONS) * self.defaults + len(self.functions[0])
        numbers = len(pages.STEP_NUMBERS) + statistics
        steps = min(self.warmup + self.draws, pages.trace_capacity(self.chains))
        rows = pages.page_rows(self.chains * len(self.targets))
        return 4 * self.chains * numbers * (rows + steps)

    def begin(self, compiled: bool = True) -> Sampling:
        """The run before its first step, compiled now or, if not `compiled`, at the first step."""
        programs, watched = [], []
        for target, key, tuner, functions in zip(
            self.targets, self.keys, self.tuners, self.functions, strict=True
        ):
            own = own_keys(key)
            programs.append(Program(key=own.run, target=target, kernel=self.kernel, tuner=tuner))
            default = _default_functions(target, own) if self.defaults else {}
            watched.append({**default, **functions})
        check_alike(programs)
        one_chain = _one_chain(programs[0], self.chains)  # the same for all programs
        return Sampling(
            programs,
            self._starts(),
            [Statistics(functions, *one_chain) for functions in watched],
            {**self.recorders, **_own_recorders(self.kernel)},
            self.warmup,
            self.draws,
            self.thin,
            compiled,
            self.devices,
            self._starts if self.init is None else None,
        )

    def _starts(self, attempt: int = 0) -> State:
        """The first states of each run's chains; if none were given, each attempt draws others."""
        found = []
        for target, key in zip(self.targets, self.keys, strict=True):
            key = arguments.for_attempt(own_keys(key).starts, attempt)
            found.append(arguments.initial_states(target, self.kernel, self.chains, self.init, key))
        return jnp.stack(found) if len(found) > 1 else found[0]


def _size(recorder: Recorder, target: Target, chains: int) -> int:
    """Bytes of a recorder's memory."""
    leaves = jax.tree.leaves(jax.eval_shape(lambda: recorder.init(target, chains)))
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)


class Keys(NamedTuple):
    """The keys of a run, from the one that its user gave.

    Attributes:
        starts: for the first states.
        origins: for the random states that distances are measured from.
        run: for the steps.
    """

    starts: Key[Array, ""]
    origins: tuple[Key[Array, ""], ...]
    run: Key[Array, ""]


@jax.jit  # otherwise each operation would be compiled on its own
def own_keys(key: Key[Array, ""]) -> Keys:
    starts, origin, run = jax.random.split(key, 3)
    others = (jax.random.fold_in(origin, i) for i in range(1, DIRECTIONS))
    return Keys(starts=starts, origins=(origin, *others), run=run)


def _default_functions(target: Target, keys: Keys) -> dict[str, Callable]:
    """The default statistics: the log-probability, and distances to random states."""
    found: dict[str, Callable] = {"log_prob": record_module.log_prob}
    for i, key in enumerate(keys.origins):
        name = MAIN if i == 0 else f"{MAIN}_{i + 1}"
        found[name] = Hamming(_uniform(target, key))
    return found


def random_state(target: Target, key: Any) -> State:
    """The state from which "hamming" measures the distance, in a run with this key."""
    return _uniform(target, own_keys(validate.as_key(key)).origins[0])


def _uniform(target: Target, key: Key[Array, ""]) -> State:
    return jnp.asarray(arguments.random_states(target, 1, key)[0])


def split_record(record: Any) -> tuple[dict[str, Callable], dict[str, Recorder]]:
    """What the user asked to record, by name: functions, and recorders."""
    if record is None:
        return {}, {}
    if isinstance(record, list | tuple):
        raise TypeError(
            f"record takes several things by name, as in {{'ones': ones}}; got {record!r}."
        )
    if not isinstance(record, Mapping):
        record = {getattr(record, "__name__", type(record).__name__): record}
    for name in record:
        if not isinstance(name, str) or name in RESERVED or name.startswith(MAIN):
            raise ValueError(
                f"record names things by strings other than 'log_prob', 'tempering' and "
                f"'{MAIN}...', which hs.sample records itself; got {name!r}."
            )
    recorders = {name: value for name, value in record.items() if isinstance(value, Recorder)}
    return {n: v for n, v in record.items() if n not in recorders}, recorders


def _own_recorders(kernel: Kernel) -> dict[str, Recorder]:
    """The recorders that a kernel adds to a run."""
    if isinstance(kernel, Tempering):
        return {tempering.NAME: tempering.Swaps(kernel.replicas)}
    return {}


def _one_chain(program: Program, chains: int) -> tuple[ChainState, Info]:
    """The shapes of the arguments of functions of (state, info)."""

    def one(program):
        x = jnp.zeros((chains, *program.target.shape), program.target.state_dtype)
        found = loop.first_step(program, x)
        return jax.tree.map(lambda a: a[0], found)

    return eqx.filter_eval_shape(one, program)
