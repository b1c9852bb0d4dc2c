"""What a run returns."""

import dataclasses
import io
from functools import cached_property
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from hopscale import diagnostics
from hopscale.sampler import Sampler
from hopscale.target import Target


@dataclasses.dataclass(frozen=True)
class Run:
    """The draws' statistics, and how they were made.

    Attributes:
        scale: the frozen R, one number or one for each chain.
        draws: kept states, of shape (chains, kept, *shape); None unless asked for.
        last: the state of each chain after the last step, to go on from.
        trace: the statistic's history, of shape (chains, blocks), each entry the mean of `block`
            draws (1 in runs of up to 16,384 draws).
        invalid: proposals, warm-up included, whose log-density was NaN or +inf; each was
            rejected. `offender` is the first of them.
        evaluations: how often the target was evaluated, over all chains.
        interrupted: whether Ctrl-C cut the run short.
    """

    target: Target
    sampler: Sampler
    chains: int
    warmup: int
    num_draws: int
    scale: float | np.ndarray
    accept_prob_by_chain: np.ndarray
    distance_by_chain: np.ndarray
    statistic_mean: np.ndarray
    statistic_variance: np.ndarray
    trace: np.ndarray
    block: int
    draws: np.ndarray | None
    last: np.ndarray
    invalid: int
    offender: np.ndarray | None
    evaluations: int
    compile_seconds: float
    run_seconds: float
    interrupted: bool

    @property
    def acceptance(self) -> float:
        """Mean acceptance probability of the drawn steps."""
        return float(self.accept_prob_by_chain.mean())

    @property
    def ejd(self) -> float:
        """Expected jump distance: mean Hamming distance moved a step, rejections counted as 0."""
        return float(self.distance_by_chain.mean())

    @cached_property
    def ess_by_chain(self) -> np.ndarray:
        return diagnostics.effective_sample_size(self.trace, self.block, self.statistic_variance)

    @property
    def ess(self) -> float:
        """Effective sample size of the statistic, per chain."""
        return float(self.ess_by_chain.mean())

    @property
    def ess_per_draw(self) -> float:
        return self.ess / self.num_draws if self.num_draws else float("nan")

    @cached_property
    def r_hat(self) -> float:
        """Rank-normalised split R-hat of the statistic over all chains."""
        return diagnostics.r_hat(self.trace)

    @property
    def seconds(self) -> float:
        return self.compile_seconds + self.run_seconds

    @property
    def steps_per_second(self) -> float:
        """Steps of all chains together, compilation left out."""
        steps = self.warmup + self.num_draws
        return steps / self.run_seconds if self.run_seconds else float("nan")

    def summary(self) -> dict[str, Any]:
        """The numbers of the run, ready for JSON."""
        scale = np.asarray(self.scale)
        return {
            "target": type(self.target).__name__,
            "sites": self.target.num_sites,
            "sampler": describe(self.sampler),
            "chains": self.chains,
            "warmup": self.warmup,
            "draws": self.num_draws,
            "scale": float(scale) if scale.ndim == 0 else scale.tolist(),
            "acceptance": self.acceptance,
            "ejd": self.ejd,
            "ess": self.ess,
            "ess_per_draw": self.ess_per_draw,
            "r_hat": self.r_hat,
            "evaluations": self.evaluations,
            "invalid": self.invalid,
            "steps_per_second": self.steps_per_second,
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "run_seconds": self.run_seconds,
            "interrupted": self.interrupted,
        }

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=88).print(self.__rich__())
        return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())

    __repr__ = __str__

    def __rich__(self) -> Table:
        lattice = " x ".join(map(str, self.target.shape))
        table = Table(
            title=f"{type(self.target).__name__} ({lattice}) by {describe(self.sampler)}",
            title_justify="left",
            box=box.SIMPLE_HEAD,
            show_header=False,
            pad_edge=False,
        )
        for name, value in self._rows():
            table.add_row(name, value)
        return table

    def _rows(self):
        steps = f"{self.chains:,} x ({self.warmup:,} warm-up + {self.num_draws:,} draws)"
        yield "chains", steps + (", stopped by Ctrl-C" if self.interrupted else "")
        scale = np.asarray(self.scale)
        spread = f" (from {scale.min():.4g} to {scale.max():.4g})" if scale.ndim else ""
        yield "scale R", f"{scale.mean():.4g}{spread} of {self.target.num_sites:,} sites"
        yield "acceptance", _with_error(self.accept_prob_by_chain)
        yield "jump distance", f"{_with_error(self.distance_by_chain)} sites a step"
        yield "ESS", f"{_with_error(self.ess_by_chain)} a chain, {self.ess_per_draw:.3g} a draw"
        yield "R-hat", f"{self.r_hat:.4f}"
        yield "evaluations", f"{self.evaluations:,}"
        yield (
            "seconds",
            f"{self.run_seconds:.3g} run ({self.steps_per_second:,.0f} steps/s) "
            f"+ {self.compile_seconds:.3g} compile",
        )
        if self.invalid:
            yield "INVALID", f"log-density NaN or +inf at {self.invalid:,} proposals, rejected"
            shown = np.array2string(np.asarray(self.offender), threshold=12, separator=" ")
            yield "  first at", " ".join(shown.split())

    def to_arviz(self):
        """The run as ArviZ data: InferenceData before ArviZ 1.0, a DataTree since."""
        try:
            import arviz
        except ImportError as error:
            raise ImportError("to_arviz needs ArviZ: pip install 'hopscale[arviz]'.") from error
        if self.draws is None:
            groups = {"posterior": {"statistic": self.trace}}
        else:
            groups = {"posterior": {"x": self.draws}}
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict(groups)  # pyright: ignore[reportArgumentType]
        return arviz.from_dict(**groups)  # pyright: ignore[reportArgumentType]


def describe(sampler: Sampler) -> str:
    """A sampler as its user would write it."""
    settings = []
    for field in dataclasses.fields(sampler):
        value = getattr(sampler, field.name)
        text = value if isinstance(value, str) else getattr(value, "__name__", repr(value))
        settings.append(f"{field.name}={text}")
    return f"{type(sampler).__name__}({', '.join(settings)})"


def _with_error(by_chain: np.ndarray) -> str:
    """The mean over chains, with its standard error where there are several."""
    mean = f"{by_chain.mean():.4g}"
    if by_chain.size < 2:
        return mean
    return f"{mean} ± {by_chain.std(ddof=1) / np.sqrt(by_chain.size):.2g}"
