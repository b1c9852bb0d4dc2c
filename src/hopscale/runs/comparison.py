"""Comparison of the kernels that could sample a target, each for the same time."""

import dataclasses
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from hopscale import tables, validate
from hopscale.kernels import GWG, LBP, RWM, Gibbs
from hopscale.kernels.kernel import Kernel
from hopscale.results.advice import chains_agree
from hopscale.results.run import Run, describe
from hopscale.runs import host
from hopscale.runs.choose import choose
from hopscale.runs.plan import Plan
from hopscale.runs.run import make_runs
from hopscale.target import Target
from hopscale.targets.clamp import as_rbm
from hopscale.targets.sweep import PairSweep

PILOT = 64  # steps to measure how long one takes
WARMUP_SHARE = 0.25  # of the time
FEWEST, MOST = 50, 5_000  # steps of warm-up
ENOUGH, MOST_DRAWS = 4.0, 10**9  # times the draws that the pilot promises; the time ends a run
EVALUATED = 512  # evaluations of a sweep without pairs or blocks, at most
CLOSE = 0.2  # a smaller relative difference is noise: runs of one kernel differ by as much
FEW = 32  # draws of each chain: fewer say nothing


@dataclasses.dataclass(frozen=True)
class Candidate:
    """The result of one kernel.

    Attributes:
        kernel: the kernel.
        ess: effective draws of all chains together, of the worst statistic, whose name is `worst`.
        ess_per_second: effective draws per second of drawing alone.
        ess_per_second_all: the same with warm-up included; compilation is not.
        r_hat: the largest R-hat of its statistics.
        draws: the number of draws of each chain.
        steps_per_second: how often all chains stepped in a second.
        seconds: the time that warm-up and draws took.
        agree: whether its chains agree, by the rule of a run's own warnings.
    """

    kernel: Kernel
    ess: float
    worst: str
    ess_per_second: float
    ess_per_second_all: float
    r_hat: float
    draws: int
    steps_per_second: float
    seconds: float
    agree: bool

    @property
    def reliable(self) -> bool:
        """Whether its chains agree, so that its effective draws mean something."""
        return self.agree and self.draws >= FEW and self.ess > 0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Kernels compared on one target, the best first, with the conclusion in a sentence.

    Attributes:
        target: what was sampled.
        candidates: the results of the kernels, the best first.
        seconds: the time that each kernel had.
        chains: the number of chains of each.
    """

    target: Target
    candidates: tuple[Candidate, ...]
    seconds: float
    chains: int

    @property
    def best(self) -> Candidate:
        """The result of the best kernel."""
        return self.candidates[0]

    @property
    def kernel(self) -> Kernel:
        """The best kernel, to be passed to `hs.sample`."""
        return self.best.kernel

    @property
    def close(self) -> tuple[Candidate, ...]:
        """Those that another run may put before the best: within 20% of it, and reliable too."""
        least = (1.0 - CLOSE) * self.best.ess_per_second
        return tuple(c for c in self.candidates[1:] if c.reliable and c.ess_per_second > least)

    @property
    def _span(self) -> str:
        return "1 second" if self.seconds == 1 else f"{self.seconds:g} seconds"

    @property
    def sentence(self) -> str:
        """Which kernel to use, as Python to paste, and how certain the choice is."""
        best, name = self.best, _name(self.best.kernel)
        if not best.reliable:
            return (
                f"No kernel's chains agree after {self._span} (R-hat of {name} is "
                f"{best.r_hat:.3g}): compare for longer, or sample with temper=hs.Tempering()."
            )
        text = f"Use {name}: {best.ess_per_second:,.0f} effective draws a second"
        chosen = _name(choose(self.target).kernel)
        return f"{text}{self._next_best()}. hs.sample chooses {chosen} by itself."

    def _next_best(self) -> str:
        """How far the others are behind, if that can be told."""
        close = [_name(c.kernel) for c in self.close]
        if close:
            verb = "is" if len(close) == 1 else "are"
            return f". {tables.listed(close)} {verb} within {CLOSE:.0%}, too close to call"
        if len(self.candidates) == 1:
            return ""
        second = self.candidates[1]
        if not second.reliable:
            return f"; the chains of {_name(second.kernel)}, the next, do not agree yet"
        times = self.best.ess_per_second / second.ess_per_second
        return f", {times:.2g} times those of {_name(second.kernel)}, the next best"

    def summary(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        rows = []
        for c in self.candidates:
            row = {f.name: getattr(c, f.name) for f in dataclasses.fields(c)}
            row |= {"kernel": describe(c.kernel), "reliable": c.reliable}
            if math.isnan(c.r_hat):
                row["r_hat"] = None
            rows.append(row)
        return {
            "target": type(self.target).__name__,
            "sites": self.target.num_sites,
            "chains": self.chains,
            "seconds": self.seconds,
            "candidates": rows,
            "best": describe(self.kernel),
            "sentence": self.sentence,
        }

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=100).print(self.__rich__())
        return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.html(self)

    def __rich__(self) -> Group:
        return self.shown()

    def shown(self, words: Callable[[str], str] = str) -> Group:
        """The comparison as a table, with its conclusion put in other words by this function."""
        shape = " x ".join(map(str, self.target.shape))
        title = f"{type(self.target).__name__} ({shape}), {self.chains:,} chains, {self._span} each"
        columns = {
            "kernel": [_name(c.kernel).removeprefix("hs.") for c in self.candidates],
            "ESS/s": [_rate(c.ess_per_second) for c in self.candidates],
            "R-hat": [f"{c.r_hat:.3f}" for c in self.candidates],
            "with warm-up": [_rate(c.ess_per_second_all) for c in self.candidates],
            "ESS/draw": [f"{c.ess / max(c.draws * self.chains, 1):.3g}" for c in self.candidates],
            "steps/s": [f"{c.steps_per_second:,.0f}" for c in self.candidates],
        }
        sentence = Text(words(self.sentence))
        return Group(Text(title, style="italic"), "", tables.Columns(columns), "", sentence)


def _name(kernel: Kernel) -> str:
    """A kernel as Python to paste."""
    return describe(kernel, to_paste=True)


def _rate(value: float) -> str:
    """A number a second: three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def compare(
    target: Target,
    seconds: float = 30.0,
    *,
    kernels: Sequence[Kernel] | None = None,
    chains: int = 100,
    key: Any = 0,
) -> Comparison:
    """Run the kernels that could sample a target, and say which to use.

    Each kernel has the same time, a quarter of it for warm-up. Kernels are ranked by effective
    draws per second, of all chains together, for the statistic with the fewest.

    Args:
        target: what to sample.
        seconds: time for each kernel, not counting compilation.
        kernels: the kernels to compare. None: LBP with either balancing function, GWG, RWM, and
            sweeps if they are feasible.
        chains: the number of chains, run side by side.
        key: a seed or a JAX key.

    Raises:
        Interrupted: after Ctrl-C, with a comparison of the kernels timed so far as `.partial`.
    """
    validate.instance("target", target, Target, "hs.Bernoulli(p)")
    validate.number("seconds", seconds, 0.0, 1e9, "()")
    if kernels is None:
        kernels = candidates(target)
    elif not isinstance(kernels, list | tuple) or not all(isinstance(k, Kernel) for k in kernels):
        raise TypeError(f"kernels must be a list such as [hs.LBP(), hs.Gibbs()]; got {kernels!r}.")
    if not kernels:
        raise ValueError("kernels must be a list such as [hs.LBP(), hs.Gibbs()]; got none.")
    found: list[Candidate] = []

    def compared() -> Comparison:
        return Comparison(target, tuple(sorted(found, key=place)), seconds, chains)

    for kernel in kernels:
        try:
            found.append(_timed(target, kernel, seconds, chains, key))
        except KeyboardInterrupt:
            raise host.Interrupted(
                f"stopped after {len(found)} of {len(kernels)} kernels",
                compared() if found else None,
                ".partial compares those that were timed" if found else "",
            ) from None
    return compared()


def place(one: Candidate) -> tuple[bool, float]:
    """The sort key: by effective draws per second, then unreliable ones by R-hat."""
    if one.reliable:
        return False, -one.ess_per_second
    return True, math.inf if math.isnan(one.r_hat) else one.r_hat


def candidates(target: Target) -> list[Kernel]:
    """The kernels worth trying."""
    found: list[Kernel] = [LBP(), LBP(balance="sqrt"), GWG(), RWM()]
    pairs = isinstance(target.sweep(), PairSweep)
    if pairs or as_rbm(target) is not None or target.num_sites * target.num_states <= EVALUATED:
        found.insert(0, Gibbs())
    if pairs:
        found.insert(1, Gibbs(rule="metropolis"))
    suited = target.suited()
    return found if suited is None else [suited[0], *found]


def _timed(target: Target, kernel: Kernel, seconds: float, chains: int, key) -> Candidate:
    """The result of a run of about this many seconds."""

    def run(warmup: int, draws: int, most: float | None) -> Run:
        plan = Plan.of([target], kernel, [key], [None], chains, warmup, draws)
        job = plan.begin()
        limits: dict[str, Any] = {}
        if most is not None:
            limits = {"minutes": most / 60, "seconds": min(0.5, most / 8)}
        if host.drive(job, progress=False, **limits) == "interrupted":
            raise KeyboardInterrupt
        return make_runs(job, plan)[0]

    rate = run(0, PILOT, None).steps_per_second
    warmup = int(min(max(WARMUP_SHARE * seconds * rate, FEWEST), MOST))
    draws = int(min(max(ENOUGH * seconds * rate, FEWEST), MOST_DRAWS))
    return _candidate(run(warmup, draws, seconds))


def _candidate(run: Run) -> Candidate:
    steps = run.warmup + run.num_draws
    drawing = run.run_seconds * run.num_draws / max(steps, 1)
    counted = {n: s.ess_total for n, s in run.statistics.items() if math.isfinite(s.ess_total)}
    worst = min(counted, key=lambda name: counted[name]) if counted else ""
    ess = counted.get(worst, 0.0)
    return Candidate(
        kernel=run.kernel,
        ess=ess,
        worst=worst,
        ess_per_second=ess / drawing if drawing else 0.0,
        ess_per_second_all=ess / run.run_seconds if run.run_seconds else 0.0,
        r_hat=run.r_hat,
        draws=run.num_draws,
        steps_per_second=run.steps_per_second,
        seconds=run.run_seconds,
        agree=chains_agree(run),
    )
