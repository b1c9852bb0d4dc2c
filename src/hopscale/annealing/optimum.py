"""The most probable state: annealing with restarts, for a given time."""

import dataclasses
import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from rich.console import Group
from rich.text import Text

from hopscale import tables, validate
from hopscale.annealing.anneal import Schedule, anneal, begin, better, nothing_yet
from hopscale.annealing.temperatures import beta_range
from hopscale.engine.loop import Program
from hopscale.kernels import LBP, Gibbs, Swap
from hopscale.kernels.kernel import Kernel
from hopscale.results.run import ConvergenceWarning, describe
from hopscale.runs import arguments, host
from hopscale.runs.host import Interrupted
from hopscale.target import State, Target
from hopscale.targets import ratios
from hopscale.targets.powered import Powered
from hopscale.tune import fitted

BETAS = 512  # of a schedule, at most
FIRST_ROUND = 512  # steps, if there is time for them
SHARE = 0.5  # of the time: the most for a longer round
FEWEST = 32  # steps for which another round begins, or as many as the last one had
FITS = 0.95  # of the time left: what a round is expected to take at most
TRIED = (1, 1, 8, 64)  # steps, to measure how long one takes; the very first may take longer
TRIAL = 0.1  # of the time: the most for a trial
WRITTEN_OUT = 64  # sites


@dataclasses.dataclass(frozen=True)
class Optimum:
    """The best state that was found, and how.

    Attributes:
        x: the state.
        log_prob: of it, up to the target's constant.
        history: rows of (seconds, best log-probability so far).
        target, kernel, chains: what was annealed, by what, and in how many chains.
        rounds: how many times chains were annealed from random states.
        steps: of each chain, in all rounds.
        betas: the inverse temperatures at which a round begins and ends.
        seconds: the time that the search took.
    """

    x: np.ndarray
    log_prob: float
    history: np.ndarray
    target: Target
    kernel: Kernel
    chains: int
    rounds: int
    steps: int
    betas: tuple[float, float]
    seconds: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why there may easily be a better state, in a sentence; often none."""
        resolution = abs(self.log_prob) * float(jnp.finfo(self.target.dtype).eps)
        if resolution * self.betas[1] <= 1.0:
            return ()
        return (
            f"The log-density is about {self.log_prob:.3g}, which {self.target.dtype.name} "
            f"resolves to {resolution:.2g} only: states that differ by less are taken for equal. "
            "Leave out a constant, or use double precision: "
            "jax.config.update('jax_enable_x64', True).",
        )

    @property
    def found_after(self) -> float:
        """Seconds until the best state was found."""
        return float(self.history[np.argmax(self.history[:, 1] >= self.history[-1, 1]), 0])

    def summary(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "target": type(self.target).__name__,
            "sites": self.target.num_sites,
            "sampler": describe(self.kernel),
            "log_prob": self.log_prob,
            "found_after": self.found_after,
            "seconds": self.seconds,
            "chains": self.chains,
            "rounds": self.rounds,
            "steps": self.steps,
            "betas": list(self.betas),
            "warnings": list(self.warnings),
            "x": self.x.tolist(),
        }

    def __str__(self) -> str:
        return tables.text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.html(self)

    def __rich__(self) -> Group:
        return self.shown()

    def shown(self, words: Callable[[str], str] = str) -> Group:
        """The result as a table, with its warnings put in other words by this function."""
        shape = " x ".join(map(str, self.target.shape))
        title = f"The best of {type(self.target).__name__} ({shape}) by {describe(self.kernel)}"
        rows = {
            "log_prob": f"{self.log_prob:.10g}",
            "state": _written(self.x),
            "found after": f"{self.found_after:.3g} of {self.seconds:.3g} seconds",
            "rounds": f"{self.rounds:,} of {self.chains:,} chains, {self.steps:,} steps",
            "beta": f"from {self.betas[0]:.3g} to {self.betas[1]:.3g}",
        }
        notes = [Text(f"! {words(sentence)}", style="yellow") for sentence in self.warnings]
        return Group(tables.table(title, rows.items()), *notes)


def _written(x: np.ndarray) -> str:
    """A state in a line, if it fits."""
    if x.size <= WRITTEN_OUT:
        return "".join(map(str, x.ravel())) if x.max() < 10 else str(x.ravel().tolist())
    return f"{np.count_nonzero(x):,} of {x.size:,} sites are not 0; x has them"


def optimize(
    target: Target,
    seconds: float = 60.0,
    *,
    kernel: Kernel | None = None,
    chains: int = 32,
    betas: tuple[float, float] | None = None,
    init: Any = None,
    key: int | Key[Array, ""] = 0,
    progress: bool = True,
) -> Optimum:
    r"""Search for the most probable state, by annealing with restarts.

    Chains sample $\pi^\beta$ while $\beta$ grows geometrically, and then restart from random
    states. Rounds get longer until one takes half of the time, and the last one ends in time.
    The best state of all steps of all chains is kept. Nothing proves that there is none better.

    Args:
        target: what to maximise. To minimise a cost, pass its negative.
        seconds: how long to search, not counting compilation.
        kernel: how to move. None: Metropolis sweeps if the target has pairwise terms, else LBP.
        chains: the number of chains, run side by side.
        betas: inverse temperatures at which a round begins and ends. None: estimated from changes
            of one site, or from swaps if the kernel is `Swap`.
        init: where the chains of each round begin: one state for all, or one for each chain. None:
            random states, drawn again where the density is zero.
        key: a seed or a JAX key.
        progress: show a progress bar in a terminal or a notebook.

    Raises:
        Interrupted: after Ctrl-C, with the best state so far as `.partial`.
    """
    validate.instance("target", target, Target, "hs.Pairwise(couplings)")
    validate.number("seconds", seconds, 0.0, 1e9, "()")
    if kernel is None:
        kernel = LBP() if Powered(target, 1.0).sweep() is None else Gibbs(rule="metropolis")
    arguments.check(target, kernel, None, chains, 0, 1, None)
    if betas is not None:
        _check_betas(betas)
    key = validate.as_key(key)
    starts = arguments.states_to_compare(target, kernel, init, chains)
    target, _ = ratios.settle(target, starts)
    if betas is None:
        any_state = init is None and not isinstance(kernel, Swap)
        betas = beta_range(target, x=None if any_state else starts, kernel=kernel)
    job = Rounds(target, kernel, chains, betas, init, key, seconds)
    outcome = host.drive(job, progress=progress)
    if outcome == "interrupted":
        found = job.result()
        raise Interrupted(
            f"stopped after {found.seconds:.3g} of {seconds:g} seconds",
            found,
            ".partial holds the best state so far",
        )
    found = job.result()
    if found.warnings:
        warnings.warn("\n".join(found.warnings), ConvergenceWarning, stacklevel=2)
    return found


def _check_betas(betas: Any) -> None:
    found = validate.array("betas", betas)
    if found.shape != (2,) or np.iscomplexobj(found) or not 0 < found[0] <= found[1] < np.inf:
        raise ValueError(f"betas must be two numbers, 0 < first <= last; got {betas!r:.80}.")


class Rounds:
    """Rounds of annealing until the time is over, as a `host.Job`."""

    def __init__(self, target, kernel, chains: int, betas, init, key, seconds: float):
        self.key_start, key_run = jax.random.split(key)
        powered = Powered(target, betas[0])
        tuner = fitted(None, kernel.scale_range(powered), moving=True)
        self.program = Program(key=key_run, target=powered, kernel=kernel, tuner=tuner)
        self.target, self.chains_each, self.betas, self.seconds = target, chains, betas, seconds
        self.best, self.step, self.rounds, self.history = nothing_yet(target), 0, 0, []
        self.length, self.init = FIRST_ROUND, init
        self._begin_chains()
        arguments.finite_start(self.chains.states, target, given=init is not None)
        self._plan(betas[0], FIRST_ROUND)
        self._take(0)  # compiles
        self.began = time.perf_counter()
        for steps in TRIED:  # at the first temperature
            if steps > 1 and steps > TRIAL * seconds * self.rate:
                break
            self._take(steps)
        self._plan_round()

    def _begin_chains(self) -> None:
        """Chains for another round."""
        others = self._starts if self.init is None else None
        self.chains = arguments.begin_where_possible(
            partial(begin, self.program), self._starts(0), others
        )
        self.best = better(self.best, self.chains.states)
        self.rounds += 1

    def _plan_round(self) -> None:
        """Plan a round, from the first temperature, of the steps that there is time for."""
        self.round_began = time.perf_counter()
        self._plan(self.betas[0], min(self.length, self._steps_left()))

    def _plan(self, beta: float, steps: int) -> None:
        """Go from one beta to the last in this many steps from now on."""
        steps = max(steps, 1)
        self.beta, self.planned, self.round_ends = beta, self.step, self.step + steps
        each = math.ceil(steps / BETAS)
        number = math.ceil(steps / each)
        betas = np.full(BETAS, self.betas[1])  # always as many, for one program
        betas[: number - 1] = np.geomspace(beta, self.betas[1], number)[:-1]
        self.schedule = Schedule(
            betas=jnp.asarray(betas, self.target.dtype),
            begin=jnp.asarray(self.step, jnp.int32),
            each=jnp.asarray(each, jnp.int32),
        )

    def _keep_to_time(self) -> None:
        """Do the rest of a round in fewer steps if time is over before it would end."""
        if self._steps_left() < self.round_ends - self.step:
            done = (self.step - self.planned) / (self.round_ends - self.planned)
            beta = self.beta * (self.betas[1] / self.beta) ** done
            self._plan(beta, self._steps_left())

    def _steps_left(self) -> int:
        """Steps that fit into the time that is left."""
        return int(FITS * self.rate * (self.seconds - self.elapsed))

    def _starts(self, attempt: int) -> State:
        key = arguments.for_attempt(jax.random.fold_in(self.key_start, self.rounds), attempt)
        kernel = self.program.kernel
        return arguments.initial_states(self.target, kernel, self.chains_each, self.init, key)

    def _take(self, steps: int) -> None:
        first, steps_ = jnp.asarray(self.step, jnp.int32), jnp.asarray(steps, jnp.int32)
        began = time.perf_counter()
        found = anneal(self.program, self.chains, self.best, self.schedule, first, steps_)
        self.chains, self.best = jax.block_until_ready(found)
        self.step += steps
        self.rate = steps / (time.perf_counter() - began)

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.began

    @property
    def phases(self):
        return {"seconds": max(1, round(self.seconds))}

    @property
    def at(self):
        return "seconds", min(int(self.elapsed), max(1, round(self.seconds)))

    def room(self) -> int:
        if self.elapsed >= self.seconds or self.step > arguments.MOST_STEPS // 2:
            return 0
        if self.step == self.round_ends:
            took = time.perf_counter() - self.round_began
            if 2 * took < SHARE * self.seconds:
                self.length *= 2
            if self._steps_left() < min(FEWEST, self.round_ends - self.planned):
                return 0
            self._begin_chains()
            self._plan_round()
        self._keep_to_time()
        return self.round_ends - self.step

    def advance(self, steps: int) -> None:
        self._take(steps)
        self.history.append((self.elapsed, float(self.best.log_prob)))

    def status(self):
        return {"best": float(self.best.log_prob)}

    def result(self) -> Optimum:
        x, seconds = np.asarray(self.best.x), self.elapsed  # what follows may be compiled
        return Optimum(
            x=x,
            log_prob=float(self.target.log_prob(x)),
            history=np.array(self.history or [(seconds, float(self.best.log_prob))]),
            target=self.target,
            kernel=self.program.kernel,
            chains=self.chains_each,
            rounds=self.rounds,
            steps=self.step,
            betas=self.betas,
            seconds=seconds,
        )
