"""What a run returns."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import jax
import numpy as np
from rich.console import Group
from rich.text import Text

from hopscale import deprecated, tables
from hopscale.engine.pages import STEP_NUMBERS
from hopscale.kernels.kernel import Kernel
from hopscale.results import tempering
from hopscale.results.advice import advice
from hopscale.results.statistic import Statistic
from hopscale.results.tempering import TemperingResult
from hopscale.target import Target
from hopscale.targets.ratios import has_choice
from hopscale.tune import Tuner

MAIN = "hamming"  # the statistic whose effective sample size a run reports, as the paper does
WRITTEN_OUT = 64  # the most entries of an array that are written out in Python to paste


class ConvergenceWarning(UserWarning):
    """The draws of a run should not be trusted, or not yet."""


@dataclasses.dataclass(frozen=True)
class Run:
    """The statistics of the draws, and how they were made.

    Attributes:
        target, kernel, tuner: what was sampled, by what, and what tuned the scale.
        chains, warmup, num_draws: the number of chains, and of steps of each.
        scale: the frozen R, one number or one for each chain; None for kernels without a scale.
        accept_prob_by_chain, distance_by_chain: the mean acceptance probability and jump distance
            of each chain's draws.
        statistics: by name: "log_prob", "hamming" (distances to random states), and what was
            asked for in `record`.
        recorded: the results of recorders asked for in `record`, by name.
        draws: kept states, of shape (chains, kept, *shape); None unless asked for.
        last: the state of each chain after the last step.
        warmup_history, history: the mean over chains of "accept_prob", "distance", "invalid" and
            "scale" along warm-up and draws, in blocks of equal length.
        invalid: proposals, warm-up included, whose log-density was NaN or +inf, or whose
            log-ratios were NaN; each was rejected. `offender` is the first of them.
        undefined: neighbours of the last states of all chains whose log-density was NaN or +inf,
            where exact ratios gave them weight 0; or those that the last sweep gave weight 0.
        evaluations: how often the target was evaluated, or an evaluation updated, over all chains.
        compile_seconds, run_seconds: the time that compiling and running took.
        interrupted: whether Ctrl-C cut the run short.
        resumable: what `extend` goes on from.
        cautions: warnings from before the first step.
        reason: why this kernel was chosen; empty if it was given.
        every: the number of draws from one kept state to the next.
    """

    target: Target
    kernel: Kernel
    tuner: Tuner
    chains: int
    warmup: int
    num_draws: int
    scale: Any
    accept_prob_by_chain: np.ndarray
    distance_by_chain: np.ndarray
    statistics: Mapping[str, Statistic]
    recorded: Mapping[str, Any]
    warmup_history: Mapping[str, np.ndarray]
    history: Mapping[str, np.ndarray]
    draws: np.ndarray | None
    last: np.ndarray
    invalid: int
    offender: np.ndarray | None
    evaluations: int
    compile_seconds: float
    run_seconds: float
    interrupted: bool
    resumable: Any = dataclasses.field(default=None, repr=False)
    cautions: tuple[str, ...] = ()
    reason: str = ""
    every: int = 1
    undefined: int = 0

    @property
    def sampler(self) -> Kernel:
        """The kernel."""
        return self.kernel

    @property
    def trace(self) -> np.ndarray:
        """Deprecated: `statistics["hamming"].trace`."""
        return self._renamed("trace")

    @property
    def block(self) -> int:
        """Deprecated: `statistics["hamming"].block`."""
        return self._renamed("block")

    @property
    def ess_by_chain(self) -> np.ndarray:
        """Deprecated: `statistics["hamming"].ess_by_chain`."""
        return self._renamed("ess_by_chain")

    def _renamed(self, name: str) -> Any:
        deprecated.warn(f"run.{name}", f"run.statistics[{MAIN!r}].{name}", stacklevel=4)
        return getattr(self.statistics[MAIN], name)

    @property
    def acceptance(self) -> float:
        """Mean acceptance probability of the drawn steps."""
        return float(self.accept_prob_by_chain.mean())

    @property
    def ejd(self) -> float:
        """Expected jump distance: mean Hamming distance moved per step, rejections counted as 0."""
        return float(self.distance_by_chain.mean())

    @property
    def ess(self) -> float:
        """Effective sample size per chain, of the Hamming distance to a random state."""
        return self.statistics[MAIN].ess

    @property
    def ess_per_draw(self) -> float:
        """`ess` as a share of the draws."""
        return self.ess / self.num_draws if self.num_draws else float("nan")

    @property
    def r_hat(self) -> float:
        """The largest R-hat of all statistics."""
        found = [statistic.r_hat for statistic in self.statistics.values()]
        defined = [value for value in found if not np.isnan(value)]
        return max(defined) if defined else float("nan")

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Why the draws should not be trusted, a sentence each, with what to do; often none."""
        return advice(self)

    @property
    def ratios(self) -> str | None:
        """The kind of log-ratios used; None if none were, or if the target has only one kind."""
        return self.target.ratios if self.kernel.informed and has_choice(self.target) else None

    @property
    def seconds(self) -> float:
        """The time of the run, with compilation."""
        return self.compile_seconds + self.run_seconds

    @property
    def steps_per_second(self) -> float:
        """Steps of all chains together, compilation left out."""
        steps = self.warmup + self.num_draws
        return steps / self.run_seconds if self.run_seconds else float("nan")

    @property
    def tempering(self) -> TemperingResult | None:
        """The results of parallel tempering; None without it."""
        return self.recorded.get(tempering.NAME)

    def extend(self, draws: int, **options: Any) -> "Run":
        """The run with more draws: the same as if it had been that long from the start.

        Args:
            draws: how many more.
            **options: `progress`, `checkpoint`, `chunk` and `devices`, as for `hs.sample`. Without
                `devices` the run continues where it ran, or on JAX's default device if it was
                loaded from a file.
        """
        from hopscale.runs import run as running

        return running.extend(self, draws, **options)

    def save(self, path, overwrite: bool = False) -> None:
        """Write the run to a file, from which `hs.load` can read it and continue it."""
        from hopscale.runs import saving

        saving.save(self, path, overwrite)

    def summary(self) -> dict[str, Any]:
        """The numbers of the run, ready for JSON."""
        scale = None if self.scale is None else np.asarray(self.scale)
        return {
            "target": type(self.target).__name__,
            "sites": self.target.num_sites,
            "sampler": describe(self.kernel),
            "ratios": self.ratios,
            "reason": self.reason,
            "chains": self.chains,
            "warmup": self.warmup,
            "draws": self.num_draws,
            "scale": None if scale is None else scale.tolist(),
            "acceptance": self.acceptance,
            "ejd": self.ejd,
            "ess": self.ess,
            "ess_per_draw": self.ess_per_draw,
            "r_hat": self.r_hat,
            "statistics": {
                name: {"mean": s.mean, "error": s.error, "ess": s.ess, "r_hat": s.r_hat}
                for name, s in self.statistics.items()
            },
            **({"tempering": self.tempering.summary()} if self.tempering else {}),
            "warnings": list(self.warnings),
            "evaluations": self.evaluations,
            "invalid": self.invalid,
            "undefined": self.undefined,
            "steps_per_second": self.steps_per_second,
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "run_seconds": self.run_seconds,
            "interrupted": self.interrupted,
        }

    def __str__(self) -> str:
        return tables.text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.html(self)

    def __rich__(self) -> Group:
        return self.shown()

    def shown(self, words: Callable[[str], str] = str) -> Group:
        """The run as a table, with its warnings put in other words by this function."""
        lattice = " x ".join(map(str, self.target.shape))
        title = f"{type(self.target).__name__} ({lattice}) by {describe(self.kernel)}"
        notes = [Text(f"! {words(sentence)}", style="yellow") for sentence in self.warnings]
        return Group(tables.table(title, self._rows()), *notes)

    def _rows(self):
        steps = f"{self.chains:,} x ({self.warmup:,} warm-up + {self.num_draws:,} draws)"
        if self.reason:
            yield "chosen", self.reason
        yield "chains", steps + (", stopped by Ctrl-C" if self.interrupted else "")
        if self.ratios is not None:
            yield "log-ratios", self.ratios
        scales = self.kernel.scale_range(self.target)
        if self.scale is not None and scales is not None:
            scale = np.asarray(self.scale)
            spread = f" (from {scale.min():.4g} to {scale.max():.4g})" if scale.ndim else ""
            yield "scale R", f"{scale.mean():.4g}{spread} of {scales.high:,.0f} {scales.unit}"
        yield "acceptance", _with_error(self.accept_prob_by_chain)
        yield "jump distance", f"{_with_error(self.distance_by_chain)} sites a step"
        by_chain = self.statistics[MAIN].ess_by_chain
        yield "ESS", f"{_with_error(by_chain)} a chain, {self.ess_per_draw:.3g} a draw"
        yield "R-hat", f"{self.r_hat:.4f}"
        for name, statistic in self.statistics.items():
            if not name.startswith(MAIN):
                yield name, f"{statistic.mean:.6g} ± {statistic.error:.2g}"
        if self.tempering is not None:
            yield from _tempering_rows(self.tempering, self.num_draws * self.chains)
        yield "evaluations", f"{self.evaluations:,}"
        yield (
            "seconds",
            f"{self.run_seconds:.3g} run ({self.steps_per_second:,.0f} steps/s) "
            f"+ {self.compile_seconds:.3g} compile",
        )
        if self.invalid:
            yield "INVALID", f"density or ratios not a number at {self.invalid:,} proposals"
            shown = np.array2string(np.asarray(self.offender), threshold=12, separator=" ")
            yield "  first at", " ".join(shown.split())

    def plot(self):
        """A figure of how the run went: trace, ranks, scale and acceptance; see `hs.plot.run`."""
        from hopscale import plot

        return plot.run(self)

    def to_arviz(self):
        """The run as ArviZ data: InferenceData before ArviZ 1.0, a DataTree from 1.0 on.

        - `posterior`: the kept states, as `x`, with the statistics of the same draws; without kept
          states, the statistics of all draws. `draw` is the number of the draw.
        - `sample_stats`: `lp` and `energy` of each draw, and the acceptance rate, distance and
          scale of its step, averaged over chains.
        - `warmup_sample_stats`: acceptance rate, distance and scale during warm-up.
        - `statistics`: in long runs that kept states (more than 16,384 draws, or fewer with many
          chains), the statistics, averaged over blocks of draws.

        `run.to_arviz().to_netcdf("run.nc")` writes it to a file.
        """
        from hopscale.adapters.arviz import to_arviz

        return to_arviz(self)

    def to_pandas(self):
        """The statistics as a table: mean, its Monte Carlo error, sd, ESS of all chains, R-hat."""
        from hopscale.adapters.arviz import to_pandas

        return to_pandas(self)


def history_by_name(values: np.ndarray) -> dict[str, np.ndarray]:
    """A history of shape (blocks, numbers) as arrays by name."""
    return {name: values[:, i].copy() for i, name in enumerate(STEP_NUMBERS)}


def describe(kernel: Kernel, to_paste: bool = False) -> str:
    """A kernel as its user would write it; keyword-only settings appear only if changed.

    Args:
        kernel: what to describe.
        to_paste: as short Python that makes the kernel, with hopscale as `hs`: only settings that
            were changed. A long array or a lambda becomes a variable with the name of the setting.
    """
    settings = []
    for field in dataclasses.fields(kernel):
        value = getattr(kernel, field.name)
        usual = not isinstance(value, jax.Array | np.ndarray) and value == field.default
        if not field.repr or (usual and (field.kw_only or to_paste)):
            continue
        text = getattr(value, "__name__", repr(value))
        if isinstance(value, Kernel):
            text = describe(value, to_paste)
        elif isinstance(value, jax.Array | np.ndarray):
            short = to_paste and value.size <= WRITTEN_OUT
            text = str(np.asarray(value).tolist() if short else f"array{list(value.shape)}")
        if to_paste and text.startswith(("array[", "<")):  # not Python, such as a lambda's name
            text = field.name
        settings.append(f"{field.name}={text}")
    ours = to_paste and type(kernel).__module__.startswith("hopscale.")
    return f"{'hs.' if ours else ''}{type(kernel).__name__}({', '.join(settings)})"


def _tempering_rows(found: TemperingResult, draws: int):
    rejected = found.rejections
    yield (
        "levels",
        f"{found.betas.size}, swaps rejected {rejected.mean():.0%} (at most {rejected.max():.0%})",
    )
    yield "barrier", f"{found.barrier:.3g}"
    each = f", one in {draws / found.round_trips:.3g} draws" if found.round_trips else ""
    yield "round trips", f"{found.round_trips:,}{each}"
    yield "log Z", f"{found.log_z:.6g} ± {found.log_z_error:.2g}"


def _with_error(by_chain: np.ndarray) -> str:
    """The mean over chains, with its standard error if there are several."""
    mean = f"{by_chain.mean():.4g}"
    if by_chain.size < 2:
        return mean
    return f"{mean} ± {by_chain.std(ddof=1) / np.sqrt(by_chain.size):.2g}"
